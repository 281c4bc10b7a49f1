// Comparisons, selections, moves and conversions.
#include "llvm/IR/Intrinsics.h"
#include "oracle/native_cpu/translator.h"

namespace qgpu::native {
namespace {

constexpr char kComparisons[] = "eq ne lt le gt ge lo ls hi hs";
constexpr char kComparedTypes[] = "b16 b32 b64 u16 u32 u64 s16 s32 s64";

}  // namespace

absl::StatusOr<llvm::Value*> FunctionTranslator::Compare(std::string_view comparison, Value a, Value b,
                                                         const IntegerType& type) {
  using Predicate = llvm::CmpInst::Predicate;
  static constexpr struct {
    std::string_view name;
    Predicate as_unsigned, as_signed;
  } kTable[] = {{"eq", Predicate::ICMP_EQ, Predicate::ICMP_EQ},
                {"ne", Predicate::ICMP_NE, Predicate::ICMP_NE},
                {"lt", Predicate::ICMP_ULT, Predicate::ICMP_SLT},
                {"le", Predicate::ICMP_ULE, Predicate::ICMP_SLE},
                {"gt", Predicate::ICMP_UGT, Predicate::ICMP_SGT},
                {"ge", Predicate::ICMP_UGE, Predicate::ICMP_SGE},
                {"lo", Predicate::ICMP_ULT, Predicate::BAD_ICMP_PREDICATE},
                {"ls", Predicate::ICMP_ULE, Predicate::BAD_ICMP_PREDICATE},
                {"hi", Predicate::ICMP_UGT, Predicate::BAD_ICMP_PREDICATE},
                {"hs", Predicate::ICMP_UGE, Predicate::BAD_ICMP_PREDICATE}};
  for (const auto& row : kTable) {
    if (row.name != comparison) continue;
    const Predicate predicate = type.is_signed ? row.as_signed : row.as_unsigned;
    const bool is_equality = comparison == "eq" || comparison == "ne";
    if (predicate == Predicate::BAD_ICMP_PREDICATE || (type.is_bits && !is_equality)) break;
    return builder_.CreateICmp(predicate, a, b);
  }
  return Malformed(fmt::format(".{} does not compare this type", comparison));
}

llvm::Value* FunctionTranslator::Combine(std::string_view operation, Value a, Value b) {
  if (operation == "and") return builder_.CreateAnd(a, b);
  if (operation == "or") return builder_.CreateOr(a, b);
  return builder_.CreateXor(a, b);
}

// setp.cmp.type p|q, a, b;  setp.cmp.op.type p|q, a, b, c;
absl::Status FunctionTranslator::Setp() {
  const std::string_view comparison = TakeOneOf(kComparisons);
  const std::string_view operation = TakeOneOf("and or xor");
  if (comparison.empty()) return Unsupported();
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(kComparedTypes));
  QGPU_RETURN_IF_ERROR(Finish(operation.empty() ? 3 : 4));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value p, Compare(comparison, a, b, type));
  Value q = builder_.CreateNot(p);
  if (!operation.empty()) {
    QGPU_ASSIGN_OR_RETURN(Value c, ReadPredicate(In(3)));
    p = Combine(operation, p, c);
    q = Combine(operation, q, c);
  }
  if (In(0).kind != ptx::Operand::Kind::kPair) return Write(In(0), p);
  QGPU_RETURN_IF_ERROR(Write(In(0).elements[0], p));
  return Write(In(0).elements[1], q);
}

absl::Status FunctionTranslator::Set() {
  const std::string_view comparison = TakeOneOf(kComparisons);
  const std::string_view operation = TakeOneOf("and or xor");
  if (comparison.empty()) return Unsupported();
  QGPU_RETURN_IF_ERROR(TakeType("u32 s32").status());
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(kComparedTypes));
  QGPU_RETURN_IF_ERROR(Finish(operation.empty() ? 3 : 4));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value result, Compare(comparison, a, b, type));
  if (!operation.empty()) {
    QGPU_ASSIGN_OR_RETURN(Value c, ReadPredicate(In(3)));
    result = Combine(operation, result, c);
  }
  return Write(In(0), Resize(result, 32, true));
}

absl::Status FunctionTranslator::Selp() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(kComparedTypes));
  QGPU_RETURN_IF_ERROR(Finish(4));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value p, ReadPredicate(In(3)));
  return Write(In(0), builder_.CreateSelect(p, a, b));
}

absl::Status FunctionTranslator::Slct() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(kComparedTypes));
  QGPU_RETURN_IF_ERROR(TakeType("s32").status());
  QGPU_RETURN_IF_ERROR(Finish(4));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value c, Read(In(3), 32));
  return Write(In(0), builder_.CreateSelect(builder_.CreateICmpSGE(c, Const(32, 0)), a, b));
}

absl::Status FunctionTranslator::Mov() {
  if (Take("v4")) return MovVector();
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("pred b16 b32 b64 u16 u32 u64 s16 s32 s64"));
  QGPU_RETURN_IF_ERROR(Finish(2));
  if (In(0).kind == ptx::Operand::Kind::kVector) return Unpack(type.bits);
  if (In(1).kind == ptx::Operand::Kind::kVector) return Pack(type.bits);
  // Special registers had 16 bits once.
  const bool is_special = In(1).kind == ptx::Operand::Kind::kSpecial && type.bits == 16;
  QGPU_ASSIGN_OR_RETURN(Value value, is_special ? ReadAtLeast(In(1), 16) : Read(In(1), type.bits));
  return Write(In(0), value);
}

// mov.v4.u32 {x, y, z, w}, %tid;  and its like.
absl::Status FunctionTranslator::MovVector() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("u16 u32 b32"));
  QGPU_RETURN_IF_ERROR(Finish(2));
  const bool is_special = In(1).kind == ptx::Operand::Kind::kSpecial && In(1).name.find('.') == std::string::npos;
  if (!is_special || In(0).kind != ptx::Operand::Kind::kVector || In(0).elements.size() != 4) return Unsupported();
  for (size_t i = 0; i < 4; ++i) {
    ptx::Operand component = In(1);
    component.name += {'.', "xyzw"[i]};
    QGPU_ASSIGN_OR_RETURN(Value value, ReadAtLeast(component, type.bits));
    QGPU_RETURN_IF_ERROR(Write(In(0).elements[i], value));
  }
  return absl::OkStatus();
}

// mov.b64 d, {low, high};
absl::Status FunctionTranslator::Pack(uint32_t bits) {
  const std::vector<ptx::Operand>& parts = In(1).elements;
  if (parts.size() != 2 && parts.size() != 4) return Malformed("a vector has 2 or 4 elements");
  const auto part_bits = bits / static_cast<uint32_t>(parts.size());
  Value packed = Const(bits, 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(Value part, Read(parts[i], part_bits));
    packed = builder_.CreateOr(packed, builder_.CreateShl(Resize(part, bits, false), i * part_bits));
  }
  return Write(In(0), packed);
}

// mov.b64 {low, high}, a;
absl::Status FunctionTranslator::Unpack(uint32_t bits) {
  const std::vector<ptx::Operand>& parts = In(0).elements;
  if (parts.size() != 2 && parts.size() != 4) return Malformed("a vector has 2 or 4 elements");
  const auto part_bits = bits / static_cast<uint32_t>(parts.size());
  QGPU_ASSIGN_OR_RETURN(Value packed, Read(In(1), bits));
  for (size_t i = 0; i < parts.size(); ++i) {
    QGPU_RETURN_IF_ERROR(Write(parts[i], Resize(builder_.CreateLShr(packed, i * part_bits), part_bits, false)));
  }
  return absl::OkStatus();
}

// `value` of type `from`, clamped to the range of `to`; the result still has the width of 65 bits at most.
llvm::Value* FunctionTranslator::Saturate(Value value, const IntegerType& from, const IntegerType& to) {
  constexpr uint32_t kWide = 72;  // holds every 64-bit value of either sign
  Value wide = Resize(value, kWide, from.is_signed);
  const llvm::APInt low = to.is_signed ? llvm::APInt::getSignedMinValue(to.bits).sext(kWide) : llvm::APInt(kWide, 0);
  const llvm::APInt high =
      (to.is_signed ? llvm::APInt::getSignedMaxValue(to.bits) : llvm::APInt::getMaxValue(to.bits)).zext(kWide);
  Value minimum = llvm::ConstantInt::get(Int(kWide), low), maximum = llvm::ConstantInt::get(Int(kWide), high);
  wide = builder_.CreateSelect(builder_.CreateICmpSLT(wide, minimum), minimum, wide);
  wide = builder_.CreateSelect(builder_.CreateICmpSGT(wide, maximum), maximum, wide);
  return Resize(wide, to.bits, false);
}

// cvt{.sat}.to.from d, a;  a register may be wider than its type: sources are cut, results extended.
absl::Status FunctionTranslator::Cvt() {
  constexpr char kTypes[] = "u8 s8 u16 s16 u32 s32 u64 s64";
  if (Take("pack")) return CvtPack();
  const bool saturate = Take("sat");
  QGPU_ASSIGN_OR_RETURN(const IntegerType to, TakeType(kTypes));
  QGPU_ASSIGN_OR_RETURN(const IntegerType from, TakeType(kTypes));
  QGPU_RETURN_IF_ERROR(Finish(2));
  const bool holds_all = to.is_signed == from.is_signed ? to.bits >= from.bits : to.is_signed && to.bits > from.bits;
  if (saturate && holds_all) return Malformed(".sat where nothing can exceed the range");
  QGPU_ASSIGN_OR_RETURN(Value value, ReadAtLeast(In(1), from.bits));
  value = saturate ? Saturate(value, from, to) : Resize(value, to.bits, from.is_signed);
  return WriteExtended(In(0), value, to.is_signed);
}

// cvt.pack.sat.to.s32 d, a, b;  cvt.pack.sat.to.s32.b32 d, a, b, c;  d = {c, sat(a), sat(b)} from high to low.
absl::Status FunctionTranslator::CvtPack() {
  if (!Take("sat")) return Unsupported();
  const std::string_view name = TakeOneOf("u16 s16 u8 s8 u4 s4 u2 s2");
  if (name.empty() || !Take("s32")) return Unsupported();
  const bool has_c = Take("b32");
  IntegerType to;
  to.is_signed = name[0] == 's';
  to.bits = name.substr(1) == "16" ? 16 : static_cast<uint32_t>(name[1] - '0');
  if (has_c == (to.bits == 16)) return Unsupported();
  QGPU_RETURN_IF_ERROR(Finish(has_c ? 4 : 3));
  const IntegerType from = {32, true, false};
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), 32));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), 32));
  Value packed = Const(32, 0);
  if (has_c) {
    QGPU_ASSIGN_OR_RETURN(Value c, Read(In(3), 32));
    packed = builder_.CreateShl(c, 2 * to.bits);
  }
  packed = builder_.CreateOr(packed, builder_.CreateShl(Resize(Saturate(a, from, to), 32, false), to.bits));
  return Write(In(0), builder_.CreateOr(packed, Resize(Saturate(b, from, to), 32, false)));
}

}  // namespace qgpu::native
