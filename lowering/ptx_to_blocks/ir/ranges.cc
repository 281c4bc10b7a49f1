#include "lowering/ptx_to_blocks/ir/ranges.h"

#include <algorithm>
#include <limits>

#include "lowering/ptx_to_blocks/ir/range_transfer.h"

namespace qgpu::lower {
namespace {

using Wide = __int128;

constexpr int kRoundsBeforeWidening = 4, kMostRounds = 60;
constexpr int kNarrowingRounds = 4;
constexpr int64_t kMaxTurns = int64_t{1} << 40;
constexpr int kDominators = 64;  // how far up conditions are looked for
constexpr int kTurns = 4;        // through the conditions of these blocks
constexpr int kConditionTerms = 8;
constexpr int kStepTerms = 6;    // of what a turn of a loop adds
constexpr int kLookThrough = 6;  // operations that an access's address is looked through

// Where bounds that keep growing go.
constexpr int64_t kLimits[] = {std::numeric_limits<int64_t>::min(),
                               std::numeric_limits<int32_t>::min(),
                               -65536,
                               -1024,
                               -128,
                               -1,
                               0,
                               1,
                               31,
                               127,
                               255,
                               1023,
                               65535,
                               std::numeric_limits<int32_t>::max(),
                               std::numeric_limits<uint32_t>::max(),
                               std::numeric_limits<int64_t>::max()};

Range Widened(const Range& before, const Range& now, Type type) {
  if (before.empty() || now.empty()) return now;
  Range wide = now;
  if (now.low < before.low) wide.low = *(std::upper_bound(std::begin(kLimits), std::end(kLimits), now.low) - 1);
  if (now.high > before.high) wide.high = *std::lower_bound(std::begin(kLimits), std::end(kLimits), now.high);
  return Intersection(wide, FullRange(type));
}

}  // namespace

Ranges::Ranges(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts)
    : f_(function), flow_(flow), facts_(facts), ranges_(function.instructions.size()) {
  for (size_t i = 0; i < ranges_.size(); ++i) {
    if (f_.IsPlaceless(static_cast<int>(i))) ranges_[i] = Placeless(f_.at(static_cast<int>(i)));
  }
  FindConditions();
  Grow();
  Shrink();
}

Range Ranges::Everything(Type type) { return FullRange(type); }

Range Ranges::Placeless(const IrInstruction& in) const {
  if (in.op == IrOp::kConst) {
    const auto value = in.type == Type::kI64 ? static_cast<int64_t>(in.immediate) : static_cast<int32_t>(in.immediate);
    return {value, value};
  }
  const auto word = static_cast<int>(in.immediate);
  const auto below = [](uint64_t count) { return Range{0, static_cast<int64_t>(count) - 1}; };
  switch (word) {
    case kSpecialCtaX:
      return below(facts_.grid.x);
    case kSpecialCtaY:
      return below(facts_.grid.y);
    case kSpecialCtaZ:
      return below(facts_.grid.z);
    case kSpecialLaneId:
      return below(std::clamp<uint64_t>(facts_.block.Count(), 1, 32));
    case kSpecialTidX:
      return below(facts_.block.x);
    case kSpecialTidY:
      return below(facts_.block.y);
    case kSpecialTidZ:
      return below(facts_.block.z);
  }
  const size_t parameter = word - kSpecialFirstParameter;
  if (parameter >= facts_.words.size()) return FullRange(in.type);
  const uint64_t bits = facts_.words[parameter];
  const auto value = in.type == Type::kI64 ? static_cast<int64_t>(bits) : static_cast<int32_t>(bits);
  return {value, value};
}

// ---- what branches tell ----

void Ranges::Collect(int predicate, bool truth, int terms, std::vector<Condition>& conditions) const {
  if (predicate < 0 || terms == 0) return;
  const IrInstruction& in = f_.at(predicate);
  switch (in.op) {
    case IrOp::kPredNot:
      return Collect(in.args[0], !truth, terms - 1, conditions);
    case IrOp::kPredAnd:
    case IrOp::kPredOr:
      if (truth != (in.op == IrOp::kPredAnd)) return;
      Collect(in.args[0], truth, terms - 1, conditions);
      return Collect(in.args[1], truth, terms - 1, conditions);
    case IrOp::kCompare: {
      const Compare compare = truth ? in.compare : Inverted(in.compare);
      conditions.push_back({in.args[0], compare, in.args[1]});
      conditions.push_back({in.args[1], Swapped(compare), in.args[0]});
      return;
    }
    default:
      return;
  }
}

// What holds on the way from block `from` to block `to`.
std::vector<Ranges::Condition> Ranges::OnEdge(int from, int to) const {
  std::vector<Condition> conditions;
  const Terminator& end = f_.blocks[from].end;
  if (end.kind != TerminatorKind::kBranch || end.target == end.other) return conditions;
  Collect(end.condition, (to == end.target) != end.negate, kConditionTerms, conditions);
  return conditions;
}

void Ranges::FindConditions() {
  conditions_.resize(f_.blocks.size());
  for (int block : flow_.order) {
    if (flow_.predecessors[block].size() == 1) conditions_[block] = OnEdge(flow_.predecessors[block][0], block);
    for (int value : f_.blocks[block].instructions) {
      if (f_.at(value).op != IrOp::kPhi) break;
      for (int from : f_.at(value).phi_blocks) {
        const bool is_new = edges_.try_emplace({from, block}, OnEdge(from, block)).second;
        if (is_new && flow_.position[from] >= 0 && flow_.Dominates(block, from)) back_edges_.insert({from, block});
      }
    }
  }
}

Range Ranges::Under(const std::vector<Condition>& conditions, int value, Range range) const {
  for (const Condition& condition : conditions) {
    if (condition.value == value) range = Restrict(range, condition.compare, Of(condition.other));
  }
  return range;
}

Range Ranges::In(int block, int value) const {
  Range range = Of(value);
  if (f_.IsConstant(value)) return range;
  std::vector<int> inside;  // the blocks on the way, from the innermost
  for (int up = block, steps = 0; up >= 0 && steps < kDominators; up = flow_.dominator[up], ++steps) {
    if (!conditions_[up].empty()) inside.push_back(up);
  }
  for (int turn = 0; turn < kTurns; ++turn) {  // "not 2" says something once "at least 2" is known
    const Range before = range;
    for (auto up = inside.rbegin(); up != inside.rend(); ++up) range = Under(conditions_[*up], value, range);
    if (range == before) break;
  }
  return range;
}

Range Ranges::LookedThrough(int block, int value, const std::vector<Condition>& extra, int depth) const {
  if (static_cast<size_t>(value) >= ranges_.size()) return FullRange(f_.at(value).type);
  Range range = Under(extra, value, In(block, value));
  const IrInstruction& in = f_.at(value);
  const bool plain = in.op != IrOp::kPhi && !IsAccess(in.op) && !IsConvergent(in.op) && !f_.IsPlaceless(value);
  if (depth == 0 || !plain || (in.type != Type::kI32 && in.type != Type::kI64)) return range;
  std::vector<Range> args;
  for (int arg : in.args) {
    args.push_back(LookedThrough(block, arg, extra, depth - 1));
    if (args.back().empty() && f_.at(arg).type != Type::kPredicate) return {};
  }
  return Intersection(range, TransferRange(in, args));
}

Range Ranges::At(int block, int value, int guard, bool negate) const {
  std::vector<Condition> extra;
  Collect(guard, !negate, kConditionTerms, extra);
  return LookedThrough(block, value, extra, kLookThrough);
}

// ---- the analysis ----

Range Ranges::Transfer(int block, const IrInstruction& in) const {
  std::vector<Range> args;
  for (int arg : in.args) {
    args.push_back(In(block, arg));
    if (args.back().empty() && f_.at(arg).type != Type::kPredicate) return {};
  }
  if (in.op == IrOp::kSelect && in.type != Type::kPredicate) {
    for (const bool truth : {true, false}) {
      std::vector<Condition> conditions;
      Collect(in.args[0], truth, kConditionTerms, conditions);
      const size_t arm = truth ? 1 : 2;
      args[arm] = Under(conditions, in.args[arm], args[arm]);
    }
  }
  return TransferRange(in, args);
}

Range Ranges::Joined(int value) const {
  const IrInstruction& in = f_.at(value);
  Range range;
  for (size_t i = 0; i < in.args.size(); ++i) {
    const int from = in.phi_blocks[i];
    if (flow_.position[from] < 0) continue;
    range = Union(range, Under(edges_.at({from, in.block}), in.args[i], In(from, in.args[i])));
  }
  return range;
}

// Adds to *step what `value` adds to `phi`, over all ways of computing it. False where it does not start from `phi`.
bool Ranges::StepFrom(int phi, int value, int terms, Range added, Range* step) const {
  if (value == phi) {
    *step = Union(*step, added);
    return true;
  }
  if (terms == 0 || static_cast<size_t>(value) >= ranges_.size()) return false;
  const IrInstruction& in = f_.at(value);
  const auto further = [&](int from, const Range& more, int sign) {
    if (more.empty()) return true;  // nothing comes this way yet
    const Wide low = Wide{added.low} + (sign > 0 ? Wide{more.low} : -Wide{more.high});
    const Wide high = Wide{added.high} + (sign > 0 ? Wide{more.high} : -Wide{more.low});
    if (low < -kMaxTurns || high > kMaxTurns) return false;
    return StepFrom(phi, from, terms - 1, {static_cast<int64_t>(low), static_cast<int64_t>(high)}, step);
  };
  switch (in.op) {
    case IrOp::kAdd: {
      const Range before = *step;
      if (further(in.args[0], Of(in.args[1]), 1)) return true;
      *step = before;
      return further(in.args[1], Of(in.args[0]), 1);
    }
    case IrOp::kSub:
      return further(in.args[0], Of(in.args[1]), -1);
    case IrOp::kSelect:
      return StepFrom(phi, in.args[1], terms - 1, added, step) && StepFrom(phi, in.args[2], terms - 1, added, step);
    default:
      return false;
  }
}

Ranges::Walk Ranges::WalkOf(int phi) const {
  const IrInstruction& in = f_.at(phi);
  Walk walk;
  bool steps_by_back_edges = true;
  for (size_t i = 0; i < in.args.size(); ++i) {
    if (flow_.position[in.phi_blocks[i]] < 0) continue;
    Range step = walk.step;
    const bool is_step = StepFrom(phi, in.args[i], kStepTerms, {0, 0}, &step);
    const bool is_back_edge = back_edges_.contains({in.phi_blocks[i], in.block});
    steps_by_back_edges = steps_by_back_edges && is_step == is_back_edge;
    if (is_step) {
      walk.steps = true;
      walk.step = step;
    } else {
      walk.start = Union(walk.start, Of(in.args[i]));
    }
  }
  walk.counts = walk.steps && steps_by_back_edges && !walk.step.empty() && (walk.step.low > 0 || walk.step.high < 0);
  return walk;
}

// Where a walk can get in so many turns.
Range Ranges::Reach(const Walk& walk, Type type, int64_t turns) {
  if (walk.start.empty() || walk.step.empty()) return walk.start;
  return MakeRange(type, walk.start.low + std::min<Wide>(0, Wide{walk.step.low} * turns),
                   walk.start.high + std::max<Wide>(0, Wide{walk.step.high} * turns));
}

// No value of the other phis of `block` is reached in more turns than this: one of them counts in steps of one
// direction, and stays in its range.
int64_t Ranges::Turns(int block) const {
  int64_t turns = std::clamp<int64_t>(facts_.token_budget, 1, kMaxTurns);
  for (int value : f_.blocks[block].instructions) {
    if (f_.at(value).op != IrOp::kPhi) break;
    const Type type = f_.at(value).type;
    if (type != Type::kI32 && type != Type::kI64) continue;
    const Walk walk = WalkOf(value);
    const Range& range = ranges_[value];
    if (!walk.counts || range.empty() || walk.start.empty()) continue;
    const Range full = FullRange(type);  // what wraps around does not count
    if (Wide{range.low} + walk.step.low < full.low || Wide{range.high} + walk.step.high > full.high) continue;
    const Wide way = walk.step.low > 0 ? Wide{range.high} - walk.start.low : Wide{walk.start.high} - range.low;
    const Wide each = walk.step.low > 0 ? walk.step.low : -Wide{walk.step.high};
    turns = static_cast<int64_t>(std::min<Wide>(turns, std::max<Wide>(way, 0) / each));
  }
  return turns;
}

void Ranges::Grow() {
  const int64_t most_turns = std::clamp<int64_t>(facts_.token_budget, 1, kMaxTurns);
  bool changed = true;
  for (int round = 0; changed; ++round) {
    changed = false;
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        const IrInstruction& in = f_.at(value);
        Range now;
        if (in.op == IrOp::kPhi) {
          const Walk walk = WalkOf(value);
          now = walk.steps ? Reach(walk, in.type, most_turns) : Joined(value);
        } else {
          now = Transfer(block, in);
        }
        now = Union(now, ranges_[value]);
        if (now == ranges_[value]) continue;
        if (round > kRoundsBeforeWidening) now = Widened(ranges_[value], now, in.type);
        if (round > kMostRounds) now = FullRange(in.type);
        changed = true;
        ranges_[value] = now;
      }
    }
  }
}

// From ranges that hold, ranges that hold are computed once more.
void Ranges::Shrink() {
  for (int round = 0; round < kNarrowingRounds; ++round) {
    for (int block : flow_.order) {
      const int64_t turns = Turns(block);
      for (int value : f_.blocks[block].instructions) {
        const IrInstruction& in = f_.at(value);
        Range now = in.op == IrOp::kPhi ? Joined(value) : Transfer(block, in);
        if (in.op == IrOp::kPhi) {
          const Walk walk = WalkOf(value);
          if (walk.steps) now = Intersection(now, Reach(walk, in.type, turns));
        }
        ranges_[value] = Intersection(ranges_[value], now);
      }
    }
  }
}

bool IsInduction(const IrFunction& function, int phi, Induction* induction) {
  *induction = {};
  bool steps = false;
  for (int arg : function.at(phi).args) {
    const IrInstruction& in = function.at(arg);
    if (in.op == IrOp::kAdd && in.args[0] == phi && function.IsConstant(in.args[1])) {
      const IrInstruction& constant = function.at(in.args[1]);
      const int64_t step = constant.type == Type::kI64 ? static_cast<int64_t>(constant.immediate)
                                                       : static_cast<int32_t>(constant.immediate);
      induction->step_low = steps ? std::min(induction->step_low, step) : step;
      induction->step_high = steps ? std::max(induction->step_high, step) : step;
      steps = true;
    } else if (arg != phi) {
      induction->starts.push_back(arg);
    }
  }
  return steps && !induction->starts.empty();
}

std::vector<Range> AnalyzeRanges(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts) {
  return Ranges(function, flow, facts).values();
}

}  // namespace qgpu::lower
