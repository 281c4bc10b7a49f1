#include "lowering/ptx_to_blocks/expand/expand_warp.h"

#include <algorithm>

#include "lowering/ptx_to_blocks/expand/warp_expander.h"

namespace qgpu::lower {

absl::Status WarpRefusal(const IrFunction& function, int value, const std::string& why) {
  const int origin = function.at(value).origin;
  const SlotOrigin at = origin < 0 ? SlotOrigin{} : function.origins[origin];
  const std::string cuda = at.cuda_line == 0 ? "" : fmt::format(" (CUDA line {})", at.cuda_line);
  return absl::UnimplementedError(fmt::format("{}:{}{}: {}: not supported by the machine's lowering: {}",
                                              function.source, at.ptx_line, cuda, at.text, why));
}

absl::Status WarpExpander::CheckStep(int step) {
  step_ = step;
  const IrInstruction& in = f_.at(step);
  if (in.op == IrOp::kBlockBallot) return absl::OkStatus();  // the barrier itself finds who does not come
  if (in.op != IrOp::kActiveMask) QGPU_RETURN_IF_ERROR(CheckMask(in.args.back()));
  const Spread spread = uniformity_.block[Home()];
  const bool in_pass = !OneMachineWarp() && in.op == IrOp::kShuffle && StaysInWarp(in);
  if (spread == Spread::kUniform || (spread == Spread::kByWarp && in_pass && !uniformity_.skewed[Home()])) {
    return absl::OkStatus();
  }
  return WarpRefusal(f_, step,
                     "inside divergent code: all threads of the thread block that have not exited must come here");
}

absl::Status WarpExpander::CheckMask(int mask) const {
  const uint32_t all = AllThreads();
  const IrInstruction& in = f_.at(mask);
  if (in.op == IrOp::kConst) {
    if ((in.immediate & all) == all) return absl::OkStatus();
    return WarpRefusal(f_, step_,
                       fmt::format("with a partial mask: {:#x} does not name all {} threads of the thread block",
                                   in.immediate, threads_));
  }
  // The live threads, counted where all of them were: whoever is still there is one of them.
  if (live_masks_.count(mask) != 0) return absl::OkStatus();
  return WarpRefusal(f_, step_, "with a partial mask: it is not proven to name all threads of the thread block");
}

int WarpExpander::Emit(IrOp op, Type type, std::vector<int> args) {
  IrInstruction in;
  in.op = op;
  in.type = type;
  in.args = std::move(args);
  in.origin = f_.at(step_).origin;
  const int block = f_.at(step_).block;
  const std::vector<int>& list = f_.blocks[block].instructions;
  const auto at = std::find(list.begin(), list.end(), step_) - list.begin();
  return f_.Add(block, std::move(in), static_cast<int>(at));
}

void WarpExpander::Barrier() {
  const int before = f_.at(step_).block;
  SplitBefore(f_, step_);
  f_.blocks[before].end.kind = TerminatorKind::kBarrier;
  f_.blocks[before].end.origin = f_.at(step_).origin;
  together_.insert(f_.at(step_).block);
}

void WarpExpander::Replace(int result) {
  const int zero = Const(0);  // may add to the list: no reference survives that
  IrInstruction& step = f_.at(step_);
  step.op = IrOp::kAdd;  // a copy, which Simplify removes
  step.args = {result, zero};
  step.immediate = 0;
}

absl::Status WarpExpander::Expand(int step) {
  step_ = step;
  const IrInstruction in = f_.at(step);
  switch (in.op) {
    case IrOp::kShuffle:
      return ExpandShuffle(in);
    case IrOp::kBallot:
    case IrOp::kBlockBallot:
      return ExpandBallot(in);
    case IrOp::kActiveMask: {
      QGPU_ASSIGN_OR_RETURN(const int live, LiveThreads());
      live_masks_[step] = true;
      Replace(live);
      return absl::OkStatus();
    }
    case IrOp::kMatchAny:
      return OneMachineWarp() ? MatchAnyInPass(in) : MatchAnyInMemory(in);
    case IrOp::kMatchAll:
      return OneMachineWarp() ? MatchAllInPass(in) : MatchAllInMemory(in);
    case IrOp::kWarpSync:
      if (threads_ > 1) Barrier();
      Remove();
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

absl::StatusOr<WarpExpander::Buffer*> WarpExpander::TakeBuffer(std::optional<Buffer>& buffer, uint32_t words) {
  if (!buffer) {
    QGPU_ASSIGN_OR_RETURN(const uint32_t address, layout_.TakeScratchWords(words));
    buffer = Buffer{{address, address}};
  }
  return &*buffer;
}

int WarpExpander::Store(Exchange& exchange, int address, int value) {
  const int store = Emit(IrOp::kStore, Type::kNone, {address, value});
  f_.at(store).immediate = exchange.buffer->address[0];
  f_.at(store).space = AccessSpace::kScratch;
  exchange.stores.push_back(store);
  return store;
}

int WarpExpander::Load(Exchange& exchange, int address) {
  const int load = Emit(IrOp::kLoad, {address});
  f_.at(load).immediate = exchange.buffer->address[0];
  f_.at(load).space = AccessSpace::kScratch;
  exchange.loads.push_back(load);
  return load;
}

bool HasCommonSteps(const IrFunction& function) {
  for (const IrBlock& block : function.blocks) {
    for (int value : block.instructions) {
      if (IsConvergent(function.at(value).op)) return true;
    }
  }
  return false;
}

absl::Status ExpandWarp(IrFunction& function, const Dim3& grid, const Dim3& block, MemoryLayout& layout) {
  if (!HasCommonSteps(function)) return absl::OkStatus();
  return WarpExpander(function, grid, block, layout).Run();
}

absl::Status CheckLanesTogether(const IrFunction& function, const FlowGraph& flow, const Dim3& block) {
  if (block.Count() == 1 || !HasCommonSteps(function)) return absl::OkStatus();
  const Uniformity uniformity = AnalyzeUniformity(function, flow, block);
  for (int at : flow.order) {
    for (int value : function.blocks[at].instructions) {
      if (!IsConvergent(function.at(value).op)) continue;
      if (uniformity.block[at] == Spread::kDivergent || uniformity.skewed[at]) {
        return WarpRefusal(function, value,
                           "inside divergent code: lanes of a machine warp may come here at different times");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace qgpu::lower
