// The translation of one kernel, see translate.h. One class in several files: translate.cc splits the body into blocks
// and reads and writes operands, translate_arithmetic.cc, translate_bits.cc, translate_data.cc and their like hold the
// handlers of the opcodes.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lowering/ptx_to_blocks/narrow/pairs.h"
#include "lowering/ptx_to_blocks/translate/memory_layout.h"
#include "lowering/ptx_to_blocks/translate/ssa_builder.h"
#include "lowering/ptx_to_blocks/translate/translate.h"

namespace qgpu::lower {

using ptx::Operand;
using PtxInstruction = ptx::Instruction;
using OperandKind = ptx::Operand::Kind;
using TypeKind = ptx::TypeInfo::Kind;

// Far more than 128 slots could ever come from, code included that turns out never to run; keeps the analyses' time
// small.
inline constexpr size_t kMaxPtxInstructions = 4096;
inline constexpr size_t kMaxValues = 60000;
inline constexpr int64_t kMaxPhis = 10000;  // of every join, before those that are not needed go

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
  std::optional<std::string> TakeTypeName() {
    const auto found = std::find_if(left_.begin(), left_.end(), [](const auto& m) { return ptx::LookUpType(m); });
    if (found == left_.end()) return std::nullopt;
    std::string name = *found;
    left_.erase(found);
    return name;
  }
  std::optional<ptx::TypeInfo> TakeType() {
    const std::optional<std::string> name = TakeTypeName();
    return name ? ptx::LookUpType(*name) : std::nullopt;
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

// What a register of this type holds. One of 8 bits, for loads, stores and conversions only, is like one of 16.
inline std::optional<Type> RegisterTypeOf(const std::string& name) {
  const std::optional<ptx::TypeInfo> type = ptx::LookUpType(name);
  if (type && IsInteger(*type) && type->bits == 8) return Type::kI32;
  return TypeOf(type);
}

// The state space among the modifiers; what says in which order and for whom accesses happen goes.
std::optional<ptx::Space> TakeSpace(Modifiers& modifiers);
void TakeOrder(Modifiers& modifiers);

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
  // The guard's register, whatever its negation, as it was before the instruction, which may write it.
  absl::StatusOr<int> ReadGuard(const PtxInstruction& in) {
    if (guarded_ != &in) {
      Operand plain = *in.guard;
      plain.negated = false;
      QGPU_ASSIGN_OR_RETURN(guard_, Read(in, plain, Type::kPredicate));
      guarded_ = &in;
    }
    return guard_;
  }
  absl::StatusOr<int> ReadSpecial(const PtxInstruction& in, const Operand& operand);
  absl::StatusOr<std::vector<int>> ReadAll(const PtxInstruction& in, Type type);  // operands 1 and on
  absl::Status Write(const PtxInstruction& in, const Operand& operand, int value);
  absl::StatusOr<int> ParameterWordOf(const PtxInstruction& in, const std::string& name, uint64_t offset, int bits);
  absl::Status Expect(const PtxInstruction& in, size_t operands) const {
    if (in.operands.size() == operands) return absl::OkStatus();
    return Wrong(in, fmt::format("has {} operands, not {}", in.operands.size(), operands));
  }

  // Operands and results of instructions on integers, which take registers of just their width.
  absl::StatusOr<ptx::TypeInfo> TakeTypeOf(const PtxInstruction& in, Modifiers& modifiers,
                                           std::string_view allowed) const;
  absl::Status ExpectWidth(const PtxInstruction& in, const Operand& operand, int bits) const;
  absl::StatusOr<int> ReadOf(const PtxInstruction& in, const Operand& operand, const ptx::TypeInfo& type);
  absl::StatusOr<std::vector<int>> ReadAllOf(const PtxInstruction& in, const ptx::TypeInfo& type);  // 1 and on
  absl::StatusOr<int> ReadAtLeast(const PtxInstruction& in, const Operand& operand, const ptx::TypeInfo& type);
  absl::Status WriteOf(const PtxInstruction& in, const Operand& operand, int value, int bits);
  absl::Status WriteExtended(const PtxInstruction& in, const Operand& operand, int value, const ptx::TypeInfo& type);

  // Values of either width.
  int Constant(Type type, uint64_t value) { return f().Constant(type, value); }
  int Number(int predicate, Type type) {
    return Emit(IrOp::kSelect, type, {predicate, Constant(type, 1), Constant(type, 0)});
  }
  int LowHalf(int value) { return Emit32(IrOp::kTruncate, {value}); }
  PairMath Math() {
    return PairMath(f(), [this](IrInstruction in) {
      in.origin = origin_;
      return f().Add(current_, std::move(in));
    });
  }

  // The carry flag CC.CF is one more variable of the thread.
  int CarryVariable() const { return static_cast<int>(kernel_.registers.size()); }
  absl::Status WriteCarry(const PtxInstruction& in, int carry);
  absl::StatusOr<int> AddWithCarry(const PtxInstruction& in, int a, int b, bool carry_in, bool carry_out);
  absl::StatusOr<int> SubtractWithBorrow(const PtxInstruction& in, int a, int b, bool carry_in, bool carry_out);
  int SaturatedSum(int a, int b, bool subtract);
  int HighProduct(int a, int b, const ptx::TypeInfo& type);
  int HighProduct64(int a, int b, bool is_signed);
  int Saturated(int value, const ptx::TypeInfo& from, const ptx::TypeInfo& to);
  int FunnelShifted(int low, int high, int amount, bool left);
  int PermutedByConstant(int a, int b, uint32_t selector);
  int ReversedBytes(int value);
  absl::StatusOr<std::vector<int>> ReadFieldOperands(const PtxInstruction& in, size_t first);

  // Handlers, see Table.
  absl::Status Binary(const PtxInstruction& in, const Row& row);
  absl::Status AddOrSubtract(const PtxInstruction& in, const Row& row);
  absl::Status Multiply(const PtxInstruction& in, const Row& row);
  absl::Status Multiply24(const PtxInstruction& in, const Row& row);
  absl::Status Logic(const PtxInstruction& in, const Row& row);
  absl::Status Not(const PtxInstruction& in, const Row& row);
  absl::Status Negate(const PtxInstruction& in, const Row& row);
  absl::Status Absolute(const PtxInstruction& in, const Row& row);
  absl::Status SumOfDifferences(const PtxInstruction& in, const Row& row);
  absl::Status DotProduct(const PtxInstruction& in, const Row& row);
  absl::Status Shift(const PtxInstruction& in, const Row& row);
  absl::Status FunnelShift(const PtxInstruction& in, const Row& row);
  absl::Status ExtractField(const PtxInstruction& in, const Row& row);
  absl::Status InsertField(const PtxInstruction& in, const Row& row);
  absl::Status FindHighBit(const PtxInstruction& in, const Row& row);
  absl::Status FieldMask(const PtxInstruction& in, const Row& row);
  absl::Status ExtendField(const PtxInstruction& in, const Row& row);
  absl::Status FindNthOne(const PtxInstruction& in, const Row& row);
  absl::Status IsZero(const PtxInstruction& in, const Row& row);
  absl::Status CountOrReverse(const PtxInstruction& in, const Row& row);
  absl::Status Permute(const PtxInstruction& in, const Row& row);
  absl::Status Lop3(const PtxInstruction& in, const Row& row);
  absl::Status Move(const PtxInstruction& in, const Row& row);
  absl::Status Pack(const PtxInstruction& in, int bits);
  absl::Status Unpack(const PtxInstruction& in, int bits);
  absl::Status Convert(const PtxInstruction& in, const Row& row);
  absl::Status ConvertAndPack(const PtxInstruction& in, Modifiers& modifiers);
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

  SlotOrigin OriginOf(const PtxInstruction& in) const {
    return {in.location.ptx_line, in.location.cuda_line, ptx::ToString(in), module_.FileName(in.location.cuda_file)};
  }

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
  const PtxInstruction* guarded_ = nullptr;  // whose guard guard_ is
  int guard_ = -1;
};

}  // namespace qgpu::lower
