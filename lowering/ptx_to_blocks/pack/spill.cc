#include "lowering/ptx_to_blocks/pack/spill.h"

#include <algorithm>
#include <map>

namespace qgpu::lower {
namespace {

// Registers that are left for what machine blocks need in passing.
constexpr int kSpare = 2;

class Spiller {
 public:
  Spiller(IrFunction& function, const SpillRequest& request)
      : f_(function),
        request_(request),
        threads_(static_cast<uint32_t>(request.block.Count())),
        flow_(AnalyzeFlow(function)),
        layout_(LayOutBlocks(flow_)) {}

  SpillOutcome Run(MemoryLayout& layout) {
    AnalyzeLiveness();
    MeasurePressure();
    const bool has_words = layout.free_words() >= threads_;
    const int value = Choose(!has_words && !request_.predicates);
    if (value < 0) {
      return !has_words && Choose(false) >= 0 ? SpillOutcome::kNoWords : SpillOutcome::kNothingLeft;
    }
    if (CanBeMadeAgain(value)) {
      MakeAgain(value);
    } else if (request_.predicates) {
      MakeNumber(value);
    } else {
      const absl::StatusOr<uint32_t> address = layout.TakeScratchWords(threads_);
      if (!address.ok()) return SpillOutcome::kNoWords;
      slot_ = *address;
      if (f_.at(value).op == IrOp::kPhi) {
        SpillPhi(value);
      } else {
        SpillOrdinary(value);
      }
    }
    return SpillOutcome::kDone;
  }

 private:
  bool Counts(int value) const {
    const Type wanted = request_.predicates ? Type::kPredicate : Type::kI32;
    return f_.at(value).type == wanted && !f_.IsPlaceless(value);
  }

  // ---- liveness on the IR ----

  template <typename Visit>
  void ForEachPhi(int block, Visit visit) const {
    for (int value : f_.blocks[block].instructions) {
      if (f_.at(value).op != IrOp::kPhi) break;
      visit(value);
    }
  }

  // What is live at the end of `block`, before its branch.
  std::vector<bool> LiveAtEnd(int block) const {
    std::vector<bool> live(f_.instructions.size(), false);
    for (int successor : flow_.successors[block]) {
      for (size_t v = 0; v < live.size(); ++v) live[v] = live[v] || live_in_[successor][v];
      ForEachPhi(successor, [&](int phi) {
        const IrInstruction& in = f_.at(phi);
        for (size_t i = 0; i < in.args.size(); ++i) {
          if (in.phi_blocks[i] == block) live[in.args[i]] = true;
        }
      });
    }
    if (f_.blocks[block].end.condition >= 0) live[f_.blocks[block].end.condition] = true;
    return live;
  }

  void AnalyzeLiveness() {
    live_in_.assign(f_.blocks.size(), std::vector<bool>(f_.instructions.size(), false));
    for (bool changed = true; changed;) {
      changed = false;
      for (auto it = flow_.order.rbegin(); it != flow_.order.rend(); ++it) {
        std::vector<bool> live = LiveAtEnd(*it);
        const std::vector<int>& list = f_.blocks[*it].instructions;
        for (auto at = list.rbegin(); at != list.rend(); ++at) {
          live[*at] = false;
          if (f_.at(*at).op == IrOp::kPhi) continue;
          ForEachOperand(std::as_const(f_).at(*at), [&](int operand) { live[operand] = true; });
        }
        if (live == live_in_[*it]) continue;
        live_in_[*it] = std::move(live);
        changed = true;
      }
    }
  }

  // Calls visit(live) at the end of each block and before each instruction that is not a phi.
  template <typename Visit>
  void ForEachPoint(Visit visit) const {
    for (int block : flow_.order) {
      std::vector<bool> live = LiveAtEnd(block);
      visit(live);
      const std::vector<int>& list = f_.blocks[block].instructions;
      for (auto at = list.rbegin(); at != list.rend() && f_.at(*at).op != IrOp::kPhi; ++at) {
        live[*at] = false;
        ForEachOperand(std::as_const(f_).at(*at), [&](int operand) { live[operand] = true; });
        visit(live);
      }
    }
  }

  int CountLive(const std::vector<bool>& live) const {
    int count = 0;
    for (size_t v = 0; v < live.size(); ++v) count += live[v] && Counts(static_cast<int>(v));
    return count;
  }

  void MeasurePressure() {
    int highest = 0;
    ForEachPoint([&](const std::vector<bool>& live) { highest = std::max(highest, CountLive(live)); });
    const int limit = std::min(highest - 1, request_.usable - kSpare);
    benefit_.assign(f_.instructions.size(), 0);
    ForEachPoint([&](const std::vector<bool>& live) {
      const int count = CountLive(live);
      if (count <= limit) return;
      for (size_t v = 0; v < live.size(); ++v) {
        if (live[v]) benefit_[v] += count == highest ? 4 : 1;
      }
    });
  }

  // ---- the choice ----

  bool IsOfSpilling(int value) const { return f_.at(value).spill != SpillRole::kNone; }

  double CostOf(int value) const {
    double cost = 1;
    const auto weight = [&](int block) {
      return static_cast<double>(int64_t{1} << 3 * std::min(layout_.loop_depth[block], 6));
    };
    for (int block : flow_.order) {
      for (int user : f_.blocks[block].instructions) {
        const IrInstruction& in = f_.at(user);
        if (user == value) cost += weight(block);
        if (in.op == IrOp::kPhi) {
          for (size_t i = 0; i < in.args.size(); ++i) {
            if (in.args[i] == value || user == value) cost += weight(in.phi_blocks[i]);
          }
        } else {
          ForEachOperand(in, [&](int operand) { cost += operand == value ? weight(block) : 0; });
        }
      }
      if (f_.blocks[block].end.condition == value) cost += weight(block);
    }
    return CanBeMadeAgain(value) ? cost / 4 : cost;
  }

  int Choose(bool only_made_again) const {
    int best = -1;
    double best_score = 0;
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        if (!Counts(value) || benefit_[value] == 0 || IsOfSpilling(value) || !HasDistantUse(value)) continue;
        if (only_made_again && !CanBeMadeAgain(value)) continue;
        const double score = benefit_[value] / CostOf(value);
        if (score > best_score) {
          best = value;
          best_score = score;
        }
      }
    }
    return best;
  }

  // Whether something is gained: a value that is used up right behind where it is made would only come back.
  bool HasDistantUse(int value) const {
    const int home = f_.at(value).block;
    if (f_.at(value).op == IrOp::kPhi || LiveAtEnd(home)[value]) return true;
    const std::vector<int>& list = f_.blocks[home].instructions;
    const auto at = std::find(list.begin(), list.end(), value) - list.begin();
    for (size_t i = static_cast<size_t>(at) + 3; i < list.size(); ++i) {
      bool uses = false;
      ForEachOperand(std::as_const(f_).at(list[i]), [&](int operand) { uses = uses || operand == value; });
      if (uses) return true;
    }
    return false;
  }

  bool CanBeMadeAgain(int value) const {
    const IrInstruction& in = f_.at(value);
    if (in.op == IrOp::kPhi || IsConvergent(in.op) || HasSideEffect(in) || in.guard >= 0) return false;
    if (IsAccess(in.op) && !(in.op == IrOp::kLoad && in.constant)) return false;
    return std::all_of(in.args.begin(), in.args.end(), [&](int arg) { return f_.IsPlaceless(arg); });
  }

  // ---- rewriting ----

  // Adds an instruction of the spilling's own.
  int Insert(int block, size_t position, IrOp op, Type type, std::vector<int> args, int origin) {
    IrInstruction in;
    in.op = op;
    in.type = type;
    in.args = std::move(args);
    in.origin = origin;
    in.spill = SpillRole::kOwn;
    return f_.Add(block, std::move(in), static_cast<int>(position));
  }

  size_t PositionOf(int value) const {
    const std::vector<int>& list = f_.blocks[f_.at(value).block].instructions;
    return static_cast<size_t>(std::find(list.begin(), list.end(), value) - list.begin());
  }

  // Gives every use of `value` but those in `except` what `make` puts in front of it.
  template <typename Make>
  void ReplaceEachUse(int value, const std::vector<int>& except, Make make) {
    for (int block : flow_.order) {
      for (size_t i = 0; i < f_.blocks[block].instructions.size(); ++i) {
        const int user = f_.blocks[block].instructions[i];
        if (user == value || std::find(except.begin(), except.end(), user) != except.end()) continue;
        if (f_.at(user).op == IrOp::kPhi) continue;
        bool uses = false;
        ForEachOperand(std::as_const(f_).at(user), [&](int operand) { uses = uses || operand == value; });
        if (!uses) continue;
        const int again = make(block, i, f_.at(user).origin);
        ForEachOperand(f_.at(user), [&](int& operand) {
          if (operand == value) operand = again;
        });
        i = PositionOf(user);
      }
      if (f_.blocks[block].end.condition == value) {
        f_.blocks[block].end.condition = make(block, f_.blocks[block].instructions.size(), f_.blocks[block].end.origin);
      }
    }
    for (int block : flow_.order) ReplaceInPhis(block, value, make);
  }

  // A phi reads its operand at the end of the block that it comes from, before spilled phis are written there.
  template <typename Make>
  void ReplaceInPhis(int block, int value, Make make) {
    std::map<int, int> made;  // by block
    const std::vector<int> list = f_.blocks[block].instructions;
    for (int phi : list) {
      if (f_.at(phi).op != IrOp::kPhi) break;
      if (phi == value) continue;
      for (size_t i = 0; i < f_.at(phi).args.size(); ++i) {
        if (f_.at(phi).args[i] != value) continue;
        const int from = f_.at(phi).phi_blocks[i];
        if (made.count(from) == 0) made[from] = make(from, EndBeforeOwnStores(from), f_.at(value).origin);
        f_.at(phi).args[i] = made[from];
      }
    }
  }

  size_t EndBeforeOwnStores(int block) const {
    const std::vector<int>& list = f_.blocks[block].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      const IrInstruction& in = f_.at(list[i]);
      if (in.op == IrOp::kStore && in.spill == SpillRole::kPhiStore && in.immediate == slot_) return i;
    }
    return list.size();
  }

  void MakeAgain(int value) {
    const IrInstruction copy = f_.at(value);
    ReplaceEachUse(value, {}, [&](int block, size_t position, int) {
      IrInstruction again = copy;
      again.spill = SpillRole::kOwn;
      return f_.Add(block, std::move(again), static_cast<int>(position));
    });
    std::erase(f_.blocks[copy.block].instructions, value);
    f_.at(value).block = -1;
  }

  void MakeNumber(int value) {
    const int one = f_.Constant(Type::kI32, 1), zero = f_.Constant(Type::kI32, 0);
    const int number = Insert(f_.at(value).block, PositionOf(value) + 1, IrOp::kSelect, Type::kI32, {value, one, zero},
                              f_.at(value).origin);
    f_.at(number).spill = SpillRole::kNone;  // may go to memory
    ReplaceEachUse(value, {number}, [&](int block, size_t position, int origin) {
      const int test = Insert(block, position, IrOp::kCompare, Type::kPredicate, {number, zero}, origin);
      f_.at(test).compare = Compare::kNe;
      return test;
    });
    f_.at(value).spill = SpillRole::kOwn;
  }

  // Where the thread's words begin: 4 times its number, in a register of its own; nothing for a single thread.
  int Frame() {
    if (threads_ == 1) return f_.Constant(Type::kI32, 0);
    for (int value : f_.blocks[0].instructions) {
      if (f_.at(value).spill == SpillRole::kFrame) return value;
    }
    const bool flat = request_.block.y == 1 && request_.block.z == 1;
    const int lane = f_.Special(Type::kI32, flat ? kSpecialTidX : kSpecialLaneId);
    const int frame = Insert(0, 0, IrOp::kShl, Type::kI32, {lane, f_.Constant(Type::kI32, 2)}, -1);
    f_.at(frame).spill = SpillRole::kFrame;
    return frame;
  }

  void Store(int block, size_t position, int value, int origin, bool of_phi) {
    const int store = Insert(block, position, IrOp::kStore, Type::kNone, {Frame(), value}, origin);
    f_.at(store).immediate = slot_;
    f_.at(store).space = AccessSpace::kScratch;
    if (of_phi) f_.at(store).spill = SpillRole::kPhiStore;
  }

  int Load(int block, size_t position, int origin) {
    const int load = Insert(block, position, IrOp::kLoad, Type::kI32, {Frame()}, origin);
    f_.at(load).immediate = slot_;
    f_.at(load).space = AccessSpace::kScratch;
    return load;
  }

  void SpillOrdinary(int value) {
    Frame();  // before positions are taken
    ReplaceEachUse(value, {}, [&](int block, size_t position, int origin) { return Load(block, position, origin); });
    Store(f_.at(value).block, PositionOf(value) + 1, value, f_.at(value).origin, false);
    f_.at(value).spill = SpillRole::kOwn;
  }

  void SpillPhi(int phi) {
    Frame();
    const IrInstruction old = f_.at(phi);
    std::vector<int> from = old.phi_blocks;
    for (size_t i = 0; i < old.args.size(); ++i) {
      if (old.args[i] != phi) from[i] = EdgeFor(old.phi_blocks[i], old.block, phi);
    }
    for (size_t i = 0; i < old.args.size(); ++i) {
      if (old.args[i] == phi) continue;
      Store(from[i], f_.blocks[from[i]].instructions.size(), old.args[i], old.origin, true);
    }
    std::erase(f_.blocks[old.block].instructions, phi);
    f_.at(phi).block = -1;
    ReplaceEachUse(phi, {}, [&](int block, size_t position, int origin) { return Load(block, position, origin); });
  }

  // Where the word may be written for the way from `from` to `block`: the end of `from`, or a block on the way where
  // the phi's old value is still wanted elsewhere.
  int EdgeFor(int from, int block, int phi) {
    const std::vector<int> successors = f_.blocks[from].Successors();
    const bool wanted = std::any_of(successors.begin(), successors.end(),
                                    [&](int successor) { return successor != block && live_in_[successor][phi]; });
    if (!wanted) return from;
    const int edge = static_cast<int>(f_.blocks.size());
    f_.blocks.emplace_back();
    live_in_.emplace_back(f_.instructions.size(), false);
    f_.blocks[edge].end.kind = TerminatorKind::kJump;
    f_.blocks[edge].end.target = block;
    Terminator& end = f_.blocks[from].end;
    if (end.target == block) end.target = edge;
    if (end.other == block) end.other = edge;
    ForEachPhi(block, [&](int other) {
      std::replace(f_.at(other).phi_blocks.begin(), f_.at(other).phi_blocks.end(), from, edge);
    });
    flow_ = AnalyzeFlow(f_);
    return edge;
  }

  IrFunction& f_;
  const SpillRequest& request_;
  const uint32_t threads_;
  FlowGraph flow_;
  const Layout layout_;
  std::vector<std::vector<bool>> live_in_;
  std::vector<double> benefit_;  // [value]: points under pressure where it is live
  uint64_t slot_ = 0;            // byte address of the first thread's word
};

}  // namespace

SpillOutcome SpillOne(IrFunction& function, const SpillRequest& request, MemoryLayout& layout) {
  return Spiller(function, request).Run(layout);
}

}  // namespace qgpu::lower
