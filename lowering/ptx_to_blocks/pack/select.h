// Instruction selection: each IR instruction becomes one machine instruction whose operands are still values,
// immediates or special words. What no single slot can say (an immediate or special word as first operand, a predicate
// that must be the previous slot's) is left to the scheduler, which adds helper slots where it is needed.
#pragma once

#include <optional>
#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

struct Source {
  enum class Kind : uint8_t { kNone, kImmediate, kSpecial, kValue };
  Kind kind = Kind::kNone;
  uint32_t number = 0;  // immediate (not 0), special word, or value

  static Source None() { return {}; }
  static Source Immediate(uint32_t v) { return v == 0 ? None() : Source{Kind::kImmediate, v}; }
  static Source Special(int word) { return {Kind::kSpecial, static_cast<uint32_t>(word)}; }
  static Source Value(int value) { return {Kind::kValue, static_cast<uint32_t>(value)}; }
  bool is_value() const { return kind == Kind::kValue; }
  int value() const { return static_cast<int>(number); }
  // Only B reads these directly; as A or C they take a slot that brings them into reach.
  bool needs_helper() const { return kind == Kind::kImmediate || kind == Kind::kSpecial; }
  bool operator==(const Source&) const = default;
};

struct Node {
  Op op = Op::kNop;
  int value = -1;  // the IR value it computes; -1: none
  Source a, b, c;
  int guard = -1;  // predicate value; -1: always
  bool negate = false;
  int previous = -1;  // predicate value that must be the slot predicate of the slot before
  bool previous_negate = false;
  bool shift_as_multiply = false;  // a shl by B's immediate that a multiply slot can do as a mad
  int origin = -1;
  bool is_load = false, is_store = false;
  bool is_convergent = false;  // a shuffle or ballot: its pass has the lanes of its own basic block
  bool pairs = false;          // of a shuffle: segments of two lanes
  bool constant_memory = false;
  bool scratch = false;     // of the lowering's own words, which no other access reaches
  bool has_effect = false;  // stores and volatile loads: needed although nothing uses their value

  // kSetNe or kSetEq of `implied_by`, an add or sub of this block, with 0: that slot's own predicate says the same
  // (negated for kSetEq), so the node is needed only where that predicate is out of reach.
  int implied_by = -1;
};

// The nodes of each block, in program order; pure ones that nothing uses after folding are left out.
struct Selection {
  std::vector<std::vector<Node>> nodes;  // [block]
};
Selection SelectInstructions(const IrFunction& function, const FlowGraph& flow);

// Calls `use` for every value that a node reads.
void ForEachRead(const Node& node, const std::function<void(int)>& use);

// Values live on entry to and exit from each block, as the nodes read them. Operands of a phi are live at the end of
// the block they come from; constants and special words are never live.
struct Liveness {
  std::vector<std::vector<bool>> in, out;
};
Liveness AnalyzeLiveness(const IrFunction& function, const FlowGraph& flow, const Selection& selection);

// Predicate phis become phis of 0 and 1, so that only numbers cross joins.
void LowerPredicatePhis(IrFunction& function);

// `value` without the negations around it; *negate is flipped for each.
int StripNegations(const IrFunction& function, int value, bool* negate);

}  // namespace qgpu::lower
