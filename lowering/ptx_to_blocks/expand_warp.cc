#include "lowering/ptx_to_blocks/expand_warp.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "lowering/ptx_to_blocks/ranges.h"
#include "lowering/ptx_to_blocks/warp_expander.h"

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

namespace {

// What a comparison of numbers within these bounds gives, where it is always the same.
std::optional<bool> KnownComparison(Compare compare, const Range& a, const Range& b) {
  if (a.empty() || b.empty()) return std::nullopt;
  const bool same_order = a.low >= 0 && b.low >= 0;  // signed and unsigned
  const auto less = [&](const Range& x, const Range& y, bool or_equal) -> std::optional<bool> {
    if (or_equal ? x.high <= y.low : x.high < y.low) return true;
    if (or_equal ? x.low > y.high : x.low >= y.high) return false;
    return std::nullopt;
  };
  switch (compare) {
    case Compare::kLtU:
    case Compare::kLtS:
      return compare == Compare::kLtS || same_order ? less(a, b, false) : std::nullopt;
    case Compare::kLeU:
    case Compare::kLeS:
      return compare == Compare::kLeS || same_order ? less(a, b, true) : std::nullopt;
    case Compare::kGtU:
    case Compare::kGtS:
      return compare == Compare::kGtS || same_order ? less(b, a, false) : std::nullopt;
    case Compare::kGeU:
    case Compare::kGeS:
      return compare == Compare::kGeS || same_order ? less(b, a, true) : std::nullopt;
    case Compare::kEq:
    case Compare::kNe:
      if (a.high < b.low || b.high < a.low) return compare == Compare::kNe;
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

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

bool FoldByShape(IrFunction& function, const Dim3& grid, const Dim3& block) {
  LaunchFacts facts;  // no arguments
  facts.grid = grid;
  facts.block = block;
  facts.token_budget = std::numeric_limits<int64_t>::max();
  const std::vector<Range> ranges = AnalyzeRanges(function, AnalyzeFlow(function), facts);
  bool changed = false;
  for (const IrBlock& at : function.blocks) {
    for (int value : at.instructions) {
      const IrInstruction in = function.at(value);
      if (in.op == IrOp::kCompare && function.at(in.args[0]).type == Type::kI32) {
        const Range &a = ranges[in.args[0]], &b = ranges[in.args[1]];
        const std::optional<bool> known = KnownComparison(in.compare, a, b);
        if (!known) continue;
        function.at(value).op = IrOp::kPredOr;  // a copy, which Simplify removes
        const int constant = function.Constant(Type::kPredicate, *known);
        function.at(value).args = {constant, constant};
        changed = true;
      } else if (in.type == Type::kI32 && (in.op == IrOp::kShr || in.op == IrOp::kSar || in.op == IrOp::kAnd) &&
                 ranges[value].low == ranges[value].high) {
        const int constant = function.Constant(Type::kI32, static_cast<uint64_t>(ranges[value].low));
        function.at(value).op = IrOp::kOr;
        function.at(value).args = {constant, constant};
        changed = true;
      }
    }
  }
  return changed;
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
