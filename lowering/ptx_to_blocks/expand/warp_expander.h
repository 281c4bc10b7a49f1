// ExpandWarp's work as a class in several files: expand_warp.cc checks what must be proven and chooses, the others hold
// one kind of step each. order_exchanges.cc comes last: who may write scratch words when.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lowering/ptx_to_blocks/expand/expand_warp.h"
#include "lowering/ptx_to_blocks/ir/uniformity.h"

namespace qgpu::lower {

absl::Status WarpRefusal(const IrFunction& function, int value, const std::string& why);

class WarpExpander {
 public:
  WarpExpander(IrFunction& function, const Dim3& grid, const Dim3& block, MemoryLayout& layout)
      : f_(function), grid_(grid), shape_(block), layout_(layout), threads_(static_cast<int>(block.Count())) {}

  absl::Status Run() {
    const FlowGraph flow = AnalyzeFlow(f_);
    uniformity_ = AnalyzeUniformity(f_, flow, shape_);
    std::vector<int> steps;
    for (int block : LayOutBlocks(flow).order) {
      for (int value : f_.blocks[block].instructions) {
        if (!IsConvergent(f_.at(value).op)) continue;
        steps.push_back(value);
        first_home_[value] = block;
      }
    }
    for (int step : steps) {
      if (threads_ > 1) QGPU_RETURN_IF_ERROR(CheckStep(step));
      QGPU_RETURN_IF_ERROR(Expand(step));
    }
    return OrderExchanges();
  }

 private:
  // ---- what must be proven ----

  bool OneMachineWarp() const { return threads_ <= kLanes; }
  // Facts of the block that the step stood in at first.
  int Home() const { return first_home_.at(step_); }
  bool MayHaveExited() const { return uniformity_.exit_before[Home()]; }

  absl::Status CheckStep(int step);

  absl::Status CheckMask(int mask) const;

  uint32_t AllThreads() const { return threads_ == 32 ? ~0u : (1u << threads_) - 1; }

  // ---- building ----

  int Const(uint32_t value) { return f_.Constant(Type::kI32, value); }

  // Adds an instruction before the step that is being replaced.
  int Emit(IrOp op, Type type, std::vector<int> args);
  int Emit(IrOp op, std::vector<int> args) { return Emit(op, Type::kI32, std::move(args)); }
  int Test(Compare compare, int a, int b) {
    const int value = Emit(IrOp::kCompare, Type::kPredicate, {a, b});
    f_.at(value).compare = compare;
    return value;
  }
  int Both(int p, int q) {
    if (p < 0 || q < 0) return std::max(p, q);
    return Emit(IrOp::kPredAnd, Type::kPredicate, {p, q});
  }
  int Lane() { return f_.Special(Type::kI32, shape_.y == 1 && shape_.z == 1 ? kSpecialTidX : kSpecialLaneId); }

  // Everybody waits where the step stands; what was emitted so far is before it.
  void Barrier();

  // Lanes of a machine warp that are on their way one after the other come together.
  void BringTogether() {
    if (uniformity_.skewed[Home()] && together_.count(f_.at(step_).block) == 0) Barrier();
  }

  void Replace(int result);

  void Remove() {
    std::vector<int>& list = f_.blocks[f_.at(step_).block].instructions;
    list.erase(std::find(list.begin(), list.end(), step_));
    f_.at(step_).block = -1;
  }

  absl::Status Expand(int step);

  // ---- scratch memory ----

  // One set of words that threads write, wait, and read.
  struct Buffer {
    uint32_t address[2] = {0, 0};  // of two sets that take turns; equal where there is only one
  };
  // Reads and writes of one exchange, by set.
  struct Exchange {
    Buffer* buffer = nullptr;
    std::vector<int> stores, loads;
  };

  // The words that each thread has for values, and each machine warp for ballots.
  absl::StatusOr<Buffer*> TakeBuffer(std::optional<Buffer>& buffer, uint32_t words);
  absl::StatusOr<Buffer*> ValueWords(int which) {
    return TakeBuffer(value_words_[which], static_cast<uint32_t>(threads_));
  }
  absl::StatusOr<Buffer*> BallotWords() { return TakeBuffer(ballot_words_, static_cast<uint32_t>(Warps())); }
  int Warps() const { return (threads_ + kLanes - 1) / kLanes; }

  int Store(Exchange& exchange, int address, int value);
  int Load(Exchange& exchange, int address);
  int OwnPlace() { return Emit(IrOp::kShl, {Lane(), Const(2)}); }

  // ---- shuffles ----

  std::optional<uint32_t> ConstantOf(int value) const {
    if (!f_.IsConstant(value)) return std::nullopt;
    return static_cast<uint32_t>(f_.at(value).immediate);
  }

  // Whether no thread asks for the value of one in another machine warp.
  bool StaysInWarp(const IrInstruction& in) const;

  // The lane that PTX's b and c name, and whether it is there for this thread (-1: always).
  struct Wanted {
    int lane = -1, valid = -1;
  };
  Wanted WantedLane(const IrInstruction& in);

  int Masked(int value, uint32_t mask) {
    if (const auto constant = ConstantOf(value)) return Const(*constant & mask);
    return Emit(IrOp::kAnd, {value, Const(mask)});
  }

  absl::Status ExpandShuffle(const IrInstruction& in);

  int LaneShuffle(ShuffleMode mode, int value, int lane, bool pairs) {
    const int result = Emit(IrOp::kLaneShuffle, {value, lane});
    f_.at(result).immediate = static_cast<uint64_t>(mode) | (pairs ? kPairSegments : 0);
    return result;
  }

  int InPass(const IrInstruction& in, ShuffleMode mode, std::optional<uint32_t> c);

  absl::Status InMemory(const IrInstruction& in);

  int IsLive(int live, int lane) {
    return Test(Compare::kNe, Emit(IrOp::kAnd, {Emit(IrOp::kShr, {live, lane}), Const(1)}), Const(0));
  }

  // ---- ballots ----

  int True() { return f_.Constant(Type::kPredicate, 1); }

  absl::Status ExpandBallot(const IrInstruction& in);

  // Bits of all live threads with `predicate`. One that was worked out before, also of the opposite, serves where
  // nobody can have exited since.
  absl::StatusOr<int> Ballot(int predicate);

  // Whether two predicates are the same (false) or opposite ones (true), as far as it is seen.
  std::optional<bool> IsSame(int p, int q) const;

  struct Known {
    int predicate;
    bool negate;
    int home, value;
  };
  bool StillHolds(const Known& known) const {
    return !uniformity_.MayExitBetween(known.home, Home()) &&
           AnalyzeFlow(f_).Dominates(f_.at(known.value).block, f_.at(step_).block);
  }

  absl::StatusOr<int> NewBallot(int predicate);

  // Whether a machine warp may be gone at a later ballot, whose words still are what it wrote at this one.
  bool NeedsZeroes() const;

  absl::StatusOr<int> LiveThreads() {
    if (!MayHaveExited()) return Const(AllThreads());
    return Ballot(True());
  }

  // ---- matches ----

  // Values of a match without its mask: one word, or two.
  static std::vector<int> Halves(const IrInstruction& in) { return {in.args.begin(), in.args.end() - 1}; }

  int EqualInLane(const std::vector<int>& values, int lane);

  absl::Status MatchAnyInPass(const IrInstruction& in);

  absl::Status MatchAllInPass(const IrInstruction& in);

  int LowestOf(int live) {
    if (f_.IsConstant(live)) return Const(0);
    const int lowest = Emit(IrOp::kAnd, {live, Emit(IrOp::kSub, {Const(0), live})});
    return Emit(IrOp::kSub, {Const(31), Emit(IrOp::kClz, {lowest})});
  }

  absl::StatusOr<std::vector<Exchange>> Publish(const std::vector<int>& values);

  int EqualInMemory(const std::vector<int>& values, std::vector<Exchange>& exchanges, int place);

  absl::Status MatchAllInMemory(const IrInstruction& in);

  // A loop over the threads, from the last one: mask = 2 * mask + (its value is equal).
  absl::Status MatchAnyInMemory(const IrInstruction& in);

  // ---- the order of exchanges ----

  // Nobody may write words that others have yet to read. A second set of words that takes turns with the first one
  // saves the barrier that this would take, where there is room.
  absl::Status OrderExchanges();

  // Nothing but what any block can make again stands before it: a barrier there would need a machine block of its own.
  bool BeginsItsBlock(int store) const;

  // A barrier behind the last one in each block that uses what was read.
  void WaitBehind(const std::vector<int>& loads);

  int CountUses(const Buffer* buffer) const {
    return static_cast<int>(
        std::count_if(exchanges_.begin(), exchanges_.end(), [&](const Exchange& e) { return e.buffer == buffer; }));
  }

  void TakeTurns();

  int CountConflicts() const;

  // Loads of the words that `store` writes, of whatever exchange, that may come before it without a barrier in between.
  std::vector<int> Conflicting(int store) const;

  // The set of words that an access of an exchange belongs to.
  uint32_t SetOf(int access) const { return static_cast<uint32_t>(f_.at(access).immediate); }

  IrFunction& f_;
  const Dim3 grid_, shape_;
  MemoryLayout& layout_;
  const int threads_;
  Uniformity uniformity_;
  std::map<int, int> first_home_;   // [common step]: its block before anything was expanded
  int step_ = -1;                   // the one that is being expanded
  std::set<int> together_;          // blocks behind barriers: lanes are together there
  std::map<int, bool> live_masks_;  // values that name all live threads of where they are
  std::vector<Known> known_ballots_;
  std::optional<Buffer> value_words_[2], ballot_words_;
  std::vector<Exchange> exchanges_;
};

}  // namespace qgpu::lower
