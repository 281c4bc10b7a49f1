// Handlers of moves, conversions, comparisons and selections.
#include <map>

#include "lowering/ptx_to_blocks/translator.h"

namespace qgpu::lower {

// ---- moves and conversions ----

absl::Status Translator::Move(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  return Write(in, in.operands[0], a);
}

absl::Status Translator::Convert(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::TypeInfo> to = modifiers.TakeType(), from = modifiers.TakeType();
  if (!to || !from || !IsInteger(*to) || !IsInteger(*from) || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  const Operand& source = in.operands[1];
  const Type source_type = from->bits == 64 ? Type::kI64 : Type::kI32;
  QGPU_ASSIGN_OR_RETURN(int value, Read(in, source, source_type));
  if (to->bits < 16) return Unsupported(in, "results of 8 bits");
  if (source_type == Type::kI64 && to->bits <= 32) value = Emit(IrOp::kTruncate, Type::kI32, {value});
  if (from->bits < to->bits) value = source_type == Type::kI32 ? Extend(value, *from) : value;
  const Operand& result = in.operands[0];
  const bool wider_register = result.kind == OperandKind::kRegister && to->bits == 16 &&
                              kernel_.registers[result.index].type.find("32") != std::string::npos;
  if (wider_register) value = Extend(value, *to);
  if (source_type == Type::kI32 && to->bits == 64) {
    const bool is_signed = from->kind == TypeKind::kSigned;
    value = Emit(is_signed ? IrOp::kSignExt : IrOp::kZeroExt, Type::kI64, {value});
  }
  return Write(in, in.operands[0], value);
}

// ---- comparisons and selections ----

// The comparison of setp and set: operands 1 and 2, combined with a predicate operand 3 where there is a boolean
// operator. `*other`, where wanted, is the second result of setp p|q: the opposite comparison, likewise combined.
absl::StatusOr<int> Translator::CompareOperands(const PtxInstruction& in, Modifiers& modifiers, int* other) {
  static const std::map<std::string_view, std::pair<Compare, Compare>> comparisons = {
      // signed, unsigned
      {"eq", {Compare::kEq, Compare::kEq}},   {"ne", {Compare::kNe, Compare::kNe}},
      {"lt", {Compare::kLtS, Compare::kLtU}}, {"le", {Compare::kLeS, Compare::kLeU}},
      {"gt", {Compare::kGtS, Compare::kGtU}}, {"ge", {Compare::kGeS, Compare::kGeU}},
      {"lo", {Compare::kLtU, Compare::kLtU}}, {"ls", {Compare::kLeU, Compare::kLeU}},
      {"hi", {Compare::kGtU, Compare::kGtU}}, {"hs", {Compare::kGeU, Compare::kGeU}}};
  static const std::map<std::string_view, IrOp> combinations = {
      {"and", IrOp::kPredAnd}, {"or", IrOp::kPredOr}, {"xor", IrOp::kPredXor}};
  const std::pair<Compare, Compare>* comparison = nullptr;
  for (const auto& [name, pair] : comparisons) {
    if (modifiers.Take(name)) comparison = &pair;
  }
  std::optional<IrOp> combination;
  for (const auto& [name, op] : combinations) {
    if (modifiers.Take(name)) combination = op;
  }
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  const std::optional<Type> type = TypeOf(info);
  if (comparison == nullptr || !type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, combination ? 4 : 3));
  QGPU_ASSIGN_OR_RETURN(int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(int b, Read(in, in.operands[2], *type));
  if (*type == Type::kI32) {
    a = Extend(a, *info);
    b = Extend(b, *info);
  }
  const Compare compare = info->kind == TypeKind::kSigned ? comparison->first : comparison->second;
  int value = Comparison(compare, a, b);
  int opposite = other == nullptr ? -1 : Comparison(Inverted(compare), a, b);
  if (combination) {
    QGPU_ASSIGN_OR_RETURN(const int c, Read(in, in.operands[3], Type::kPredicate));
    value = Emit(*combination, Type::kPredicate, {value, c});
    if (other != nullptr) opposite = Emit(*combination, Type::kPredicate, {opposite, c});
  }
  if (other != nullptr) *other = opposite;
  return value;
}

absl::Status Translator::SetPredicate(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  if (in.operands.empty()) return Wrong(in, "has no operands");
  const Operand& result = in.operands[0];
  const bool pair = result.kind == OperandKind::kPair && result.elements.size() == 2;
  int other = -1;
  QGPU_ASSIGN_OR_RETURN(const int value, CompareOperands(in, modifiers, pair ? &other : nullptr));
  if (!pair) return Write(in, result, value);
  QGPU_RETURN_IF_ERROR(Write(in, result.elements[0], value));
  return Write(in, result.elements[1], other);
}

// set: all ones or zero in a 32-bit register.
absl::Status Translator::Set(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  std::optional<ptx::TypeInfo> result;
  for (const char* name : {"u32", "s32"}) {  // the first type is the result's
    const std::vector<std::string>& all = in.modifiers;
    const auto first = std::find_if(all.begin(), all.end(), [](const std::string& m) { return ptx::LookUpType(m); });
    if (!result && first != all.end() && *first == name && modifiers.Take(name)) result = ptx::LookUpType(name);
  }
  if (!result) return Unsupported(in);
  QGPU_ASSIGN_OR_RETURN(const int value, CompareOperands(in, modifiers, nullptr));
  return Write(in, in.operands[0], Emit32(IrOp::kSelect, {value, Const32(~0u), Const32(0)}));
}

absl::Status Translator::SelectByPredicate(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(const int b, Read(in, in.operands[2], *type));
  QGPU_ASSIGN_OR_RETURN(const int p, Read(in, in.operands[3], Type::kPredicate));
  return Write(in, in.operands[0], Emit(IrOp::kSelect, *type, {p, a, b}));
}

// slct: the first where the third operand is not negative.
absl::Status Translator::SelectBySign(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || *type == Type::kPredicate || !modifiers.Take("s32") || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(const int b, Read(in, in.operands[2], *type));
  QGPU_ASSIGN_OR_RETURN(const int c, Read(in, in.operands[3], Type::kI32));
  return Write(in, in.operands[0], Emit(IrOp::kSelect, *type, {Comparison(Compare::kGeS, c, Const32(0)), a, b}));
}

}  // namespace qgpu::lower
