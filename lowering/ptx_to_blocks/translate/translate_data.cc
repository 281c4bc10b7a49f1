// Handlers of moves, conversions, comparisons and selections.
#include <map>

#include "lowering/ptx_to_blocks/translate/translator.h"

namespace qgpu::lower {
namespace {

constexpr char kComparedTypes[] = "b16 b32 b64 u16 u32 u64 s16 s32 s64";

}  // namespace

// ---- moves and conversions ----

absl::Status Translator::Move(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type,
                        TakeTypeOf(in, modifiers, "pred b16 b32 b64 u16 u32 u64 s16 s32 s64"));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  if (in.operands[0].kind == OperandKind::kVector) return Unpack(in, type.bits);
  if (in.operands[1].kind == OperandKind::kVector) return Pack(in, type.bits);
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], type));
  return WriteOf(in, in.operands[0], a, type.bits);
}

// mov.b64 d, {low, high}; and its like: parts of 8, 16 or 32 bits, the lowest first.
absl::Status Translator::Pack(const PtxInstruction& in, int bits) {
  const std::vector<Operand>& parts = in.operands[1].elements;
  const auto count = static_cast<int>(parts.size());
  if (bits == 1 || (count != 2 && count != 4)) return Unsupported(in, "two or four parts are");
  const ptx::TypeInfo part = {TypeKind::kBits, bits / count};
  if (part.bits < 8) return Unsupported(in, "parts of 8 bits and more are");
  std::vector<int> words;
  for (int i = 0; i < count; ++i) {
    QGPU_RETURN_IF_ERROR(ExpectWidth(in, parts[static_cast<size_t>(i)], part.bits));
    QGPU_ASSIGN_OR_RETURN(int value, Read(in, parts[static_cast<size_t>(i)], Type::kI32));
    const int at = i * part.bits % 32;
    const bool is_last = at + part.bits == 32 || i + 1 == count;  // what is above it goes, or means nothing
    if (!is_last) value = Extend(value, part);
    if (at == 0) {
      words.push_back(value);
    } else {
      value = Emit32(IrOp::kShl, {value, Const32(static_cast<uint32_t>(at))});
      words.back() = Emit32(IrOp::kOr, {words.back(), value});
    }
  }
  return WriteOf(in, in.operands[0], bits == 64 ? JoinHalves(words[0], words[1]) : words[0], bits);
}

// mov.b64 {low, high}, a; and its like.
absl::Status Translator::Unpack(const PtxInstruction& in, int bits) {
  const std::vector<Operand>& parts = in.operands[0].elements;
  const auto count = static_cast<int>(parts.size());
  if (bits == 1 || (count != 2 && count != 4)) return Unsupported(in, "two or four parts are");
  const int part = bits / count;
  if (part < 8) return Unsupported(in, "parts of 8 bits and more are");
  QGPU_ASSIGN_OR_RETURN(const int packed, ReadOf(in, in.operands[1], {TypeKind::kBits, bits}));
  std::vector<int> words = {packed};
  if (bits == 64) words = {LowHalf(packed), HighHalf(packed)};
  for (int i = 0; i < count; ++i) {
    const int value =
        Emit32(IrOp::kShr, {words[static_cast<size_t>(i * part / 32)], Const32(static_cast<uint32_t>(i * part % 32))});
    QGPU_RETURN_IF_ERROR(WriteOf(in, parts[static_cast<size_t>(i)], value, part));
  }
  return absl::OkStatus();
}

// The low `type.bits` bits of a register that may hold more, extended to 32 bits at least.
absl::StatusOr<int> Translator::ReadAtLeast(const PtxInstruction& in, const Operand& operand,
                                            const ptx::TypeInfo& type) {
  if (operand.kind != OperandKind::kRegister) {
    QGPU_ASSIGN_OR_RETURN(const int value, Read(in, operand, type.bits == 64 ? Type::kI64 : Type::kI32));
    return Extend(value, type);
  }
  const std::optional<ptx::TypeInfo> declared = ptx::LookUpType(kernel_.registers[operand.index].type);
  if (declared && declared->bits < type.bits) {
    return Wrong(in, fmt::format("{} has {} bits, not {}", operand.name, declared->bits, type.bits));
  }
  const bool is_wide = IsWideRegister(operand);
  QGPU_ASSIGN_OR_RETURN(int value, Read(in, operand, is_wide ? Type::kI64 : Type::kI32));
  if (is_wide && type.bits < 64) value = LowHalf(value);
  return Extend(value, type);
}

// Writes a register that may have more bits than the result, whose low `type.bits` bits count.
absl::Status Translator::WriteExtended(const PtxInstruction& in, const Operand& operand, int value,
                                       const ptx::TypeInfo& type) {
  if (operand.kind != OperandKind::kRegister) return Write(in, operand, value);
  const std::optional<ptx::TypeInfo> declared = ptx::LookUpType(kernel_.registers[operand.index].type);
  if (declared && declared->bits < type.bits) {
    return Wrong(in, fmt::format("{} has {} bits, the result {}", operand.name, declared->bits, type.bits));
  }
  if (declared && declared->bits > type.bits) value = Extend(value, type);
  if (type.bits < 64 && IsWideRegister(operand)) {
    value = Emit(type.kind == TypeKind::kSigned ? IrOp::kSignExt : IrOp::kZeroExt, Type::kI64, {value});
  }
  return Write(in, operand, value);
}

// `value`, extended from `from`, or the nearest number that `to` has.
int Translator::Saturated(int value, const ptx::TypeInfo& from, const ptx::TypeInfo& to) {
  const bool from_signed = from.kind == TypeKind::kSigned, to_signed = to.kind == TypeKind::kSigned;
  const Type type = f().at(value).type;
  const int value_bits = to_signed ? to.bits - 1 : to.bits;
  const uint64_t greatest = value_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << value_bits) - 1;
  if (from_signed) {
    const uint64_t smallest = to_signed ? 0 - (uint64_t{1} << (to.bits - 1)) : 0;
    if (to.bits < from.bits || !to_signed) value = Emit(IrOp::kMaxS, type, {value, Constant(type, smallest)});
    if (value_bits < from.bits - 1) value = Emit(IrOp::kMinS, type, {value, Constant(type, greatest)});
    return value;
  }
  return value_bits < from.bits ? Emit(IrOp::kMinU, type, {value, Constant(type, greatest)}) : value;
}

absl::Status Translator::Convert(const PtxInstruction& in, const Row&) {
  static constexpr char kTypes[] = "u8 s8 u16 s16 u32 s32 u64 s64";
  Modifiers modifiers(in.modifiers);
  if (modifiers.Take("pack")) return ConvertAndPack(in, modifiers);
  const bool saturate = modifiers.Take("sat");
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo to, TakeTypeOf(in, modifiers, kTypes));
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo from, TakeTypeOf(in, modifiers, kTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  const bool from_signed = from.kind == TypeKind::kSigned, to_signed = to.kind == TypeKind::kSigned;
  const bool holds_all = from_signed == to_signed ? to.bits >= from.bits : to_signed && to.bits > from.bits;
  if (saturate && holds_all) return Wrong(in, ".sat where nothing can exceed the range");
  QGPU_ASSIGN_OR_RETURN(int value, ReadAtLeast(in, in.operands[1], from));
  if (saturate) value = Saturated(value, from, to);
  if (from.bits == 64 && to.bits < 64) value = LowHalf(value);
  if (from.bits < 64 && to.bits == 64) {
    value = Emit(from_signed ? IrOp::kSignExt : IrOp::kZeroExt, Type::kI64, {value});
  }
  return WriteExtended(in, in.operands[0], value, to);
}

// cvt.pack.sat.to.s32 d, a, b;  cvt.pack.sat.to.s32.b32 d, a, b, c;  d = {c, a, b} from high to low.
absl::Status Translator::ConvertAndPack(const PtxInstruction& in, Modifiers& modifiers) {
  std::optional<ptx::TypeInfo> to;
  for (const char* name : {"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"}) {
    if (to || !modifiers.Take(name)) continue;
    to = ptx::TypeInfo{name[0] == 's' ? TypeKind::kSigned : TypeKind::kUnsigned,
                       std::string_view(name + 1) == "16" ? 16 : name[1] - '0'};
  }
  const ptx::TypeInfo from = {TypeKind::kSigned, 32};
  if (!to || !modifiers.Take("sat") || !modifiers.Take("s32")) return Unsupported(in);
  const bool has_c = modifiers.Take("b32");
  if (has_c == (to->bits == 16) || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, has_c ? 4 : 3));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, from));
  const ptx::TypeInfo bits = {TypeKind::kBits, to->bits};
  const int high = Extend(Saturated(args[0], from, *to), bits), low = Extend(Saturated(args[1], from, *to), bits);
  const auto up = [&](int value, int amount) {
    return Emit32(IrOp::kShl, {value, Const32(static_cast<uint32_t>(amount))});
  };
  int packed = Emit32(IrOp::kOr, {up(high, to->bits), low});
  if (has_c) packed = Emit32(IrOp::kOr, {packed, up(args[2], 2 * to->bits)});
  return WriteOf(in, in.operands[0], packed, 32);
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
  if (comparison == nullptr) return Unsupported(in);
  const bool equality = comparison->first == Compare::kEq || comparison->first == Compare::kNe;
  const bool only_unsigned = !equality && comparison->first == comparison->second;
  const char* allowed = equality ? kComparedTypes : only_unsigned ? "u16 u32 u64" : "u16 u32 u64 s16 s32 s64";
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo info, TakeTypeOf(in, modifiers, allowed));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, combination ? 4 : 3));
  QGPU_ASSIGN_OR_RETURN(int a, ReadOf(in, in.operands[1], info));
  QGPU_ASSIGN_OR_RETURN(int b, ReadOf(in, in.operands[2], info));
  a = Extend(a, info);
  b = Extend(b, info);
  const Compare compare = info.kind == TypeKind::kSigned ? comparison->first : comparison->second;
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
  QGPU_RETURN_IF_ERROR(TakeTypeOf(in, modifiers, "u32 s32").status());
  QGPU_ASSIGN_OR_RETURN(const int value, CompareOperands(in, modifiers, nullptr));
  return WriteOf(in, in.operands[0], Emit32(IrOp::kSelect, {value, Const32(~0u), Const32(0)}), 32);
}

absl::Status Translator::SelectByPredicate(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kComparedTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], type));
  QGPU_ASSIGN_OR_RETURN(const int b, ReadOf(in, in.operands[2], type));
  QGPU_ASSIGN_OR_RETURN(const int p, Read(in, in.operands[3], Type::kPredicate));
  return WriteOf(in, in.operands[0], Emit(IrOp::kSelect, *TypeOf(type), {p, a, b}), type.bits);
}

// slct: the first where the third operand is not negative.
absl::Status Translator::SelectBySign(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kComparedTypes));
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo sign, TakeTypeOf(in, modifiers, "s32"));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], type));
  QGPU_ASSIGN_OR_RETURN(const int b, ReadOf(in, in.operands[2], type));
  QGPU_ASSIGN_OR_RETURN(const int c, ReadOf(in, in.operands[3], sign));
  const int positive = Comparison(Compare::kGeS, c, Const32(0));
  return WriteOf(in, in.operands[0], Emit(IrOp::kSelect, *TypeOf(type), {positive, a, b}), type.bits);
}

}  // namespace qgpu::lower
