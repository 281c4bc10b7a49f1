// Instructions of a machine block. One slot is one row of 64 bits, and so is the control row:
//
//   slot:     op 6 | dst 4 | A 5 | B 6 | C 5 | guard 5 | negate 1 | immediate 32          (low bit first)
//   control:  condition 5 | negate 1 | kind 2 | target 6 | fall-through 6 | serial 1 | yield 1
//
// The meaning of every op is the table in isa.cc (kOps) and ExecuteLanes below it; docs/formats/isa.md is generated
// from the table.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"
#include "machine/isa/geometry.h"

namespace qgpu {

// The codes are chosen so that the circuit needs few literals to recognise a group:
//   x1xxxx uses the subtractor, 001xxx the adder, 0001xx is logic, 1001xx shifts, 11xxxx writes a predicate.
enum class Op : uint8_t {
  kNop = 0b000000,
  kMad = 0b000010,
  kAnd = 0b000100,
  kOr = 0b000110,
  kXor = 0b000111,
  kAdd = 0b001000,
  kLd = 0b001001,
  kSt = 0b001010,
  kSub = 0b010000,
  kMinU = 0b010100,
  kMinS = 0b010101,
  kMaxU = 0b010110,
  kMaxS = 0b010111,
  kSelp = 0b100000,
  kShl = 0b100100,
  kShr = 0b100110,
  kSar = 0b100111,
  kPopc = 0b101000,
  kClz = 0b101001,
  kBrev = 0b101010,
  kBallot = 0b101011,
  kShflUp = 0b101100,
  kShflDown = 0b101101,
  kShflBfly = 0b101110,
  kShflIdx = 0b101111,
  kPSet = 0b110000,
  kPAnd = 0b110001,
  kPOr = 0b110100,
  kPXor = 0b110101,
  kSetNe = 0b110010,
  kSetEq = 0b110110,
  kSetGeU = 0b111000,
  kSetGeS = 0b111001,
  kSetGtU = 0b111010,
  kSetGtS = 0b111011,
  kSetLtU = 0b111100,
  kSetLtS = 0b111101,
  kSetLeU = 0b111110,
  kSetLeS = 0b111111,
};

// Slots 0 and 2 hold the multiplier, slots 1 and 3 the shifter, min/max, bit operations and the store port; shuffles
// are in slot 1 only. Both kinds load.
struct OpInfo {
  Op op;
  const char* name;
  bool in_multiply_slots;  // slots 0 and 2
  bool in_general_slots;   // slots 1 and 3
  const char* meaning;     // R: result, P: slot predicate, g: guard, per lane
};

// Every op, ascending by code.
const std::vector<OpInfo>& AllOps();
// nullptr for a code that is not an op.
const OpInfo* FindOp(Op op);
// True where slot `slot` can execute `op` (kNop everywhere).
bool SlotCanExecute(int slot, Op op);

// True for ops whose destination is a predicate (11xxxx).
inline bool WritesPredicate(Op op) { return (static_cast<int>(op) >> 4) == 3; }

// Sources of A, B and C. 1 to 15 are registers of the lane; the "previous" ones are results of this pass.
inline constexpr int kSourceNone = 0;        // zero; for B: the immediate
inline constexpr int kSourcePrevious = 16;   // result of the slot before (slots 1 to 3)
inline constexpr int kSourceTwoBack = 17;    // slots 2 and 3
inline constexpr int kSourceThreeBack = 18;  // slot 3
inline constexpr int kSourceSpecial = 32;    // B only: 32 + special word

// Special words, read through B. Words 3 to 27 are parameters and launch constants, the same in every lane.
inline constexpr int kSpecialCtaX = 0, kSpecialCtaY = 1, kSpecialCtaZ = 2;
inline constexpr int kSpecialFirstParameter = 3;
inline constexpr int kSpecialLaneId = 28;  // thread number in the thread block (modulo 32)
inline constexpr int kSpecialTidX = 29, kSpecialTidY = 30, kSpecialTidZ = 31;

// Guards: 0 always; 1 to 15 a predicate of the lane as it was before the pass; 16 + s the slot predicate of the earlier
// slot s of this pass. `negate` needs a guard other than 0. What the guard does:
//   ld, st: the lane takes part when g.   selp: R = g ? A : B.   ballot: R = bits of the active lanes with g.
//   add, sub: P = g and R != 0.   set: P = g and comparison (R = A - B).   pset pand por pxor: P = g op previous P.
// All other ops ignore it; their P is 0 (shuffles: source lane in range).
inline constexpr int kGuardAlways = 0;
inline constexpr int kGuardSlot = 16;

struct Instruction {
  Op op = Op::kNop;
  int dst = 0;  // register or predicate written back; 0: none
  int a = 0, b = 0, c = 0;
  int guard = 0;
  bool negate = false;
  uint32_t immediate = 0;  // only when b == kSourceNone
  bool operator==(const Instruction&) const = default;
};

enum class ControlKind : uint8_t { kGoto = 0, kExit = 1, kBarrier = 2 };

// Where each lane of the pass goes. Taken: kGoto goes to `target`, kExit ends the thread, kBarrier waits and goes on at
// `target`. Not taken: to `fall_through`. The condition has the coding of a guard (0: always taken).
struct ControlRow {
  int condition = 0;
  bool negate = false;
  ControlKind kind = ControlKind::kGoto;
  int target = 0;  // 0 for kExit
  int fall_through = 0;
  bool serial = false;  // runs for the lowest lane of the mask only; the others still have it pending
  bool yield = false;   // the next ready warp goes first
  bool operator==(const ControlRow&) const = default;
};

inline constexpr int kSlots = 4, kLanes = 4, kWarps = 8;

struct MachineBlock {
  std::array<Instruction, kSlots> slots;
  ControlRow control;
  bool operator==(const MachineBlock&) const = default;
};

// Source positions for messages, traces and disassembly.
struct SlotOrigin {
  int ptx_line = 0;            // 0: none
  int cuda_line = 0;           // 0: none
  std::string text;            // the PTX instruction, without leading blanks
  std::string cuda_file = {};  // that `cuda_line` counts in, without folders; empty: unknown
};

struct Program {
  std::vector<MachineBlock> blocks;
  std::vector<std::array<SlotOrigin, kSlots + 1>> origins;  // [block][slot], 4 = control row; may be empty
};

uint64_t EncodeInstruction(const Instruction& instruction);
Instruction DecodeInstruction(uint64_t row);
uint64_t EncodeControl(const ControlRow& control);
ControlRow DecodeControl(uint64_t row);

// Checks everything a circuit relies on: op allowed in its slot, sources and guards that exist there, immediate only
// without another B, targets inside the program, no more blocks than the ROM holds. kInvalidArgument with block and
// slot.
absl::Status ValidateProgram(const Program& program, const MachineGeometry& geometry);

// "add r3, r1, 42", "st [r2+p0], prev", as disassembly shows a slot.
std::string FormatInstruction(const Instruction& instruction);
std::string FormatControl(const ControlRow& control);

}  // namespace qgpu
