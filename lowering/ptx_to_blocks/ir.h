// The lowering's own form of a kernel: basic blocks of SSA values that are predicates, 32-bit or 64-bit integers.
// Translation builds it from PTX, Simplify and its like rewrite it, Narrow removes the 64-bit values, and the scheduler
// packs what is left into machine blocks.
//
// A value is the index of its instruction in IrFunction::instructions; instructions are never moved in that list, so
// indices stay valid while blocks are rewritten.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "machine/isa/isa.h"

namespace qgpu::lower {

enum class Type : uint8_t { kNone, kPredicate, kI32, kI64 };

enum class IrOp : uint8_t {
  kConst,    // immediate
  kSpecial,  // special word number `immediate` (isa.h); a 64-bit one is a parameter whose low word that is
  kPhi,      // args[i] comes from phi_blocks[i]
  kAdd,
  kSub,
  kMul,
  kMad,  // args[0] * args[1] + args[2]
  kAnd,
  kOr,
  kXor,
  kShl,  // amounts of 32 and more (64 for 64-bit values) give 0, for kSar copies of the sign
  kShr,
  kSar,
  kMinU,
  kMinS,
  kMaxU,
  kMaxS,
  kPopc,
  kClz,
  kBrev,
  kSelect,    // args[0] (predicate) ? args[1] : args[2]
  kSignExt,   // 32 to 64 bits
  kZeroExt,   // 32 to 64 bits
  kTruncate,  // 64 to 32 bits
  kCompare,   // predicate `compare`(args[0], args[1])
  kPredAnd,
  kPredOr,
  kPredXor,
  kPredNot,
  kLoad,   // word at args[0] + offset `immediate`, where `guard`
  kStore,  // args[1] to args[0] + offset `immediate`, where `guard`
};

enum class Compare : uint8_t { kEq, kNe, kLtS, kLeS, kGtS, kGeS, kLtU, kLeU, kGtU, kGeU };

struct IrInstruction {
  IrOp op = IrOp::kConst;
  Type type = Type::kNone;
  Compare compare = Compare::kEq;
  std::vector<int> args;
  std::vector<int> phi_blocks;
  uint64_t immediate = 0;
  int guard = -1;            // kLoad, kStore: predicate value; -1: always
  bool negate = false;       // of the guard
  bool constant = false;     // kLoad: memory that no store of the kernel changes (ld.global.nc)
  bool is_volatile = false;  // kLoad: happens although nothing uses it (others are then removed, as ptxas does)
  int origin = -1;           // index into IrFunction::origins
  int block = -1;            // where it is; -1: deleted, or a constant or special (which have no place)
};

enum class TerminatorKind : uint8_t { kJump, kBranch, kExit, kBarrier };

struct Terminator {
  TerminatorKind kind = TerminatorKind::kExit;
  int condition = -1;  // kBranch: predicate value
  bool negate = false;
  int target = -1;  // kJump, kBranch (taken), kBarrier (goes on here)
  int other = -1;   // kBranch: not taken
  int origin = -1;
};

struct IrBlock {
  std::vector<int> instructions;  // phis first; not constants and specials
  Terminator end;
  std::vector<int> Successors() const;
};

struct IrFunction {
  std::vector<IrInstruction> instructions;
  std::vector<IrBlock> blocks;  // 0 is the entry; unreachable ones may remain, see ReversePostOrder
  std::vector<SlotOrigin> origins;
  std::string source = "PTX";  // the PTX file's name, for messages

  IrInstruction& at(int value) { return instructions[value]; }
  const IrInstruction& at(int value) const { return instructions[value]; }

  // The one value of a constant or special word.
  int Constant(Type type, uint64_t value);
  int Special(Type type, int word);
  bool IsConstant(int value) const { return at(value).op == IrOp::kConst; }
  // A value that is in no register: constant or special word.
  bool IsPlaceless(int value) const { return at(value).op == IrOp::kConst || at(value).op == IrOp::kSpecial; }

  // Adds an instruction in `block`, at `position` (-1: at the end).
  int Add(int block, IrInstruction instruction, int position = -1);
  // Every use of value i becomes replacement[i] (followed transitively; i itself where it does not change).
  void ReplaceUses(const std::vector<int>& replacement);
};

// Moves `value` and what follows it in its block into a new block, which takes over the terminator; the old block jumps
// there. Returns the new block. For expansions that need control flow where an instruction stands. `value` may not be a
// phi.
int SplitBefore(IrFunction& function, int value);

// Calls `use` for every operand of the instruction, guard included.
void ForEachOperand(IrInstruction& instruction, const std::function<void(int&)>& use);
void ForEachOperand(const IrInstruction& instruction, const std::function<void(int)>& use);

bool HasSideEffect(const IrInstruction& instruction);  // stores
bool IsCommutative(IrOp op);
Compare Swapped(Compare compare);   // of exchanged operands
Compare Inverted(Compare compare);  // the opposite result

// What the control flow graph says, computed once and valid until blocks change.
struct FlowGraph {
  std::vector<int> order;                      // reachable blocks in reverse post order
  std::vector<int> position;                   // in `order`; -1: unreachable
  std::vector<std::vector<int>> predecessors;  // reachable ones
  std::vector<std::vector<int>> successors;
  std::vector<int> dominator;  // immediate; -1 for the entry

  bool Dominates(int a, int b) const;
};
FlowGraph AnalyzeFlow(const IrFunction& function);

// The order in which blocks are laid out: a reverse post order in which once a loop is entered all its blocks come
// before any other, so that lanes that leave a loop early wait at a higher number.
struct Layout {
  std::vector<int> order;
  std::vector<int> loop_depth;  // [block]
};
Layout LayOutBlocks(const FlowGraph& flow);

// The function as text, for tests and for debugging.
std::string ToText(const IrFunction& function);
const char* IrOpName(IrOp op);
const char* CompareName(Compare compare);

}  // namespace qgpu::lower
