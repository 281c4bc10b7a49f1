// Nobody may write words that others have yet to read: where a barrier is needed, and where a second set of words saves
// it.
#include "lowering/ptx_to_blocks/expand/warp_expander.h"

namespace qgpu::lower {

absl::Status WarpExpander::OrderExchanges() {
  const int with_one = CountConflicts();
  if (with_one == 0) return absl::OkStatus();
  bool second = false;
  for (std::optional<Buffer>* buffer : {&value_words_[0], &value_words_[1], &ballot_words_}) {
    if (!*buffer) continue;
    const auto words = static_cast<uint32_t>(buffer == &ballot_words_ ? Warps() : threads_);
    if (layout_.free_words() < words || CountUses(&**buffer) < 2) continue;
    QGPU_ASSIGN_OR_RETURN((*buffer)->address[1], layout_.TakeScratchWords(words));
    second = true;
  }
  if (second) TakeTurns();
  for (Exchange& exchange : exchanges_) {
    for (int store : exchange.stores) {
      const std::vector<int> loads = Conflicting(store);
      if (loads.empty()) continue;
      if (BeginsItsBlock(store)) {
        WaitBehind(loads);
      } else {
        step_ = store;
        Barrier();
      }
    }
  }
  return absl::OkStatus();
}

bool WarpExpander::BeginsItsBlock(int store) const {
  for (int value : f_.blocks[f_.at(store).block].instructions) {
    if (value == store) return true;
    const IrInstruction& in = f_.at(value);
    const bool placeless = std::all_of(in.args.begin(), in.args.end(), [&](int arg) { return f_.IsPlaceless(arg); });
    if (in.op != IrOp::kPhi && (!placeless || IsAccess(in.op))) return false;
  }
  return false;
}

void WarpExpander::WaitBehind(const std::vector<int>& loads) {
  for (int load : loads) {
    const int block = f_.at(load).block;
    const std::vector<int>& list = f_.blocks[block].instructions;
    size_t position = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      bool involved = false;
      for (int other : loads) {
        involved = involved || list[i] == other;
        ForEachOperand(std::as_const(f_).at(list[i]), [&](int operand) { involved = involved || operand == other; });
      }
      if (involved) position = i + 1;
    }
    if (position == 0 || f_.blocks[block].end.kind == TerminatorKind::kBarrier) continue;  // done for another load
    const int origin = f_.at(load).origin;
    SplitAt(f_, block, position);
    f_.blocks[block].end.kind = TerminatorKind::kBarrier;
    f_.blocks[block].end.origin = origin;
  }
}

void WarpExpander::TakeTurns() {
  std::map<Buffer*, int> turns;
  for (Exchange& exchange : exchanges_) {
    const uint32_t address = exchange.buffer->address[turns[exchange.buffer]++ % 2];
    const uint32_t first = exchange.buffer->address[0];
    for (const std::vector<int>* list : {&exchange.stores, &exchange.loads}) {
      for (int access : *list) f_.at(access).immediate += address - first;
    }
  }
}

int WarpExpander::CountConflicts() const {
  int count = 0;
  for (const Exchange& exchange : exchanges_) {
    count += static_cast<int>(std::count_if(exchange.stores.begin(), exchange.stores.end(),
                                            [&](int store) { return !Conflicting(store).empty(); }));
  }
  return count;
}

std::vector<int> WarpExpander::Conflicting(int store) const {
  std::vector<int> found;
  std::vector<bool> wanted(f_.instructions.size(), false);
  for (const Exchange& exchange : exchanges_) {
    for (int load : exchange.loads) wanted[load] = SetOf(load) == SetOf(store);
  }
  const auto take = [&](auto first, auto last) {
    std::copy_if(first, last, std::back_inserter(found), [&](int value) { return wanted[value]; });
  };
  const FlowGraph flow = AnalyzeFlow(f_);
  const int home = f_.at(store).block;
  const std::vector<int>& list = f_.blocks[home].instructions;
  take(list.begin(), std::find(list.begin(), list.end(), store));
  std::vector<bool> seen(f_.blocks.size(), false);
  std::vector<int> work = flow.predecessors[home];
  while (!work.empty()) {
    const int block = work.back();
    work.pop_back();
    if (seen[block] || f_.blocks[block].end.kind == TerminatorKind::kBarrier) continue;
    seen[block] = true;
    take(f_.blocks[block].instructions.begin(), f_.blocks[block].instructions.end());
    work.insert(work.end(), flow.predecessors[block].begin(), flow.predecessors[block].end());
  }
  return found;
}

}  // namespace qgpu::lower
