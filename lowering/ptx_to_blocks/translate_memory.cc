// Handlers of memory accesses.
#include <utility>

#include "lowering/ptx_to_blocks/translator.h"

namespace qgpu::lower {

absl::StatusOr<int> Translator::ReadAddress(const PtxInstruction& in, const Operand& operand, uint64_t* offset) {
  if (operand.kind != OperandKind::kAddress || operand.elements.size() > 1) return Wrong(in, "has no address");
  *offset = operand.value;
  if (operand.elements.empty()) return f().Constant(Type::kI64, 0);
  return Read(in, operand.elements[0], Type::kI64);
}

absl::Status Translator::FinishMemoryAccess(const PtxInstruction& in, int value, uint64_t offset) {
  f().at(value).immediate = offset;
  if (!in.guard) return absl::OkStatus();
  QGPU_ASSIGN_OR_RETURN(const int guard, ReadGuard(in));
  f().at(value).guard = guard;
  f().at(value).negate = in.guard->negated;
  return absl::OkStatus();
}

// The address of the word that holds the 8 or 16 bits at base + offset, and the number of the first of these bits. The
// lowest address bit of a 16-bit access stays, so that a misaligned one traps.
int Translator::WordOf(int base, uint64_t offset, int bits, int* bit) {
  const int address = Emit(IrOp::kAdd, Type::kI64, {base, f().Constant(Type::kI64, offset)});
  const uint64_t inside = bits == 8 ? 3 : 2;
  const int low =
      Emit32(IrOp::kAnd, {Emit(IrOp::kTruncate, Type::kI32, {address}), Const32(static_cast<uint32_t>(inside))});
  *bit = Emit32(IrOp::kShl, {low, Const32(3)});
  return Emit(IrOp::kAnd, Type::kI64, {address, f().Constant(Type::kI64, ~inside)});
}

bool Translator::IsWideRegister(const Operand& operand) const {
  return operand.kind == OperandKind::kRegister &&
         TypeOf(ptx::LookUpType(kernel_.registers[operand.index].type)) == Type::kI64;
}

// A load may write a register that is wider than what it loads.
absl::Status Translator::WriteLoaded(const PtxInstruction& in, int value, const ptx::TypeInfo& type) {
  if (IsWideRegister(in.operands[0]) && f().at(value).type == Type::kI32) {
    value = Emit(type.kind == TypeKind::kSigned ? IrOp::kSignExt : IrOp::kZeroExt, Type::kI64, {value});
  }
  return Write(in, in.operands[0], value);
}

absl::Status Translator::Load(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool is_parameter = modifiers.Take("param");
  const bool is_constant = modifiers.Take("nc");
  modifiers.Take("global");  // generic addresses are global ones
  const bool is_volatile = modifiers.Take("volatile");
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  if (!info || !IsInteger(*info) || info->bits > 64 || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  const Operand& address = in.operands[1];
  if (is_parameter) {
    if (address.kind != OperandKind::kAddress || address.elements.size() != 1 ||
        address.elements[0].kind != OperandKind::kSymbol) {
      return Unsupported(in, "parameters are read at fixed places only");
    }
    const uint64_t offset = address.value + address.elements[0].value;
    const std::string& name = address.elements[0].name;
    const uint64_t inside = info->bits < 32 ? offset % 4 : 0;  // a piece of a word of the parameter
    QGPU_ASSIGN_OR_RETURN(int word, ParameterWordOf(in, name, offset - inside, inside == 0 ? info->bits : 32));
    if (inside != 0) word = Emit32(IrOp::kShr, {word, Const32(static_cast<uint32_t>(8 * inside))});
    return WriteLoaded(in, Extend(word, *info), *info);
  }
  if (info->bits == 64) return Unsupported(in, "64-bit values in memory");
  uint64_t offset = 0;
  QGPU_ASSIGN_OR_RETURN(int base, ReadAddress(in, address, &offset));
  int bit = -1;
  if (info->bits < 32) base = WordOf(base, std::exchange(offset, 0), info->bits, &bit);
  int value = Emit32(IrOp::kLoad, {base});
  f().at(value).constant = is_constant;
  f().at(value).is_volatile = is_volatile;
  QGPU_RETURN_IF_ERROR(FinishMemoryAccess(in, value, offset));
  if (bit >= 0) value = Extend(Emit32(IrOp::kShr, {value, bit}), *info);
  return WriteLoaded(in, value, *info);
}

absl::Status Translator::Store(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  modifiers.Take("global");
  modifiers.Take("volatile");
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  if (!info || !IsInteger(*info) || !modifiers.empty()) return Unsupported(in);
  if (info->bits != 32) return Unsupported(in, fmt::format("stores of {} bits; 32 bits are", info->bits));
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  uint64_t offset = 0;
  QGPU_ASSIGN_OR_RETURN(const int base, ReadAddress(in, in.operands[0], &offset));
  const bool wide = IsWideRegister(in.operands[1]);  // stores its low half
  QGPU_ASSIGN_OR_RETURN(int value, Read(in, in.operands[1], wide ? Type::kI64 : Type::kI32));
  if (wide) value = Emit(IrOp::kTruncate, Type::kI32, {value});
  return FinishMemoryAccess(in, Emit(IrOp::kStore, Type::kNone, {base, value}), offset);
}

}  // namespace qgpu::lower
