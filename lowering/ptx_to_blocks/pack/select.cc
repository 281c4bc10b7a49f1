#include "lowering/ptx_to_blocks/pack/select.h"

#include <algorithm>
#include <bit>

#include "lowering/ptx_to_blocks/simplify/simplify.h"

namespace qgpu::lower {
namespace {

Op SetOp(Compare compare) {
  switch (compare) {
    case Compare::kEq:
      return Op::kSetEq;
    case Compare::kNe:
      return Op::kSetNe;
    case Compare::kLtS:
      return Op::kSetLtS;
    case Compare::kLeS:
      return Op::kSetLeS;
    case Compare::kGtS:
      return Op::kSetGtS;
    case Compare::kGeS:
      return Op::kSetGeS;
    case Compare::kLtU:
      return Op::kSetLtU;
    case Compare::kLeU:
      return Op::kSetLeU;
    case Compare::kGtU:
      return Op::kSetGtU;
    case Compare::kGeU:
      return Op::kSetGeU;
  }
  return Op::kNop;
}

// The machine op that does the same as an IR op of two 32-bit operands (or one); kNop: none.
Op PlainOp(IrOp op) {
  switch (op) {
    case IrOp::kAdd:
      return Op::kAdd;
    case IrOp::kSub:
      return Op::kSub;
    case IrOp::kMul:
    case IrOp::kMad:
      return Op::kMad;
    case IrOp::kAnd:
      return Op::kAnd;
    case IrOp::kOr:
      return Op::kOr;
    case IrOp::kXor:
      return Op::kXor;
    case IrOp::kShl:
      return Op::kShl;
    case IrOp::kShr:
      return Op::kShr;
    case IrOp::kSar:
      return Op::kSar;
    case IrOp::kMinU:
      return Op::kMinU;
    case IrOp::kMinS:
      return Op::kMinS;
    case IrOp::kMaxU:
      return Op::kMaxU;
    case IrOp::kMaxS:
      return Op::kMaxS;
    case IrOp::kPopc:
      return Op::kPopc;
    case IrOp::kClz:
      return Op::kClz;
    case IrOp::kBrev:
      return Op::kBrev;
    default:
      return Op::kNop;
  }
}

class Selector {
 public:
  Selector(const IrFunction& function, const FlowGraph& flow) : f_(function), flow_(flow) {}

  Selection Run() {
    CountUses();
    out_.nodes.resize(f_.blocks.size());
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        if (f_.at(value).op != IrOp::kPhi) out_.nodes[block].push_back(Select(value));
      }
    }
    RemoveUnused();
    return std::move(out_);
  }

 private:
  void CountUses() {
    uses_.assign(f_.instructions.size(), 0);
    only_plain_addresses_.assign(f_.instructions.size(), true);
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        const IrInstruction& in = f_.at(value);
        ForEachOperand(in, [&](int operand) { ++uses_[operand]; });
        const bool memory = in.op == IrOp::kLoad || in.op == IrOp::kStore;
        for (size_t i = 0; i < in.args.size(); ++i) {
          if (!memory || i != 0 || in.immediate != 0) only_plain_addresses_[in.args[i]] = false;
        }
        if (in.guard >= 0) only_plain_addresses_[in.guard] = false;
      }
      const int condition = f_.blocks[block].end.condition;
      if (condition >= 0) ++uses_[condition];
    }
  }

  Source SourceOf(int value) const {
    const IrInstruction& in = f_.at(value);
    if (in.op == IrOp::kConst) return Source::Immediate(static_cast<uint32_t>(in.immediate));
    if (in.op == IrOp::kSpecial) return Source::Special(static_cast<int>(in.immediate));
    return Source::Value(value);
  }

  void SetGuard(Node& node, int predicate, bool negate) const {
    node.guard = StripNegations(f_, predicate, &negate);
    node.negate = negate;
  }

  Node Select(int value) {
    const IrInstruction& in = f_.at(value);
    Node node;
    node.value = in.type == Type::kNone ? -1 : value;
    node.origin = in.origin;
    switch (in.op) {
      case IrOp::kLoad:
      case IrOp::kStore:
        SelectMemory(in, node);
        break;
      case IrOp::kCompare:
        SelectCompare(in, node);
        break;
      case IrOp::kSelect:
        node.op = Op::kSelp;
        node.a = SourceOf(in.args[1]);
        node.b = SourceOf(in.args[2]);
        SetGuard(node, in.args[0], false);
        if (node.a.needs_helper() && !node.b.needs_helper()) {
          std::swap(node.a, node.b);
          node.negate = !node.negate;
        }
        break;
      case IrOp::kPredAnd:
      case IrOp::kPredOr:
      case IrOp::kPredXor:
        SelectPredicateLogic(in, node);
        break;
      case IrOp::kPredNot:
        node.op = Op::kPSet;
        SetGuard(node, in.args[0], true);
        break;
      case IrOp::kLaneShuffle:
        SelectShuffle(in, node);
        break;
      case IrOp::kLaneBallot:
        node.is_convergent = true;
        if (!f_.IsConstant(in.args[0])) {
          node.op = Op::kBallot;
          SetGuard(node, in.args[0], false);
        } else {
          node.op = f_.at(in.args[0]).immediate != 0 ? Op::kBallot : Op::kAnd;  // of all lanes, or 0
        }
        break;
      default:
        SelectPlain(in, node);
    }
    return node;
  }

  void SelectShuffle(const IrInstruction& in, Node& node) const {
    static constexpr Op ops[] = {Op::kShflUp, Op::kShflDown, Op::kShflBfly, Op::kShflIdx};
    node.op = ops[in.immediate % kPairSegments];
    node.is_convergent = true;
    node.pairs = in.immediate >= kPairSegments;
    node.a = SourceOf(in.args[0]);
    node.b = SourceOf(in.args[1]);
  }

  void SelectPlain(const IrInstruction& in, Node& node) const {
    node.op = PlainOp(in.op);
    node.a = SourceOf(in.args[0]);
    if (in.args.size() > 1) node.b = SourceOf(in.args[1]);
    if (in.op == IrOp::kMad) node.c = SourceOf(in.args[2]);
    // An operand that only B can read goes there; otherwise the value that is there stays.
    if (IsCommutative(in.op) && node.a.needs_helper() && !node.b.needs_helper()) std::swap(node.a, node.b);
    node.shift_as_multiply = node.op == Op::kShl && node.b.kind == Source::Kind::kImmediate && node.b.number < 32;
  }

  void SelectCompare(const IrInstruction& in, Node& node) const {
    Compare compare = in.compare;
    node.a = SourceOf(in.args[0]);
    node.b = SourceOf(in.args[1]);
    if (node.a.needs_helper() && !node.b.needs_helper()) {
      std::swap(node.a, node.b);
      compare = Swapped(compare);
    }
    node.op = SetOp(compare);
    const bool with_zero = node.a.is_value() && node.b.kind == Source::Kind::kNone;
    if (!with_zero || (node.op != Op::kSetNe && node.op != Op::kSetEq)) return;
    const IrInstruction& tested = f_.at(node.a.value());
    if ((tested.op == IrOp::kAdd || tested.op == IrOp::kSub) && tested.block == in.block) {
      node.implied_by = node.a.value();
    }
  }

  // A comparison that only this uses takes the other predicate as its guard; otherwise one predicate has to be that of
  // the slot before.
  void SelectPredicateLogic(const IrInstruction& in, Node& node) const {
    int p = in.args[0], q = in.args[1];
    const auto is_own_compare = [&](int v) {
      return f_.at(v).op == IrOp::kCompare && uses_[v] == 1 && f_.at(v).block == in.block;
    };
    if (in.op == IrOp::kPredAnd) {
      if (is_own_compare(p)) std::swap(p, q);
      if (is_own_compare(q)) {
        SelectCompare(f_.at(q), node);
        node.implied_by = -1;
        SetGuard(node, p, false);
        return;
      }
    }
    node.op = in.op == IrOp::kPredAnd ? Op::kPAnd : in.op == IrOp::kPredOr ? Op::kPOr : Op::kPXor;
    bool q_negated = false;
    StripNegations(f_, q, &q_negated);
    if (q_negated) std::swap(p, q);
    SetGuard(node, p, false);
    node.previous = StripNegations(f_, q, &node.previous_negate);
  }

  void SelectMemory(const IrInstruction& in, Node& node) const {
    node.op = in.op == IrOp::kLoad ? Op::kLd : Op::kSt;
    node.is_load = in.op == IrOp::kLoad;
    node.is_store = !node.is_load;
    node.has_effect = HasSideEffect(in);
    node.constant_memory = in.constant;
    node.scratch = in.space == AccessSpace::kScratch;
    if (node.is_store) node.c = SourceOf(in.args[1]);
    if (in.guard >= 0) SetGuard(node, in.guard, in.negate);
    const auto offset = static_cast<uint32_t>(in.immediate);
    const IrInstruction& address = f_.at(in.args[0]);
    const Source base = SourceOf(in.args[0]);
    if (base.kind == Source::Kind::kNone || base.kind == Source::Kind::kImmediate) {
      node.b = Source::Immediate(base.number + offset);
    } else if (offset != 0) {
      node.a = base;
      node.b = Source::Immediate(offset);
    } else if (base.kind == Source::Kind::kSpecial) {
      node.b = base;
    } else if (address.op == IrOp::kAdd && FoldsIntoAccess(in.args[0])) {
      node.a = SourceOf(address.args[0]);
      node.b = SourceOf(address.args[1]);
      if (node.a.needs_helper()) std::swap(node.a, node.b);
    } else {
      node.a = base;
    }
  }

  // An access can do the last addition of its address itself. That pays where a special word is added, whose value is
  // at hand everywhere, and where nothing else needs the sum.
  bool FoldsIntoAccess(int sum) const {
    const Source a = SourceOf(f_.at(sum).args[0]), b = SourceOf(f_.at(sum).args[1]);
    if (a.needs_helper() && b.needs_helper()) return false;
    return a.needs_helper() || b.needs_helper() || only_plain_addresses_[sum];
  }

  void RemoveUnused() {
    std::vector<bool> used(f_.instructions.size(), false);
    for (int block : flow_.order) {
      for (int value : f_.blocks[block].instructions) {
        if (f_.at(value).op == IrOp::kPhi) {
          for (int arg : f_.at(value).args) used[arg] = true;
        }
      }
      if (const int condition = f_.blocks[block].end.condition; condition >= 0) {
        bool negate = false;
        used[StripNegations(f_, condition, &negate)] = true;
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (int block : flow_.order) {
        for (const Node& node : out_.nodes[block]) {
          if (!node.has_effect && !used[node.value]) continue;
          const auto use = [&](int value) {
            if (value >= 0 && !used[value]) used[value] = changed = true;
          };
          for (const Source& source : {node.a, node.b, node.c}) {
            if (source.is_value()) use(source.value());
          }
          use(node.guard);
          use(node.previous);
        }
      }
    }
    for (std::vector<Node>& nodes : out_.nodes) {
      std::erase_if(nodes, [&](const Node& node) { return !node.has_effect && !used[node.value]; });
    }
  }

  const IrFunction& f_;
  const FlowGraph& flow_;
  std::vector<int> uses_;
  std::vector<bool> only_plain_addresses_;
  Selection out_;
};

}  // namespace

Selection SelectInstructions(const IrFunction& function, const FlowGraph& flow) {
  return Selector(function, flow).Run();
}

int StripNegations(const IrFunction& function, int value, bool* negate) {
  while (function.at(value).op == IrOp::kPredNot) {
    value = function.at(value).args[0];
    *negate = !*negate;
  }
  return value;
}

void ForEachRead(const Node& node, const std::function<void(int)>& use) {
  for (const Source& source : {node.a, node.b, node.c}) {
    if (source.is_value()) use(source.value());
  }
  if (node.guard >= 0) use(node.guard);
  if (node.previous >= 0) use(node.previous);
}

Liveness AnalyzeLiveness(const IrFunction& function, const FlowGraph& flow, const Selection& selection) {
  const size_t blocks = function.blocks.size(), values = function.instructions.size();
  Liveness live;
  live.in.assign(blocks, std::vector<bool>(values, false));
  live.out = live.in;
  const auto phis_of = [&](int block, const auto& visit) {
    for (int value : function.blocks[block].instructions) {
      if (function.at(value).op != IrOp::kPhi) break;
      visit(value);
    }
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = flow.order.rbegin(); it != flow.order.rend(); ++it) {
      const int block = *it;
      std::vector<bool> now(values, false);
      const auto use = [&](int value) {
        if (!function.IsPlaceless(value)) now[value] = true;
      };
      for (int successor : flow.successors[block]) {
        for (size_t v = 0; v < values; ++v) now[v] = now[v] || live.in[successor][v];
        phis_of(successor, [&](int phi) {
          const IrInstruction& in = function.at(phi);
          for (size_t i = 0; i < in.args.size(); ++i) {
            if (in.phi_blocks[i] == block) use(in.args[i]);
          }
        });
      }
      live.out[block] = now;
      if (int condition = function.blocks[block].end.condition; condition >= 0) {
        bool negate = false;
        use(StripNegations(function, condition, &negate));
      }
      const std::vector<Node>& nodes = selection.nodes[block];
      for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
        if (node->value >= 0) now[node->value] = false;
        ForEachRead(*node, use);
      }
      phis_of(block, [&](int phi) { now[phi] = false; });
      if (now != live.in[block]) {
        live.in[block] = std::move(now);
        changed = true;
      }
    }
  }
  return live;
}

void LowerPredicatePhis(IrFunction& function) {
  const FlowGraph flow = AnalyzeFlow(function);
  std::vector<int> replacement(function.instructions.size());
  for (size_t i = 0; i < replacement.size(); ++i) replacement[i] = static_cast<int>(i);
  bool any = false;
  for (int block : flow.order) {
    const std::vector<int> list = function.blocks[block].instructions;
    for (int value : list) {
      if (function.at(value).op != IrOp::kPhi || function.at(value).type != Type::kPredicate) continue;
      any = true;
      const IrInstruction phi = function.at(value);
      const int one = function.Constant(Type::kI32, 1), zero = function.Constant(Type::kI32, 0);
      IrInstruction number;
      number.op = IrOp::kPhi;
      number.type = Type::kI32;
      number.origin = phi.origin;
      const int number_phi = function.Add(block, number, 0);
      for (size_t i = 0; i < phi.args.size(); ++i) {
        IrInstruction select;
        select.op = IrOp::kSelect;
        select.type = Type::kI32;
        select.args = {phi.args[i], one, zero};
        const int arg = function.Add(phi.phi_blocks[i], select);
        function.at(number_phi).args.push_back(arg);
        function.at(number_phi).phi_blocks.push_back(phi.phi_blocks[i]);
      }
      IrInstruction test;
      test.op = IrOp::kCompare;
      test.type = Type::kPredicate;
      test.compare = Compare::kNe;
      test.args = {number_phi, zero};
      const std::vector<int>& now = function.blocks[block].instructions;
      const auto first = std::find_if(now.begin(), now.end(), [&](int v) { return function.at(v).op != IrOp::kPhi; });
      replacement[value] = function.Add(block, test, static_cast<int>(first - now.begin()));
    }
  }
  if (!any) return;
  function.ReplaceUses(replacement);
  for (IrBlock& block : function.blocks) {
    std::erase_if(block.instructions, [&](int value) {
      return function.at(value).op == IrOp::kPhi && function.at(value).type == Type::kPredicate;
    });
  }
  Simplify(function);
}

}  // namespace qgpu::lower
