#include "lowering/ptx_to_blocks/expand_warp.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "lowering/ptx_to_blocks/ranges.h"
#include "lowering/ptx_to_blocks/select.h"
#include "lowering/ptx_to_blocks/uniformity.h"

namespace qgpu::lower {
namespace {

absl::Status Refusal(const IrFunction& function, int value, const std::string& why) {
  const int origin = function.at(value).origin;
  const SlotOrigin at = origin < 0 ? SlotOrigin{} : function.origins[origin];
  const std::string cuda = at.cuda_line == 0 ? "" : fmt::format(" (CUDA line {})", at.cuda_line);
  return absl::UnimplementedError(fmt::format("{}:{}{}: {}: not supported by the machine's lowering: {}",
                                              function.source, at.ptx_line, cuda, at.text, why));
}

class Expander {
 public:
  Expander(IrFunction& function, const Dim3& grid, const Dim3& block, MemoryLayout& layout)
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

  absl::Status CheckStep(int step) {
    step_ = step;
    const IrInstruction& in = f_.at(step);
    if (in.op == IrOp::kBlockBallot) return absl::OkStatus();  // the barrier itself finds who does not come
    if (in.op != IrOp::kActiveMask) QGPU_RETURN_IF_ERROR(CheckMask(in.args.back()));
    const Spread spread = uniformity_.block[Home()];
    const bool in_pass = !OneMachineWarp() && in.op == IrOp::kShuffle && StaysInWarp(in);
    if (spread == Spread::kUniform || (spread == Spread::kByWarp && in_pass && !uniformity_.skewed[Home()])) {
      return absl::OkStatus();
    }
    return Refusal(f_, step,
                   "inside divergent code: all threads of the thread block that have not exited must come here");
  }

  absl::Status CheckMask(int mask) const {
    const uint32_t all = AllThreads();
    const IrInstruction& in = f_.at(mask);
    if (in.op == IrOp::kConst) {
      if ((in.immediate & all) == all) return absl::OkStatus();
      return Refusal(f_, step_,
                     fmt::format("with a partial mask: {:#x} does not name all {} threads of the thread block",
                                 in.immediate, threads_));
    }
    // The live threads, counted where all of them were: whoever is still there is one of them.
    if (live_masks_.count(mask) != 0) return absl::OkStatus();
    return Refusal(f_, step_, "with a partial mask: it is not proven to name all threads of the thread block");
  }

  uint32_t AllThreads() const { return threads_ == 32 ? ~0u : (1u << threads_) - 1; }

  // ---- building ----

  int Const(uint32_t value) { return f_.Constant(Type::kI32, value); }

  // Adds an instruction before the step that is being replaced.
  int Emit(IrOp op, Type type, std::vector<int> args) {
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
  void Barrier() {
    const int before = f_.at(step_).block;
    SplitBefore(f_, step_);
    f_.blocks[before].end.kind = TerminatorKind::kBarrier;
    f_.blocks[before].end.origin = f_.at(step_).origin;
    together_.insert(f_.at(step_).block);
  }

  // Lanes of a machine warp that are on their way one after the other come together.
  void BringTogether() {
    if (uniformity_.skewed[Home()] && together_.count(f_.at(step_).block) == 0) Barrier();
  }

  void Replace(int result) {
    IrInstruction& step = f_.at(step_);
    step.op = IrOp::kAdd;  // a copy, which Simplify removes
    step.args = {result, Const(0)};
    step.immediate = 0;
  }

  void Remove() {
    std::vector<int>& list = f_.blocks[f_.at(step_).block].instructions;
    list.erase(std::find(list.begin(), list.end(), step_));
    f_.at(step_).block = -1;
  }

  absl::Status Expand(int step) {
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
  absl::StatusOr<Buffer*> TakeBuffer(std::optional<Buffer>& buffer, uint32_t words) {
    if (!buffer) {
      QGPU_ASSIGN_OR_RETURN(const uint32_t address, layout_.TakeScratchWords(words));
      buffer = Buffer{{address, address}};
    }
    return &*buffer;
  }
  absl::StatusOr<Buffer*> ValueWords(int which) {
    return TakeBuffer(value_words_[which], static_cast<uint32_t>(threads_));
  }
  absl::StatusOr<Buffer*> BallotWords() { return TakeBuffer(ballot_words_, static_cast<uint32_t>(Warps())); }
  int Warps() const { return (threads_ + kLanes - 1) / kLanes; }

  int Store(Exchange& exchange, int address, int value) {
    const int store = Emit(IrOp::kStore, Type::kNone, {address, value});
    f_.at(store).immediate = exchange.buffer->address[0];
    f_.at(store).space = AccessSpace::kScratch;
    exchange.stores.push_back(store);
    return store;
  }
  int Load(Exchange& exchange, int address) {
    const int load = Emit(IrOp::kLoad, {address});
    f_.at(load).immediate = exchange.buffer->address[0];
    f_.at(load).space = AccessSpace::kScratch;
    exchange.loads.push_back(load);
    return load;
  }
  int OwnPlace() { return Emit(IrOp::kShl, {Lane(), Const(2)}); }

  // ---- shuffles ----

  std::optional<uint32_t> ConstantOf(int value) const {
    if (!f_.IsConstant(value)) return std::nullopt;
    return static_cast<uint32_t>(f_.at(value).immediate);
  }

  // Whether no thread asks for the value of one in another machine warp.
  bool StaysInWarp(const IrInstruction& in) const {
    if (OneMachineWarp()) return true;
    const auto b = ConstantOf(in.args[1]), c = ConstantOf(in.args[2]);
    if (static_cast<ShuffleMode>(in.immediate) == ShuffleMode::kXor) return b && (*b & 31) < kLanes;
    return c && (~*c >> 8 & 31) < kLanes;
  }

  // The lane that PTX's b and c name, and whether it is there for this thread (-1: always).
  struct Wanted {
    int lane = -1, valid = -1;
  };
  Wanted WantedLane(const IrInstruction& in) {
    const auto mode = static_cast<ShuffleMode>(in.immediate);
    const int offset = Masked(in.args[1], 31);
    const auto c = ConstantOf(in.args[2]), b = ConstantOf(in.args[1]);
    const bool whole = c && (*c >> 8 & 31) == 0;  // one segment of 32
    int first, last;                              // of the segment: lane & segment, and what is or-ed to it
    if (c) {
      const uint32_t segment = *c >> 8 & 31;
      first = Masked(Lane(), segment);
      last = Emit(IrOp::kOr, {first, Const(*c & ~segment & 31)});
    } else {
      const int segment = Masked(Emit(IrOp::kShr, {in.args[2], Const(8)}), 31);
      first = Emit(IrOp::kAnd, {Lane(), segment});
      const int inside = Emit(IrOp::kXor, {segment, Const(31)});
      last = Emit(IrOp::kOr, {first, Emit(IrOp::kAnd, {in.args[2], inside})});
    }
    Wanted wanted;
    switch (mode) {
      case ShuffleMode::kUp:
        wanted.lane = Emit(IrOp::kSub, {Lane(), offset});
        wanted.valid = whole ? Test(Compare::kGeU, Lane(), Emit(IrOp::kAdd, {offset, Const(*c & 31)}))
                             : Test(Compare::kGeS, wanted.lane, last);
        return wanted;
      case ShuffleMode::kDown:
        wanted.lane = Emit(IrOp::kAdd, {Lane(), offset});
        break;
      case ShuffleMode::kXor:
        wanted.lane = Emit(IrOp::kXor, {Lane(), offset});
        break;
      case ShuffleMode::kIndex: {
        const int inside = c ? Const(~(*c >> 8) & 31)
                             : Emit(IrOp::kXor, {Masked(Emit(IrOp::kShr, {in.args[2], Const(8)}), 31), Const(31)});
        wanted.lane = Emit(IrOp::kOr, {first, Emit(IrOp::kAnd, {offset, inside})});
      }
    }
    // Not behind the segment's last lane, and not behind the last thread.
    const uint32_t inside = c ? ~(*c >> 8) & 31 : 31;
    const bool to_the_end = c && (*c & inside) == inside;
    const bool full_segments = std::has_single_bit(inside + 1) && threads_ % static_cast<int>(inside + 1) == 0;
    if (mode == ShuffleMode::kXor && to_the_end && b) {
      // Never out of a segment that is longer, nor behind the last thread of such segments.
      const int block = static_cast<int>(std::bit_floor(*b & 31u)) * 2;
      if ((*b & 31 & ~inside) == 0 && (block == 0 || threads_ % block == 0)) return wanted;
    }
    if (mode == ShuffleMode::kIndex && to_the_end && full_segments) return wanted;
    if (!full_segments) last = Emit(IrOp::kMinS, {last, Const(static_cast<uint32_t>(threads_ - 1))});
    if (whole && mode == ShuffleMode::kDown && b) {
      const uint32_t bound = std::min<uint32_t>(*c & 31, static_cast<uint32_t>(threads_ - 1));
      wanted.valid = Test(Compare::kLtS, Lane(), Const(bound + 1 - (*b & 31)));
    } else {
      wanted.valid = Test(Compare::kLeS, wanted.lane, last);
    }
    return wanted;
  }

  int Masked(int value, uint32_t mask) {
    if (const auto constant = ConstantOf(value)) return Const(*constant & mask);
    return Emit(IrOp::kAnd, {value, Const(mask)});
  }

  absl::Status ExpandShuffle(const IrInstruction& in) {
    const auto b = ConstantOf(in.args[1]), c = ConstantOf(in.args[2]);
    const auto mode = static_cast<ShuffleMode>(in.immediate);
    const bool nowhere = c && (~*c >> 8 & 31) == 0 && mode != ShuffleMode::kXor;  // segments of one lane
    if (threads_ == 1 || nowhere || (b && (*b & 31) == 0 && mode != ShuffleMode::kIndex)) {
      Replace(in.args[0]);
      return absl::OkStatus();
    }
    if (StaysInWarp(in)) {
      BringTogether();
      Replace(InPass(in, mode, c));
      return absl::OkStatus();
    }
    return InMemory(in);
  }

  int LaneShuffle(ShuffleMode mode, int value, int lane, bool pairs) {
    const int result = Emit(IrOp::kLaneShuffle, {value, lane});
    f_.at(result).immediate = static_cast<uint64_t>(mode) | (pairs ? kPairSegments : 0);
    return result;
  }

  int InPass(const IrInstruction& in, ShuffleMode mode, std::optional<uint32_t> c) {
    const uint32_t inside = c ? ~(*c >> 8) & 31 : 0;
    const bool to_the_end = c && (*c & inside) == inside, from_the_start = c && (*c & inside) == 0;
    const bool usual = mode == ShuffleMode::kUp ? from_the_start : to_the_end;
    const auto b = ConstantOf(in.args[1]);
    if (usual && mode == ShuffleMode::kXor && b && (*b & 31) <= inside && (*b & 31) < kLanes) {
      return LaneShuffle(mode, in.args[0], Const(*b & 31), false);
    }
    // The machine's own segments: of 4, of 2, and longer ones that hold the whole thread block.
    const bool whole_block = OneMachineWarp() && inside >= kLanes - 1 && std::has_single_bit(inside + 1);
    if (usual && mode != ShuffleMode::kXor && inside == 1) return LaneShuffle(mode, in.args[0], in.args[1], true);
    if (usual && (mode == ShuffleMode::kUp || mode == ShuffleMode::kDown) && (inside == 3 || whole_block)) {
      return LaneShuffle(mode, in.args[0], in.args[1], false);
    }
    if (usual && mode == ShuffleMode::kIndex && inside == 3) return LaneShuffle(mode, in.args[0], in.args[1], false);
    const Wanted wanted = WantedLane(in);
    int lane = wanted.lane;
    if (wanted.valid >= 0) lane = Emit(IrOp::kSelect, {wanted.valid, lane, Lane()});
    return LaneShuffle(ShuffleMode::kIndex, in.args[0], lane, false);
  }

  absl::Status InMemory(const IrInstruction& in) {
    BringTogether();
    int live = -1;
    if (MayHaveExited()) {
      QGPU_ASSIGN_OR_RETURN(live, LiveThreads());
    }
    Exchange exchange;
    QGPU_ASSIGN_OR_RETURN(exchange.buffer, ValueWords(0));
    const int own = OwnPlace();
    Store(exchange, own, in.args[0]);
    Barrier();
    const Wanted wanted = WantedLane(in);
    int valid = wanted.valid;
    if (live >= 0) valid = Both(valid, IsLive(live, wanted.lane));
    int place = Emit(IrOp::kShl, {wanted.lane, Const(2)});
    if (valid >= 0) place = Emit(IrOp::kSelect, {valid, place, own});
    Replace(Load(exchange, place));
    exchanges_.push_back(exchange);
    return absl::OkStatus();
  }

  int IsLive(int live, int lane) {
    return Test(Compare::kNe, Emit(IrOp::kAnd, {Emit(IrOp::kShr, {live, lane}), Const(1)}), Const(0));
  }

  // ---- ballots ----

  int True() { return f_.Constant(Type::kPredicate, 1); }

  absl::Status ExpandBallot(const IrInstruction& in) {
    const bool of_block = in.op == IrOp::kBlockBallot;
    if (threads_ == 1) {
      Replace(Emit(IrOp::kSelect, {in.args[0], Const(1), Const(0)}));
      return absl::OkStatus();
    }
    // Who votes must be together; the barrier that bar.red is does that as well.
    const bool apart = uniformity_.block[Home()] != Spread::kUniform || uniformity_.skewed[Home()];
    if (of_block && (OneMachineWarp() || apart)) Barrier();
    const size_t exchanges = exchanges_.size();
    QGPU_ASSIGN_OR_RETURN(const int ballot, Ballot(in.args[0]));
    if (of_block && !OneMachineWarp() && !apart && exchanges_.size() == exchanges) Barrier();
    if (f_.IsConstant(in.args[0]) && f_.at(in.args[0]).immediate != 0) live_masks_[step_] = true;
    Replace(ballot);
    return absl::OkStatus();
  }

  // Bits of all live threads with `predicate`. One that was worked out before, also of the opposite, serves where
  // nobody can have exited since.
  absl::StatusOr<int> Ballot(int predicate) {
    bool negate = false;
    const int base = StripNegations(f_, predicate, &negate);
    int opposite = -1;
    for (const Known& known : known_ballots_) {
      const std::optional<bool> inverted = IsSame(known.predicate, base);
      if (!inverted || !StillHolds(known)) continue;
      if ((known.negate != negate) == *inverted) return known.value;
      opposite = known.value;
    }
    if (opposite >= 0 && !MayHaveExited()) return Emit(IrOp::kXor, {opposite, Const(AllThreads())});
    QGPU_ASSIGN_OR_RETURN(const int value, NewBallot(predicate));
    known_ballots_.push_back({base, negate, Home(), value});
    return value;
  }

  // Whether two predicates are the same (false) or opposite ones (true), as far as it is seen.
  std::optional<bool> IsSame(int p, int q) const {
    if (p == q) return false;
    const IrInstruction &a = f_.at(p), &b = f_.at(q);
    if (a.op != IrOp::kCompare || b.op != IrOp::kCompare || a.args != b.args) return std::nullopt;
    if (a.compare == b.compare) return false;
    return a.compare == Inverted(b.compare) ? std::optional<bool>(true) : std::nullopt;
  }

  struct Known {
    int predicate;
    bool negate;
    int home, value;
  };
  bool StillHolds(const Known& known) const {
    return !uniformity_.MayExitBetween(known.home, Home()) &&
           AnalyzeFlow(f_).Dominates(f_.at(known.value).block, f_.at(step_).block);
  }

  absl::StatusOr<int> NewBallot(int predicate) {
    BringTogether();
    const int nibble = Emit(IrOp::kLaneBallot, {predicate});
    if (OneMachineWarp()) return nibble;
    const bool exits = MayHaveExited();
    Exchange exchange;
    QGPU_ASSIGN_OR_RETURN(exchange.buffer, BallotWords());
    const int place = Masked(Lane(), ~3u & 31);  // 4 bytes for 4 lanes
    const int store = Store(exchange, place, nibble);
    if (!exits) {  // the first lane of each machine warp is there
      f_.at(store).guard = Test(Compare::kEq, Masked(Lane(), 3), Const(0));
    }
    Barrier();
    int ballot = -1;
    for (int warp = Warps() - 1; warp >= 0; --warp) {
      const int word = Load(exchange, Const(static_cast<uint32_t>(4 * warp)));
      ballot = ballot < 0 ? word : Emit(IrOp::kMad, {ballot, Const(16), word});
    }
    if (NeedsZeroes()) {  // for when the whole machine warp is gone
      Barrier();
      Store(exchange, place, Const(0));
    }
    exchanges_.push_back(exchange);
    return ballot;
  }

  // Whether a machine warp may be gone at a later ballot, whose words still are what it wrote at this one.
  bool NeedsZeroes() const {
    if (uniformity_.exits.empty()) return false;
    if (grid_.Count() > 1) return true;
    return std::any_of(first_home_.begin(), first_home_.end(),
                       [&](const auto& other) { return uniformity_.MayExitBetween(Home(), other.second); });
  }

  absl::StatusOr<int> LiveThreads() {
    if (!MayHaveExited()) return Const(AllThreads());
    return Ballot(True());
  }

  // ---- matches ----

  // Values of a match without its mask: one word, or two.
  static std::vector<int> Halves(const IrInstruction& in) { return {in.args.begin(), in.args.end() - 1}; }

  int EqualInLane(const std::vector<int>& values, int lane) {
    int equal = -1;
    for (int value : values) {
      equal = Both(equal, Test(Compare::kEq, LaneShuffle(ShuffleMode::kIndex, value, lane, false), value));
    }
    return equal;
  }

  absl::Status MatchAnyInPass(const IrInstruction& in) {
    if (threads_ == 1) {
      Replace(Const(1));
      return absl::OkStatus();
    }
    BringTogether();
    int mask = -1;
    for (int lane = 0; lane < threads_; ++lane) {
      const int bit = Emit(IrOp::kSelect,
                           {EqualInLane(Halves(in), Const(static_cast<uint32_t>(lane))), Const(1u << lane), Const(0)});
      mask = mask < 0 ? bit : Emit(IrOp::kOr, {mask, bit});
    }
    if (MayHaveExited()) mask = Emit(IrOp::kAnd, {mask, Emit(IrOp::kLaneBallot, {True()})});
    Replace(mask);
    return absl::OkStatus();
  }

  absl::Status MatchAllInPass(const IrInstruction& in) {
    if (threads_ == 1) {
      Replace(Const(1));
      return absl::OkStatus();
    }
    BringTogether();
    QGPU_ASSIGN_OR_RETURN(const int live, LiveThreads());
    const int equal = EqualInLane(Halves(in), LowestOf(live));
    const int differ = Emit(IrOp::kLaneBallot, {Emit(IrOp::kPredNot, Type::kPredicate, {equal})});
    Replace(Emit(IrOp::kSelect, {Test(Compare::kEq, differ, Const(0)), live, Const(0)}));
    return absl::OkStatus();
  }

  int LowestOf(int live) {
    if (f_.IsConstant(live)) return Const(0);
    const int lowest = Emit(IrOp::kAnd, {live, Emit(IrOp::kSub, {Const(0), live})});
    return Emit(IrOp::kSub, {Const(31), Emit(IrOp::kClz, {lowest})});
  }

  absl::StatusOr<std::vector<Exchange>> Publish(const std::vector<int>& values) {
    std::vector<Exchange> exchanges;
    for (size_t i = 0; i < values.size(); ++i) {
      Exchange exchange;
      QGPU_ASSIGN_OR_RETURN(exchange.buffer, ValueWords(static_cast<int>(i)));
      Store(exchange, OwnPlace(), values[i]);
      exchanges.push_back(exchange);
    }
    Barrier();
    return exchanges;
  }

  int EqualInMemory(const std::vector<int>& values, std::vector<Exchange>& exchanges, int place) {
    int equal = -1;
    for (size_t i = 0; i < values.size(); ++i) {
      equal = Both(equal, Test(Compare::kEq, Load(exchanges[i], place), values[i]));
    }
    return equal;
  }

  absl::Status MatchAllInMemory(const IrInstruction& in) {
    BringTogether();
    QGPU_ASSIGN_OR_RETURN(const int live, LiveThreads());
    QGPU_ASSIGN_OR_RETURN(std::vector<Exchange> exchanges, Publish(Halves(in)));
    const int place = Emit(IrOp::kShl, {LowestOf(live), Const(2)});
    const int equal = EqualInMemory(Halves(in), exchanges, place);
    QGPU_ASSIGN_OR_RETURN(const int differ, Ballot(Emit(IrOp::kPredNot, Type::kPredicate, {equal})));
    Replace(Emit(IrOp::kSelect, {Test(Compare::kEq, differ, Const(0)), live, Const(0)}));
    exchanges_.insert(exchanges_.end(), exchanges.begin(), exchanges.end());
    return absl::OkStatus();
  }

  // A loop over the threads, from the last one: mask = 2 * mask + (its value is equal).
  absl::Status MatchAnyInMemory(const IrInstruction& in) {
    BringTogether();
    QGPU_ASSIGN_OR_RETURN(const int live, LiveThreads());
    QGPU_ASSIGN_OR_RETURN(std::vector<Exchange> exchanges, Publish(Halves(in)));
    const int before = f_.at(step_).block;
    const int loop = SplitBefore(f_, step_);
    const int place = Emit(IrOp::kPhi, {}), mask = Emit(IrOp::kPhi, {});
    const int equal = EqualInMemory(Halves(in), exchanges, place);
    const int bit = Emit(IrOp::kSelect, {equal, Const(1), Const(0)});
    const int next_mask = Emit(IrOp::kMad, {mask, Const(2), bit});
    const int next_place = Emit(IrOp::kAdd, {place, Const(~3u)});
    const int more = Test(Compare::kGeS, next_place, Const(0));
    const int after = SplitBefore(f_, step_);
    f_.at(place).args = {Const(static_cast<uint32_t>(4 * (threads_ - 1))), next_place};
    f_.at(mask).args = {Const(0), next_mask};
    f_.at(place).phi_blocks = f_.at(mask).phi_blocks = {before, loop};
    Terminator& end = f_.blocks[loop].end;
    end.kind = TerminatorKind::kBranch;
    end.condition = more;
    end.target = loop;
    end.other = after;
    end.origin = f_.at(step_).origin;
    Replace(f_.IsConstant(live) ? next_mask : Emit(IrOp::kAnd, {next_mask, live}));
    exchanges_.insert(exchanges_.end(), exchanges.begin(), exchanges.end());
    return absl::OkStatus();
  }

  // ---- the order of exchanges ----

  // Nobody may write words that others have yet to read. A second set of words that takes turns with the first one
  // saves the barrier that this would take, where there is room.
  absl::Status OrderExchanges() {
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

  // Nothing but what any block can make again stands before it: a barrier there would need a machine block of its own.
  bool BeginsItsBlock(int store) const {
    for (int value : f_.blocks[f_.at(store).block].instructions) {
      if (value == store) return true;
      const IrInstruction& in = f_.at(value);
      const bool placeless = std::all_of(in.args.begin(), in.args.end(), [&](int arg) { return f_.IsPlaceless(arg); });
      if (in.op != IrOp::kPhi && (!placeless || IsAccess(in.op))) return false;
    }
    return false;
  }

  // A barrier behind the last one in each block that uses what was read.
  void WaitBehind(const std::vector<int>& loads) {
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

  int CountUses(const Buffer* buffer) const {
    return static_cast<int>(
        std::count_if(exchanges_.begin(), exchanges_.end(), [&](const Exchange& e) { return e.buffer == buffer; }));
  }

  void TakeTurns() {
    std::map<Buffer*, int> turns;
    for (Exchange& exchange : exchanges_) {
      const uint32_t address = exchange.buffer->address[turns[exchange.buffer]++ % 2];
      const uint32_t first = exchange.buffer->address[0];
      for (const std::vector<int>* list : {&exchange.stores, &exchange.loads}) {
        for (int access : *list) f_.at(access).immediate += address - first;
      }
    }
  }

  int CountConflicts() const {
    int count = 0;
    for (const Exchange& exchange : exchanges_) {
      count += static_cast<int>(std::count_if(exchange.stores.begin(), exchange.stores.end(),
                                              [&](int store) { return !Conflicting(store).empty(); }));
    }
    return count;
  }

  // Loads of the words that `store` writes, of whatever exchange, that may come before it without a barrier in between.
  std::vector<int> Conflicting(int store) const {
    std::vector<int> found;
    const auto take = [&](auto first, auto last) {
      for (; first != last; ++first) {
        for (const Exchange& exchange : exchanges_) {
          const bool is_load = std::find(exchange.loads.begin(), exchange.loads.end(), *first) != exchange.loads.end();
          if (is_load && SetOf(*first) == SetOf(store)) found.push_back(*first);
        }
      }
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

}  // namespace

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
  return Expander(function, grid, block, layout).Run();
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
        return Refusal(function, value,
                       "inside divergent code: lanes of a machine warp may come here at different times");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace qgpu::lower
