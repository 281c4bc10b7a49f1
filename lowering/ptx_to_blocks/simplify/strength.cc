#include "lowering/ptx_to_blocks/simplify/strength.h"

#include <algorithm>
#include <optional>

namespace qgpu::lower {
namespace {

// A phi with one start and one step: start, start + step, start + 2 step, ...
struct Walk {
  int phi = -1;
  int start = -1;
  int64_t step = 0;
  std::vector<int> steps;  // the additions
};

std::optional<Walk> WalkOf(const IrFunction& function, int value) {
  const IrInstruction& phi = function.at(value);
  Induction induction;
  if (phi.op != IrOp::kPhi || phi.type != Type::kI32 || !IsInduction(function, value, &induction)) return std::nullopt;
  if (induction.step_low != induction.step_high || induction.starts.size() != 1) return std::nullopt;
  Walk walk{value, induction.starts[0], induction.step_low, {}};
  for (int arg : phi.args) {
    if (arg == value) return std::nullopt;
    if (arg != walk.start) walk.steps.push_back(arg);
  }
  return walk;
}

std::vector<Walk> WalksIn(const IrFunction& function, int block) {
  std::vector<Walk> walks;
  for (int value : function.blocks[block].instructions) {
    if (const auto walk = WalkOf(function, value)) walks.push_back(*walk);
  }
  return walks;
}

struct Use {
  int user = -1;         // instruction, or -1: a branch
  bool address = false;  // of a load or store, without offset
};

std::vector<std::vector<Use>> FindUses(const IrFunction& function, const FlowGraph& flow) {
  std::vector<std::vector<Use>> uses(function.instructions.size());
  for (int block : flow.order) {
    for (int value : function.blocks[block].instructions) {
      const IrInstruction& in = function.at(value);
      const bool memory = in.op == IrOp::kLoad || in.op == IrOp::kStore;
      for (size_t i = 0; i < in.args.size(); ++i) {
        uses[in.args[i]].push_back({value, memory && i == 0 && in.immediate == 0});
      }
      if (in.guard >= 0) uses[in.guard].push_back({value, false});
    }
    const int condition = function.blocks[block].end.condition;
    if (condition >= 0) uses[condition].push_back({-1, false});
  }
  return uses;
}

bool Contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool IsParameter(const IrFunction& function, int value) {
  return function.at(value).op == IrOp::kSpecial && function.at(value).immediate >= kSpecialFirstParameter &&
         function.at(value).immediate < kSpecialLaneId;
}

int PositionOf(const IrFunction& function, int value) {
  const std::vector<int>& list = function.blocks[function.at(value).block].instructions;
  return static_cast<int>(std::find(list.begin(), list.end(), value) - list.begin());
}

int AddSum(IrFunction& function, int block, int position, int a, int b, int origin) {
  IrInstruction sum;
  sum.op = IrOp::kAdd;
  sum.type = Type::kI32;
  sum.args = {a, b};
  sum.origin = origin;
  return function.Add(block, sum, position);
}

int FirstOrdinary(const IrFunction& function, int block) {
  const std::vector<int>& list = function.blocks[block].instructions;
  int position = 0;
  while (position < static_cast<int>(list.size()) && function.at(list[position]).op == IrOp::kPhi) ++position;
  return position;
}

// A phi of `like`'s shape that starts at `start`: an existing one, or a new one with steps of its own.
int IndexLike(IrFunction& function, const Walk& like, int start) {
  const int block = function.at(like.phi).block;
  const IrInstruction shape = function.at(like.phi);
  const auto from_outside = [&](const IrInstruction& phi, int anchor) {
    std::vector<int> blocks;
    for (size_t i = 0; i < phi.args.size(); ++i) {
      if (phi.args[i] == anchor) blocks.push_back(phi.phi_blocks[i]);
    }
    std::sort(blocks.begin(), blocks.end());
    return blocks;
  };
  for (const Walk& walk : WalksIn(function, block)) {
    if (walk.phi != like.phi && walk.start == start && walk.step == like.step &&
        from_outside(function.at(walk.phi), start) == from_outside(shape, like.start)) {
      return walk.phi;
    }
  }
  IrInstruction phi = shape;
  phi.args.clear();
  phi.phi_blocks = shape.phi_blocks;
  const int index = function.Add(block, phi, 0);
  const int step = function.Constant(Type::kI32, static_cast<uint64_t>(like.step));
  std::vector<std::pair<int, int>> made;  // old step, new step
  for (int arg : shape.args) {
    int value = start;
    if (arg != like.start) {
      const auto known = std::find_if(made.begin(), made.end(), [&](const auto& m) { return m.first == arg; });
      if (known != made.end()) {
        value = known->second;
      } else {
        value = AddSum(function, function.at(arg).block, PositionOf(function, arg) + 1, index, step,
                       function.at(arg).origin);
        made.push_back({arg, value});
      }
    }
    function.at(index).args.push_back(value);
  }
  return index;
}

// The one block from which the walk's loop is entered, or -1.
int EntryOf(const IrFunction& function, const Walk& walk) {
  const IrInstruction& phi = function.at(walk.phi);
  int entry = -1;
  for (size_t i = 0; i < phi.args.size(); ++i) {
    if (phi.args[i] != walk.start) continue;
    if (entry >= 0) return -1;
    entry = phi.phi_blocks[i];
  }
  return entry;
}

int Append(IrFunction& function, int block, IrOp op, int a, int b) {
  IrInstruction in;
  in.op = op;
  in.type = Type::kI32;
  in.args = {a, b};
  in.origin = function.blocks[block].end.origin;
  return function.Add(block, in);
}

// ---- counters ----

// The comparisons that are all a counter is used for, or nullopt.
std::optional<std::vector<int>> OnlyCompared(const IrFunction& function, const FlowGraph& flow,
                                             const std::vector<std::vector<Use>>& uses, const Walk& walk) {
  std::vector<int> compares;
  std::vector<int> own = walk.steps;
  own.push_back(walk.phi);
  for (int value : own) {
    for (const Use& use : uses[value]) {
      if (Contains(own, use.user)) continue;
      if (use.user < 0) return std::nullopt;
      const IrInstruction& in = function.at(use.user);
      if (in.op != IrOp::kCompare || (in.compare != Compare::kEq && in.compare != Compare::kNe)) return std::nullopt;
      const int end = in.args[0] == value ? in.args[1] : in.args[0];
      const bool invariant =
          function.IsPlaceless(end) || (!Contains(own, end) && function.at(end).block != function.at(walk.phi).block &&
                                        flow.Dominates(function.at(end).block, function.at(walk.phi).block));
      if (!invariant) return std::nullopt;
      compares.push_back(use.user);
    }
  }
  if (compares.empty()) return std::nullopt;
  return compares;
}

class CounterReplacer {
 public:
  CounterReplacer(IrFunction& function, const LaunchFacts& facts)
      : f_(function),
        facts_(facts),
        flow_(AnalyzeFlow(function)),
        ranges_(AnalyzeRanges(function, flow_, facts)),
        uses_(FindUses(function, flow_)) {}

  // One replacement at a time: the analyses above are of the function before it.
  bool Run() {
    for (int block : flow_.order) {
      const std::vector<Walk> walks = WalksIn(f_, block);
      for (const Walk& counter : walks) {
        const auto compares = OnlyCompared(f_, flow_, uses_, counter);
        if (!compares) continue;
        for (const Walk& index : walks) {
          if (index.phi != counter.phi && Replace(counter, index, *compares)) return true;
        }
      }
    }
    return false;
  }

 private:
  bool Replace(const Walk& counter, const Walk& index, const std::vector<int>& compares) {
    if (counter.step == 0 || index.step % counter.step != 0 || counter.steps.size() != index.steps.size()) return false;
    const int64_t factor = index.step / counter.step;
    const int64_t limit = int64_t{1} << 30;
    const int64_t fastest = std::max(std::abs(index.step), std::abs(counter.step));
    if (fastest > 1 << 20 || facts_.token_budget > limit / fastest) return false;
    const int entry = EntryOf(f_, counter);
    if (entry < 0) return false;
    for (int compare : compares) {
      if (!Reachable(counter, EndOf(counter, compare), factor, limit)) return false;
      if (ValueInIndex(counter, index, compare) < 0) return false;
    }
    for (int compare : compares) {
      const int end = EndOf(counter, compare);
      const int walked = ValueInIndex(counter, index, compare);
      IrInstruction& in = f_.at(compare);
      in.args = {walked, -1};
      const int distance = Append(f_, entry, IrOp::kSub, end, counter.start);
      const int scaled =
          Append(f_, entry, IrOp::kMul, distance, f_.Constant(Type::kI32, static_cast<uint64_t>(factor)));
      f_.at(compare).args[1] = Append(f_, entry, IrOp::kAdd, scaled, index.start);
    }
    return true;
  }

  int EndOf(const Walk& counter, int compare) const {
    const std::vector<int>& args = f_.at(compare).args;
    return args[0] == counter.phi || Contains(counter.steps, args[0]) ? args[1] : args[0];
  }

  // The index's value where the comparison reads the counter's: before or after the step.
  int ValueInIndex(const Walk& counter, const Walk& index, int compare) const {
    const std::vector<int>& args = f_.at(compare).args;
    const int counted = EndOf(counter, compare) == args[1] ? args[0] : args[1];
    if (counted == counter.phi) return index.phi;
    // Steps are in step when they come from the same predecessor.
    const IrInstruction &a = f_.at(counter.phi), &b = f_.at(index.phi);
    for (size_t i = 0; i < a.args.size(); ++i) {
      for (size_t j = 0; j < b.args.size(); ++j) {
        if (a.args[i] != counted || a.phi_blocks[i] != b.phi_blocks[j]) continue;
        const int walked = b.args[j];
        const int at_compare = f_.at(compare).block;
        const int home = f_.at(walked).block;
        if (home == at_compare) return PositionOf(f_, walked) < PositionOf(f_, compare) ? walked : -1;
        return home >= 0 && flow_.Dominates(home, at_compare) ? walked : -1;
      }
    }
    return -1;
  }

  // Whether end - start, times factor, is known not to wrap.
  bool Reachable(const Walk& counter, int end, int64_t factor, int64_t limit) const {
    const Range a = ranges_[end], b = ranges_[counter.start];
    if (a.empty() || b.empty()) return false;
    const int64_t farthest = std::max(std::abs(a.high - b.low), std::abs(a.low - b.high));
    return farthest <= limit / std::abs(factor);
  }

  IrFunction& f_;
  const LaunchFacts& facts_;
  const FlowGraph flow_;
  const std::vector<Range> ranges_;
  const std::vector<std::vector<Use>> uses_;
};

// ---- indices that end at zero ----

class IndexRebaser {
 public:
  explicit IndexRebaser(IrFunction& function)
      : f_(function), flow_(AnalyzeFlow(function)), uses_(FindUses(function, flow_)) {}

  // One index at a time, as in CounterReplacer.
  bool Run() {
    for (int block : flow_.order) {
      for (const Walk& walk : WalksIn(f_, block)) {
        if (Rebase(walk)) return true;
      }
    }
    return false;
  }

 private:
  bool Rebase(const Walk& walk) {
    if (walk.steps.size() != 1) return false;
    const int step = walk.steps[0], entry = EntryOf(f_, walk);
    std::vector<int> sums;
    for (const Use& use : uses_[walk.phi]) {
      if (use.user == step) continue;
      if (use.user < 0 || !IsArrayAddress(walk.phi, use.user)) return false;
      sums.push_back(use.user);
    }
    int compare = -1;
    for (const Use& use : uses_[step]) {
      if (use.user == walk.phi) continue;
      if (use.user < 0 || compare >= 0 || f_.at(use.user).op != IrOp::kCompare) return false;
      compare = use.user;
    }
    if (entry < 0 || compare < 0 || sums.empty() || f_.at(compare).args[0] != step) return false;
    const int end = f_.at(compare).args[1];
    const bool equality = f_.at(compare).compare == Compare::kEq || f_.at(compare).compare == Compare::kNe;
    const bool is_zero = f_.IsConstant(end) && f_.at(end).immediate == 0;
    const bool known_at_entry =
        f_.IsPlaceless(end) || f_.at(end).block == entry || flow_.Dominates(f_.at(end).block, entry);
    if (!equality || is_zero || !known_at_entry) return false;
    const int start = Append(f_, entry, IrOp::kSub, walk.start, end);
    std::replace(f_.at(walk.phi).args.begin(), f_.at(walk.phi).args.end(), walk.start, start);
    f_.at(compare).args = {step, f_.Constant(Type::kI32, 0)};
    for (int sum : sums) {
      const int parameter = f_.at(sum).args[0] == walk.phi ? f_.at(sum).args[1] : f_.at(sum).args[0];
      const int base = Append(f_, entry, IrOp::kAdd, end, parameter);
      f_.at(sum).args = {walk.phi, base};
    }
    return true;
  }

  // index + parameter, which only accesses use.
  bool IsArrayAddress(int index, int sum) const {
    const IrInstruction& in = f_.at(sum);
    if (in.op != IrOp::kAdd) return false;
    const int other = in.args[0] == index ? in.args[1] : in.args[0];
    return IsParameter(f_, other) &&
           std::all_of(uses_[sum].begin(), uses_[sum].end(), [](const Use& use) { return use.address; });
  }

  IrFunction& f_;
  const FlowGraph flow_;
  const std::vector<std::vector<Use>> uses_;
};

}  // namespace

bool ShareByteIndices(IrFunction& function) {
  const FlowGraph flow = AnalyzeFlow(function);
  const std::vector<std::vector<Use>> uses = FindUses(function, flow);
  std::vector<int> replacement(function.instructions.size());
  for (size_t i = 0; i < replacement.size(); ++i) replacement[i] = static_cast<int>(i);
  bool changed = false;
  for (int block : flow.order) {
    for (const Walk& walk : WalksIn(function, block)) {
      const IrInstruction start = function.at(walk.start);
      int parameter = walk.start, offset = -1;
      if (start.op == IrOp::kAdd) {
        parameter = IsParameter(function, start.args[0]) ? start.args[0] : start.args[1];
        offset = parameter == start.args[0] ? start.args[1] : start.args[0];
      }
      if (!IsParameter(function, parameter) || walk.phi >= static_cast<int>(uses.size())) continue;
      const bool only_addresses = std::all_of(uses[walk.phi].begin(), uses[walk.phi].end(), [&](const Use& use) {
        return use.address || Contains(walk.steps, use.user);
      });
      const bool steps_private = std::all_of(walk.steps.begin(), walk.steps.end(), [&](int step) {
        return std::all_of(uses[step].begin(), uses[step].end(), [&](const Use& use) { return use.user == walk.phi; });
      });
      if (!only_addresses || !steps_private) continue;
      if (offset < 0) offset = function.Constant(Type::kI32, 0);
      const int index = IndexLike(function, walk, offset);
      replacement[walk.phi] =
          AddSum(function, block, FirstOrdinary(function, block), index, parameter, function.at(walk.phi).origin);
      changed = true;
    }
  }
  function.ReplaceUses(replacement);
  return changed;
}

bool RebaseIndices(IrFunction& function) { return IndexRebaser(function).Run(); }

bool ReplaceCounters(IrFunction& function, const LaunchFacts& facts) { return CounterReplacer(function, facts).Run(); }

}  // namespace qgpu::lower
