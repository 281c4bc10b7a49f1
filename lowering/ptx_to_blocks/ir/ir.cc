#include "lowering/ptx_to_blocks/ir/ir.h"

#include <algorithm>

#include "common/status.h"

namespace qgpu::lower {

std::vector<int> IrBlock::Successors() const {
  switch (end.kind) {
    case TerminatorKind::kExit:
      return {};
    case TerminatorKind::kBranch:
      return end.target == end.other ? std::vector<int>{end.target} : std::vector<int>{end.target, end.other};
    default:
      return {end.target};
  }
}

int IrFunction::Placeless(IrOp op, Type type, uint64_t immediate) {
  const auto [known, is_new] = placeless_.insert({{op, type, immediate}, static_cast<int>(instructions.size())});
  if (!is_new) return known->second;
  IrInstruction in;
  in.op = op;
  in.type = type;
  in.immediate = immediate;
  instructions.push_back(in);
  return known->second;
}

int IrFunction::Constant(Type type, uint64_t value) {
  if (type == Type::kI32) value = static_cast<uint32_t>(value);
  if (type == Type::kPredicate) value = value != 0;
  return Placeless(IrOp::kConst, type, value);
}

int IrFunction::Special(Type type, int word) { return Placeless(IrOp::kSpecial, type, static_cast<uint64_t>(word)); }

int IrFunction::Add(int block, IrInstruction instruction, int position) {
  const int value = static_cast<int>(instructions.size());
  instruction.block = block;
  instructions.push_back(std::move(instruction));
  std::vector<int>& list = blocks[block].instructions;
  list.insert(position < 0 ? list.end() : list.begin() + position, value);
  return value;
}

void IrFunction::ReplaceUses(const std::vector<int>& replacement) {
  const auto resolve = [&](int& value) {
    while (value >= 0 && value < static_cast<int>(replacement.size()) && replacement[value] != value) {
      value = replacement[value];
    }
  };
  for (IrBlock& block : blocks) {
    for (int value : block.instructions) ForEachOperand(at(value), resolve);
    resolve(block.end.condition);
  }
}

int SplitBefore(IrFunction& function, int value) {
  const int old = function.at(value).block;
  const std::vector<int>& list = function.blocks[old].instructions;
  return SplitAt(function, old, std::find(list.begin(), list.end(), value) - list.begin());
}

int SplitAt(IrFunction& function, int old, size_t position) {
  const int fresh = static_cast<int>(function.blocks.size());
  function.blocks.emplace_back();
  IrBlock& from = function.blocks[old];
  IrBlock& to = function.blocks[fresh];
  const auto first = from.instructions.begin() + static_cast<long>(position);
  to.instructions.assign(first, from.instructions.end());
  from.instructions.erase(first, from.instructions.end());
  for (int moved : to.instructions) function.at(moved).block = fresh;
  to.end = from.end;
  from.end = {};
  from.end.kind = TerminatorKind::kJump;
  from.end.target = fresh;
  for (int successor : to.Successors()) {
    for (int phi : function.blocks[successor].instructions) {
      if (function.at(phi).op != IrOp::kPhi) break;
      for (int& predecessor : function.at(phi).phi_blocks) {
        if (predecessor == old) predecessor = fresh;
      }
    }
  }
  return fresh;
}

void ForEachOperand(IrInstruction& instruction, const std::function<void(int&)>& use) {
  for (int& arg : instruction.args) use(arg);
  if (instruction.guard >= 0) use(instruction.guard);
}

void ForEachOperand(const IrInstruction& instruction, const std::function<void(int)>& use) {
  for (int arg : instruction.args) use(arg);
  if (instruction.guard >= 0) use(instruction.guard);
}

bool HasSideEffect(const IrInstruction& instruction) {
  return instruction.op == IrOp::kStore || instruction.op == IrOp::kAtomic || instruction.op == IrOp::kWarpSync ||
         instruction.op == IrOp::kBlockBallot || instruction.is_volatile;
}

bool IsConvergent(IrOp op) {
  switch (op) {
    case IrOp::kShuffle:
    case IrOp::kBallot:
    case IrOp::kMatchAny:
    case IrOp::kMatchAll:
    case IrOp::kActiveMask:
    case IrOp::kWarpSync:
    case IrOp::kBlockBallot:
    case IrOp::kLaneShuffle:
    case IrOp::kLaneBallot:
      return true;
    default:
      return false;
  }
}

bool IsCommutative(IrOp op) {
  switch (op) {
    case IrOp::kAdd:
    case IrOp::kMul:
    case IrOp::kMad:  // its factors
    case IrOp::kAnd:
    case IrOp::kOr:
    case IrOp::kXor:
    case IrOp::kMinU:
    case IrOp::kMinS:
    case IrOp::kMaxU:
    case IrOp::kMaxS:
    case IrOp::kPredAnd:
    case IrOp::kPredOr:
    case IrOp::kPredXor:
      return true;
    default:
      return false;
  }
}

Compare Swapped(Compare compare) {
  switch (compare) {
    case Compare::kLtS:
      return Compare::kGtS;
    case Compare::kGtS:
      return Compare::kLtS;
    case Compare::kLeS:
      return Compare::kGeS;
    case Compare::kGeS:
      return Compare::kLeS;
    case Compare::kLtU:
      return Compare::kGtU;
    case Compare::kGtU:
      return Compare::kLtU;
    case Compare::kLeU:
      return Compare::kGeU;
    case Compare::kGeU:
      return Compare::kLeU;
    default:
      return compare;
  }
}

Compare Inverted(Compare compare) {
  switch (compare) {
    case Compare::kEq:
      return Compare::kNe;
    case Compare::kNe:
      return Compare::kEq;
    case Compare::kLtS:
      return Compare::kGeS;
    case Compare::kGeS:
      return Compare::kLtS;
    case Compare::kLeS:
      return Compare::kGtS;
    case Compare::kGtS:
      return Compare::kLeS;
    case Compare::kLtU:
      return Compare::kGeU;
    case Compare::kGeU:
      return Compare::kLtU;
    case Compare::kLeU:
      return Compare::kGtU;
    case Compare::kGtU:
      return Compare::kLeU;
  }
  return compare;
}

namespace {

std::vector<int> ReversePostOrder(const IrFunction& function) {
  std::vector<int> order;
  std::vector<char> seen(function.blocks.size(), 0);
  std::vector<std::pair<int, size_t>> stack = {{0, 0}};
  std::vector<std::vector<int>> successors(function.blocks.size());
  seen[0] = 1;
  successors[0] = function.blocks[0].Successors();
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    if (next == successors[block].size()) {
      order.push_back(block);
      stack.pop_back();
      continue;
    }
    const int successor = successors[block][next++];
    if (seen[successor]) continue;
    seen[successor] = 1;
    successors[successor] = function.blocks[successor].Successors();
    stack.push_back({successor, 0});
  }
  std::reverse(order.begin(), order.end());
  return order;
}

void FindDominators(FlowGraph& flow) {
  flow.dominator.assign(flow.predecessors.size(), -1);
  const auto intersect = [&](int a, int b) {
    while (a != b) {
      while (flow.position[a] > flow.position[b]) a = flow.dominator[a];
      while (flow.position[b] > flow.position[a]) b = flow.dominator[b];
    }
    return a;
  };
  const int entry = flow.order[0];
  flow.dominator[entry] = entry;
  for (bool changed = true; changed;) {
    changed = false;
    for (int block : flow.order) {
      if (block == entry) continue;
      int dominator = -1;
      for (int predecessor : flow.predecessors[block]) {
        if (flow.dominator[predecessor] < 0) continue;
        dominator = dominator < 0 ? predecessor : intersect(dominator, predecessor);
      }
      if (dominator != flow.dominator[block]) {
        flow.dominator[block] = dominator;
        changed = true;
      }
    }
  }
  flow.dominator[entry] = -1;
}

// The blocks of each natural loop; loops with the same header are one.
std::vector<std::vector<bool>> FindLoops(const FlowGraph& flow) {
  std::vector<std::vector<bool>> loops;
  for (int header : flow.order) {
    std::vector<bool> body(flow.predecessors.size(), false);
    std::vector<int> work;
    for (int latch : flow.predecessors[header]) {
      if (flow.Dominates(header, latch)) work.push_back(latch);
    }
    if (work.empty()) continue;
    body[header] = true;
    while (!work.empty()) {
      const int block = work.back();
      work.pop_back();
      if (body[block]) continue;
      body[block] = true;
      for (int predecessor : flow.predecessors[block]) work.push_back(predecessor);
    }
    loops.push_back(std::move(body));
  }
  return loops;
}

// flow.order with each loop's blocks in a row.
std::vector<int> ContiguousOrder(const FlowGraph& flow, const std::vector<std::vector<bool>>& loops) {
  std::vector<int> order;
  std::vector<bool> placed(flow.predecessors.size(), false), begun(loops.size(), false);
  const auto ready = [&](int block) {
    return !placed[block] &&
           std::all_of(flow.predecessors[block].begin(), flow.predecessors[block].end(), [&](int predecessor) {
             return placed[predecessor] || flow.position[predecessor] >= flow.position[block];
           });
  };
  const auto open_loops = [&](int block) {  // loops that have begun and hold `block`
    int count = 0;
    for (size_t loop = 0; loop < loops.size(); ++loop) count += begun[loop] && loops[loop][block];
    return count;
  };
  while (order.size() < flow.order.size()) {
    int best = -1, best_open = -1;
    for (int block : flow.order) {
      if (!ready(block)) continue;
      const int open = open_loops(block);
      if (open > best_open) {
        best = block;
        best_open = open;
      }
    }
    placed[best] = true;
    order.push_back(best);
    for (size_t loop = 0; loop < loops.size(); ++loop) begun[loop] = begun[loop] || loops[loop][best];
  }
  return order;
}

}  // namespace

bool FlowGraph::Dominates(int a, int b) const {
  while (b >= 0 && b != a) b = dominator[b];
  return b == a;
}

FlowGraph AnalyzeFlow(const IrFunction& function) {
  FlowGraph flow;
  flow.order = ReversePostOrder(function);
  const size_t count = function.blocks.size();
  flow.position.assign(count, -1);
  flow.predecessors.resize(count);
  flow.successors.resize(count);
  for (size_t i = 0; i < flow.order.size(); ++i) flow.position[flow.order[i]] = static_cast<int>(i);
  for (int block : flow.order) {
    flow.successors[block] = function.blocks[block].Successors();
    for (int successor : flow.successors[block]) flow.predecessors[successor].push_back(block);
  }
  FindDominators(flow);
  return flow;
}

Layout LayOutBlocks(const FlowGraph& flow) {
  const std::vector<std::vector<bool>> loops = FindLoops(flow);
  Layout layout;
  layout.order = ContiguousOrder(flow, loops);
  layout.loop_depth.assign(flow.predecessors.size(), 0);
  for (const std::vector<bool>& body : loops) {
    for (size_t block = 0; block < body.size(); ++block) layout.loop_depth[block] += body[block];
  }
  return layout;
}

const char* IrOpName(IrOp op) {
  static const char* const names[] = {
      "const",    "special",  "phi",      "add",        "sub",      "mul",         "mad",         "and",
      "or",       "xor",      "shl",      "shr",        "sar",      "minu",        "mins",        "maxu",
      "maxs",     "popc",     "clz",      "brev",       "divu",     "divs",        "remu",        "rems",
      "mulhighu", "dropones", "permute",  "select",     "sext",     "zext",        "trunc",       "cmp",
      "pand",     "por",      "pxor",     "pnot",       "load",     "store",       "atomic",      "shuffle",
      "ballot",   "matchany", "matchall", "activemask", "warpsync", "blockballot", "laneshuffle", "laneballot"};
  return names[static_cast<int>(op)];
}

const char* CompareName(Compare compare) {
  static const char* const names[] = {"eq", "ne", "lt.s", "le.s", "gt.s", "ge.s", "lt.u", "le.u", "gt.u", "ge.u"};
  return names[static_cast<int>(compare)];
}

std::string ToText(const IrFunction& function) {
  const auto name = [&](int value) -> std::string {
    if (value < 0) return "?";
    const IrInstruction& in = function.at(value);
    if (in.op == IrOp::kConst)
      return fmt::format("{}", static_cast<int64_t>(in.type == Type::kI32 ? static_cast<int32_t>(in.immediate)
                                                                          : static_cast<int64_t>(in.immediate)));
    if (in.op == IrOp::kSpecial) return fmt::format("${}", in.immediate);
    return fmt::format("{}{}", in.type == Type::kPredicate ? "p" : in.type == Type::kI64 ? "d" : "v", value);
  };
  std::string text;
  for (int block : AnalyzeFlow(function).order) {
    text += fmt::format("block {}:{}\n", block, function.blocks[block].serial ? " one lane at a time" : "");
    for (int value : function.blocks[block].instructions) {
      const IrInstruction& in = function.at(value);
      text += "  ";
      if (in.type != Type::kNone) text += name(value) + " = ";
      text += IrOpName(in.op);
      if (in.op == IrOp::kCompare) text += fmt::format(".{}", CompareName(in.compare));
      if (in.op == IrOp::kShuffle || in.op == IrOp::kLaneShuffle) text += fmt::format(".{}", in.immediate);
      for (size_t i = 0; i < in.args.size(); ++i) {
        text += (i == 0 ? " " : ", ") + name(in.args[i]);
        if (in.op == IrOp::kPhi) text += fmt::format(" from {}", in.phi_blocks[i]);
      }
      if (IsAccess(in.op)) {
        if (in.immediate != 0) text += fmt::format(" offset {}", static_cast<int64_t>(in.immediate));
        if (in.guard >= 0) text += fmt::format(" if {}{}", in.negate ? "!" : "", name(in.guard));
      }
      text += "\n";
    }
    const Terminator& end = function.blocks[block].end;
    switch (end.kind) {
      case TerminatorKind::kExit:
        text += "  exit\n";
        break;
      case TerminatorKind::kJump:
        text += fmt::format("  jump {}\n", end.target);
        break;
      case TerminatorKind::kBarrier:
        text += fmt::format("  barrier, then {}\n", end.target);
        break;
      case TerminatorKind::kBranch:
        text += fmt::format("  if {}{} then {} else {}\n", end.negate ? "!" : "", name(end.condition), end.target,
                            end.other);
    }
  }
  return text;
}

}  // namespace qgpu::lower
