// The translation of one kernel, see translate.h. One class in several files: translate.cc splits the body into blocks
// and reads and writes operands, translate_arithmetic.cc and translate_data.cc hold the handlers of the opcodes.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lowering/ptx_to_blocks/memory_layout.h"
#include "lowering/ptx_to_blocks/ssa_builder.h"
#include "lowering/ptx_to_blocks/translate.h"

namespace qgpu::lower {

using ptx::Operand;
using PtxInstruction = ptx::Instruction;
using OperandKind = ptx::Operand::Kind;
using TypeKind = ptx::TypeInfo::Kind;

// Far more than 128 slots could ever come from; keeps the analyses' time small.
inline constexpr size_t kMaxPtxInstructions = 1024;
inline constexpr size_t kMaxValues = 20000;  // with the phis of every join, before those that are not needed go

// The modifiers of an instruction, each taken by the handler that understands it.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string>& modifiers) : left_(modifiers) {}

  bool Take(std::string_view modifier) {
    const auto found = std::find(left_.begin(), left_.end(), modifier);
    if (found == left_.end()) return false;
    left_.erase(found);
    return true;
  }
  // The first type among them.
  std::optional<ptx::TypeInfo> TakeType() {
    for (auto it = left_.begin(); it != left_.end(); ++it) {
      if (const auto type = ptx::LookUpType(*it)) {
        left_.erase(it);
        return type;
      }
    }
    return std::nullopt;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::vector<std::string> left_;
};

inline bool IsInteger(const ptx::TypeInfo& type) {
  return type.kind == TypeKind::kSigned || type.kind == TypeKind::kUnsigned || type.kind == TypeKind::kBits;
}

// The IR type of an integer PTX type of 16, 32 or 64 bits, or of a predicate. A 16-bit value is the low half of a
// 32-bit one whose high half means nothing: what looks at more than the low bits extends it first.
inline std::optional<Type> TypeOf(const std::optional<ptx::TypeInfo>& type) {
  if (!type) return std::nullopt;
  if (type->kind == TypeKind::kPredicate) return Type::kPredicate;
  if (!IsInteger(*type)) return std::nullopt;
  if (type->bits == 16 || type->bits == 32) return Type::kI32;
  if (type->bits == 64) return Type::kI64;
  return std::nullopt;
}

// A barrier of the whole thread block that gives no result.
inline bool IsPlainBarrier(const PtxInstruction& in) {
  return (in.opcode == "bar" || in.opcode == "barrier") && in.Has("sync") && !in.Has("warp");
}

inline bool EndsBlock(const PtxInstruction& in) {
  return in.opcode == "bra" || in.opcode == "ret" || in.opcode == "exit" || in.opcode == "trap" || IsPlainBarrier(in);
}

// Where `trap` goes: a word that nothing else can be. Reports tell it by the instruction.
inline constexpr uint32_t kTrapAddress = 0xfffffffcu;

// What an instruction that is refused would take, as far as its opcode, types and spaces say it; "" otherwise.
std::string WhatIsNeeded(const PtxInstruction& in);

class Translator {
 public:
  Translator(const ptx::Module& module, const ptx::Function& kernel, const Dim3& grid, const Dim3& block,
             const MemoryLayout& layout)
      : module_(module), kernel_(kernel), grid_(grid), block_(block), layout_(layout) {}

  absl::StatusOr<Translation> Run();

  struct Row;
  using Handler = absl::Status (Translator::*)(const PtxInstruction&, const Row&);
  struct Row {
    const char* opcode;
    Handler handler;
    IrOp op = IrOp::kConst;         // of unsigned and bit types
    IrOp signed_op = IrOp::kConst;  // of signed types
  };
  static const std::vector<Row>& Table();
  absl::Status RefuseByName(const PtxInstruction& in, const Row& row);  // known, but with no place here

 private:
  IrFunction& f() { return out_.function; }

  // Errors.
  absl::Status Unsupported(const PtxInstruction& in, const std::string& why = "") const {
    const std::string needs = why.empty() ? WhatIsNeeded(in) : why;
    return absl::UnimplementedError(fmt::format("{}: {}: not supported by the machine's lowering{}{}",
                                                ptx::Place(module_, in.location), ptx::ToString(in),
                                                needs.empty() ? "" : ": ", needs));
  }
  absl::Status Wrong(const PtxInstruction& in, const std::string& what) const {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}: {}", ptx::Place(module_, in.location), ptx::ToString(in), what));
  }

  // Blocks.
  void SplitIntoBlocks();
  int BlockOf(int ptx_index) const { return block_at_[ptx_index]; }
  absl::Status Terminate(const PtxInstruction& in, int next);
  absl::Status TerminateWithBarrier(const PtxInstruction& in, int next);
  absl::Status FillBlock(int block);
  absl::Status TranslateOne(const PtxInstruction& in);

  // Values.
  int Emit(IrOp op, Type type, std::vector<int> args) {
    IrInstruction in;
    in.op = op;
    in.type = type;
    in.args = std::move(args);
    in.origin = origin_;
    return f().Add(current_, std::move(in));
  }
  int Emit32(IrOp op, std::vector<int> args) { return Emit(op, Type::kI32, std::move(args)); }
  int Const32(uint32_t value) { return f().Constant(Type::kI32, value); }
  // The low `type.bits` bits of a 32-bit value, extended as the type says.
  int Extend(int value, const ptx::TypeInfo& type) {
    if (type.bits >= 32) return value;
    if (type.kind != TypeKind::kSigned) return Emit32(IrOp::kAnd, {value, Const32((1u << type.bits) - 1)});
    const int up = Const32(32 - type.bits);
    return Emit32(IrOp::kSar, {Emit32(IrOp::kShl, {value, up}), up});
  }
  int Comparison(Compare compare, int a, int b) {
    const int value = Emit(IrOp::kCompare, Type::kPredicate, {a, b});
    f().at(value).compare = compare;
    return value;
  }
  absl::StatusOr<int> Read(const PtxInstruction& in, const Operand& operand, Type type);
  // The guard's register, whatever its negation.
  absl::StatusOr<int> ReadGuard(const PtxInstruction& in) {
    Operand plain = *in.guard;
    plain.negated = false;
    return Read(in, plain, Type::kPredicate);
  }
  absl::StatusOr<int> ReadSpecial(const PtxInstruction& in, const Operand& operand);
  absl::StatusOr<std::vector<int>> ReadAll(const PtxInstruction& in, Type type);  // operands 1 and on
  absl::Status Write(const PtxInstruction& in, const Operand& operand, int value);
  absl::StatusOr<int> ParameterWordOf(const PtxInstruction& in, const std::string& name, uint64_t offset, int bits);
  absl::Status Expect(const PtxInstruction& in, size_t operands) const {
    if (in.operands.size() == operands) return absl::OkStatus();
    return Wrong(in, fmt::format("has {} operands, not {}", in.operands.size(), operands));
  }

  // Handlers, see Table.
  absl::Status Binary(const PtxInstruction& in, const Row& row);
  absl::Status Multiply(const PtxInstruction& in, const Row& row);
  absl::Status Logic(const PtxInstruction& in, const Row& row);
  absl::Status Not(const PtxInstruction& in, const Row& row);
  absl::Status Negate(const PtxInstruction& in, const Row& row);
  absl::Status Absolute(const PtxInstruction& in, const Row& row);
  absl::Status SumOfDifferences(const PtxInstruction& in, const Row& row);
  absl::Status Shift(const PtxInstruction& in, const Row& row);
  absl::Status FunnelShift(const PtxInstruction& in, const Row& row);
  absl::Status ExtractField(const PtxInstruction& in, const Row& row);
  absl::Status InsertField(const PtxInstruction& in, const Row& row);
  absl::Status FindHighBit(const PtxInstruction& in, const Row& row);
  absl::Status Unary(const PtxInstruction& in, const Row& row);
  absl::Status Lop3(const PtxInstruction& in, const Row& row);
  absl::Status Move(const PtxInstruction& in, const Row& row);
  absl::Status Convert(const PtxInstruction& in, const Row& row);
  absl::Status ConvertAddress(const PtxInstruction& in, const Row& row);
  absl::Status SetPredicate(const PtxInstruction& in, const Row& row);
  absl::Status Set(const PtxInstruction& in, const Row& row);
  absl::Status SelectByPredicate(const PtxInstruction& in, const Row& row);
  absl::Status SelectBySign(const PtxInstruction& in, const Row& row);
  absl::Status Load(const PtxInstruction& in, const Row& row);
  absl::Status Store(const PtxInstruction& in, const Row& row);
  absl::Status Atomic(const PtxInstruction& in, const Row& row);
  absl::Status IsInSpace(const PtxInstruction& in, const Row& row);
  absl::Status Nothing(const PtxInstruction& in, const Row& row);
  absl::Status ShuffleLanes(const PtxInstruction& in, const Row& row);
  absl::Status Vote(const PtxInstruction& in, const Row& row);
  absl::Status Match(const PtxInstruction& in, const Row& row);
  absl::Status ActiveMask(const PtxInstruction& in, const Row& row);
  absl::Status OtherBarrier(const PtxInstruction& in, const Row& row);
  absl::Status Nanosleep(const PtxInstruction& in, const Row& row);

  int LaneId();
  int LaneMask(const std::string& kind);
  int ShuffleInRange(ShuffleMode mode, int b, int c);
  absl::StatusOr<int> ReadMembers(const PtxInstruction& in, size_t operand);
  absl::Status ExpectNoGuard(const PtxInstruction& in);
  absl::Status ExpectOldTarget(const PtxInstruction& in);

  absl::StatusOr<int> CompareOperands(const PtxInstruction& in, Modifiers& modifiers, int* other);

  // Memory.
  struct Access {
    std::optional<ptx::Space> declared;  // nullopt: generic
    std::optional<ptx::Space> space;     // the same, or that of a variable that a generic address names
    ptx::TypeInfo type = {TypeKind::kBits, 32};
    uint32_t elements = 1;
    bool is_volatile = false, is_constant = false;
    uint32_t Bytes() const { return static_cast<uint32_t>(type.bits) / 8 * elements; }
  };
  int ThreadNumber();
  absl::StatusOr<int> AddressOfVariable(const PtxInstruction& in, const Operand& symbol, Type type);
  absl::StatusOr<int> ReadAddress(const PtxInstruction& in, const Operand& operand, std::optional<ptx::Space>* space,
                                  uint64_t* offset);
  absl::StatusOr<Access> TakeAccess(const PtxInstruction& in, bool is_store);
  absl::Status FinishAccess(const PtxInstruction& in, const Access& access, uint64_t offset, int value);
  bool IsWideRegister(const Operand& operand) const;
  absl::Status WriteLoaded(const PtxInstruction& in, const Operand& target, int value, const ptx::TypeInfo& type);
  absl::StatusOr<std::vector<int>> LoadWords(const PtxInstruction& in, Access access, const Operand& operand);
  absl::StatusOr<std::vector<int>> ParameterWords(const PtxInstruction& in, const Access& access,
                                                  const Operand& address);
  absl::StatusOr<std::vector<int>> ReadStored(const PtxInstruction& in, const Operand& operand, int bits);
  int IsInside(int address, const Window& window);
  int JoinHalves(int low, int high);
  int HighHalf(int value);
  absl::StatusOr<AtomicOp> TakeAtomicOp(const PtxInstruction& in, Modifiers& modifiers, ptx::TypeInfo* type);

  const ptx::Module& module_;
  const ptx::Function& kernel_;
  const Dim3 grid_, block_;
  const MemoryLayout& layout_;
  Translation out_;
  std::vector<int> block_at_;                   // [ptx instruction], and one more for the end
  std::vector<std::pair<int, int>> ptx_range_;  // [block]
  std::optional<SsaBuilder> ssa_;
  int exit_block_ = -1;
  int current_ = 0;
  int origin_ = -1;
};

}  // namespace qgpu::lower
