// The lowering's own form of a kernel: basic blocks of SSA values that are predicates, 32-bit or 64-bit integers.
// Translation builds it from PTX, Simplify and its like rewrite it, Narrow removes the 64-bit values, and the scheduler
// packs what is left into machine blocks.
//
// A value is the index of its instruction in IrFunction::instructions; instructions are never moved in that list, so
// indices stay valid while blocks are rewritten.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <tuple>
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
  kDivU,  // by zero: all ones; kDivS of the smallest number by -1: itself
  kDivS,
  kRemU,  // by zero: the dividend
  kRemS,
  kMulHighU,  // upper half of the product, of 64-bit values only
  kDropOnes,  // args[0] without its lowest args[1] ones
  kPermute,   // four bytes of {args[1], args[0]}, chosen by the nibbles of args[2] as prmt does
  kSelect,    // args[0] (predicate) ? args[1] : args[2]
  kSignExt,   // 32 to 64 bits
  kZeroExt,   // 32 to 64 bits
  kTruncate,  // 64 to 32 bits
  kCompare,   // predicate `compare`(args[0], args[1])
  kPredAnd,
  kPredOr,
  kPredXor,
  kPredNot,
  kLoad,    // word at args[0] + offset `immediate`, where `guard`
  kStore,   // args[1] to args[0] + offset `immediate`, where `guard`
  kAtomic,  // old value at args[0] + `immediate`, which becomes `atomic`(old, args[1]..), where `guard` (ExpandMemory)
  // What the threads of a CUDA warp do together (ExpandWarp replaces it); the last operand is the member mask.
  kShuffle,      // args[0] of the thread that mode `immediate` (ShuffleMode), args[1] and args[2] (PTX's b, c) name
  kBallot,       // for each live thread one bit: args[0] (predicate)
  kMatchAny,     // the live threads with the same args[0], args[1] (halves of 64 bits)
  kMatchAll,     // all live threads where all have the same, else 0
  kActiveMask,   // the live threads; no operands
  kWarpSync,     // nobody goes on before all have come
  kBlockBallot,  // kBallot of the whole thread block after a barrier; no mask
  // What the machine can do inside a pass.
  kLaneShuffle,  // args[0] of the lane that mode `immediate` % 4 and args[1] name; segments of 2 where `immediate` >= 4
  kLaneBallot,   // for each lane of the pass one bit: args[0] (predicate)
};

enum class ShuffleMode : uint8_t { kUp, kDown, kXor, kIndex };
inline constexpr uint64_t kPairSegments = 4;  // of kLaneShuffle

enum class Compare : uint8_t { kEq, kNe, kLtS, kLeS, kGtS, kGeS, kLtU, kLeU, kGtU, kGeU };

enum class AtomicOp : uint8_t {
  kAdd,
  kMinU,
  kMinS,
  kMaxU,
  kMaxS,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCompareSwap,
  kInc,
  kDec
};

// What a memory access may reach, beyond what the machine checks anyway: nothing but its variables there.
enum class AccessSpace : uint8_t { kAny, kShared, kConst, kLocal, kParameters, kNotConst, kScratch };

// What spilling has added: it does not spill that again.
enum class SpillRole : uint8_t { kNone, kOwn, kFrame, kPhiStore };

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
  AtomicOp atomic = AtomicOp::kAdd;
  AccessSpace space = AccessSpace::kAny;  // of a memory access
  uint8_t bytes = 4;                      // kStore: 1 and 2 until ExpandMemory; kAtomic: 2, 4 or 8
  uint8_t alignment = 4;                  // of a memory access's address: 8 and 16 until CheckAccesses
  SpillRole spill = SpillRole::kNone;
  int origin = -1;  // index into IrFunction::origins
  int block = -1;   // where it is; -1: deleted, or a constant or special (which have no place)
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
  bool serial = false;  // lanes run it one by one, each alone from its start to its end; without phis, ends in a jump
  bool stays = false;   // it is a machine block even if nothing is in it: a place to wait at
  std::vector<int> Successors() const;
};

struct IrFunction {
  std::deque<IrInstruction> instructions;  // references survive when more are added
  std::vector<IrBlock> blocks;             // 0 is the entry; unreachable ones may remain, see ReversePostOrder
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

 private:
  int Placeless(IrOp op, Type type, uint64_t immediate);
  std::map<std::tuple<IrOp, Type, uint64_t>, int> placeless_;  // constants and special words that exist
};

// Moves `value` and what follows it in its block into a new block, which takes over the terminator; the old block jumps
// there. Returns the new block. For expansions that need control flow where an instruction stands. `value` may not be a
// phi.
int SplitBefore(IrFunction& function, int value);
// The same from a position in the block's list on, which may be its end.
int SplitAt(IrFunction& function, int block, size_t position);

// Calls `use` for every operand of the instruction, guard included.
void ForEachOperand(IrInstruction& instruction, const std::function<void(int&)>& use);
void ForEachOperand(const IrInstruction& instruction, const std::function<void(int)>& use);

bool HasSideEffect(const IrInstruction& instruction);  // stores
inline bool IsAccess(IrOp op) { return op == IrOp::kLoad || op == IrOp::kStore || op == IrOp::kAtomic; }
// Whether the result depends on which threads run the instruction together: it may not be moved to where others do.
bool IsConvergent(IrOp op);
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
