#include "lowering/ptx_to_blocks/simplify/simplify.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "lowering/ptx_to_blocks/simplify/constants.h"
#include "lowering/ptx_to_blocks/simplify/replacement.h"

namespace qgpu::lower {

bool MergeEqualValues(IrFunction& function) {
  using Key = std::tuple<IrOp, Type, Compare, uint64_t, std::vector<int>, int>;
  const FlowGraph flow = AnalyzeFlow(function);
  std::map<Key, std::vector<int>> seen;
  std::vector<int> replacement = NoReplacement(function);
  bool changed = false;
  for (int block : flow.order) {
    for (int value : function.blocks[block].instructions) {
      IrInstruction& in = function.at(value);
      ForEachOperand(in, [&](int& operand) { operand = replacement[operand]; });
      if (IsAccess(in.op) || IsConvergent(in.op)) continue;
      Key key{in.op, in.type, in.compare, in.immediate, in.args, -1};
      if (in.op == IrOp::kPhi) {
        std::vector<std::pair<int, int>> sources;
        for (size_t i = 0; i < in.args.size(); ++i) sources.push_back({in.phi_blocks[i], in.args[i]});
        std::sort(sources.begin(), sources.end());
        std::vector<int>& flat = std::get<4>(key);
        flat.clear();
        for (const auto& [from, arg] : sources) flat.insert(flat.end(), {from, arg});
        std::get<5>(key) = block;
      } else if (IsCommutative(in.op) && in.args[0] > in.args[1] && !function.IsConstant(in.args[1])) {
        std::swap(std::get<4>(key)[0], std::get<4>(key)[1]);
      }
      std::vector<int>& equals = seen[key];
      const auto found = std::find_if(equals.begin(), equals.end(),
                                      [&](int e) { return flow.Dominates(function.at(e).block, block); });
      if (found == equals.end()) {
        equals.push_back(value);
      } else {
        replacement[value] = *found;
        changed = true;
      }
    }
  }
  Replace(function, replacement);
  return changed;
}

bool RemoveDeadValues(IrFunction& function) {
  std::vector<bool> needed(function.instructions.size(), false);
  std::vector<int> work;
  const auto need = [&](int value) {
    if (value >= 0 && !needed[value]) {
      needed[value] = true;
      work.push_back(value);
    }
  };
  for (const IrBlock& block : function.blocks) {
    need(block.end.condition);
    for (int value : block.instructions) {
      if (HasSideEffect(function.at(value)) && !NeverHappens(function, function.at(value))) need(value);
    }
  }
  while (!work.empty()) {
    const int value = work.back();
    work.pop_back();
    ForEachOperand(std::as_const(function).at(value), need);
  }
  bool changed = false;
  for (IrBlock& block : function.blocks) {
    const size_t before = block.instructions.size();
    std::erase_if(block.instructions, [&](int value) {
      if (!needed[value]) function.at(value).block = -1;
      return !needed[value];
    });
    changed = changed || block.instructions.size() != before;
  }
  return changed;
}

void Simplify(IrFunction& function) {
  for (bool changed = true; changed;) {
    changed = SimplifyFlow(function);
    changed |= FoldValues(function);
    changed |= MergeEqualValues(function);
    changed |= RemoveDeadValues(function);
  }
}

}  // namespace qgpu::lower
