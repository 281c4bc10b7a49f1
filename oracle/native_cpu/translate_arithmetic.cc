// Integer arithmetic.
#include "llvm/IR/Intrinsics.h"
#include "oracle/native_cpu/translator.h"

namespace qgpu::native {
namespace {

constexpr char kAllTypes[] = "u16 s16 u32 s32 u64 s64";
constexpr char kCarryTypes[] = "u32 s32 u64 s64";
constexpr char kSignedTypes[] = "s16 s32 s64";

}  // namespace

absl::Status FunctionTranslator::Binary(std::string_view types, const BinaryCode& code) {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(types));
  QGPU_RETURN_IF_ERROR(Finish(3));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), type.bits));
  return Write(In(0), code(a, b, type));
}

absl::Status FunctionTranslator::Unary(std::string_view types,
                                       const std::function<Value(Value, const IntegerType&)>& code) {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(types));
  QGPU_RETURN_IF_ERROR(Finish(2));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  return Write(In(0), code(a, type));
}

llvm::Value* FunctionTranslator::AddWithCarry(Value a, Value b, bool carry_in, bool carry_out) {
  const uint32_t bits = a->getType()->getIntegerBitWidth();
  // One bit more holds a + b + 1.
  Value sum = builder_.CreateAdd(Resize(a, bits + 1, false), Resize(b, bits + 1, false));
  if (carry_in) sum = builder_.CreateAdd(sum, Resize(builder_.CreateLoad(Int(1), carry_), bits + 1, false));
  if (carry_out) builder_.CreateStore(Resize(builder_.CreateLShr(sum, bits), 1, false), carry_);
  return Resize(sum, bits, false);
}

llvm::Value* FunctionTranslator::SubtractWithBorrow(Value a, Value b, bool carry_in, bool carry_out) {
  const uint32_t bits = a->getType()->getIntegerBitWidth();
  Value difference = builder_.CreateSub(Resize(a, bits + 1, false), Resize(b, bits + 1, false));
  if (carry_in) {
    difference = builder_.CreateSub(difference, Resize(builder_.CreateLoad(Int(1), carry_), bits + 1, false));
  }
  if (carry_out) builder_.CreateStore(Resize(builder_.CreateLShr(difference, bits), 1, false), carry_);
  return Resize(difference, bits, false);
}

absl::Status FunctionTranslator::AddOrSubtract(bool subtract, bool carry_in) {
  if (!carry_in && Take("sat")) {
    return Binary("s32", [&](Value a, Value b, const IntegerType&) {
      return builder_.CreateBinaryIntrinsic(subtract ? llvm::Intrinsic::ssub_sat : llvm::Intrinsic::sadd_sat, a, b);
    });
  }
  const bool carry_out = Take("cc");
  return Binary(carry_in || carry_out ? kCarryTypes : kAllTypes, [&](Value a, Value b, const IntegerType&) {
    if (!carry_in && !carry_out) return subtract ? builder_.CreateSub(a, b) : builder_.CreateAdd(a, b);
    return subtract ? SubtractWithBorrow(a, b, carry_in, carry_out) : AddWithCarry(a, b, carry_in, carry_out);
  });
}

absl::Status FunctionTranslator::Add() { return AddOrSubtract(false, false); }
absl::Status FunctionTranslator::Addc() { return AddOrSubtract(false, true); }
absl::Status FunctionTranslator::Sub() { return AddOrSubtract(true, false); }
absl::Status FunctionTranslator::Subc() { return AddOrSubtract(true, true); }

llvm::Value* FunctionTranslator::HighProduct(Value a, Value b, const IntegerType& type) {
  const uint32_t wide = 2 * type.bits;
  Value product = builder_.CreateMul(Resize(a, wide, type.is_signed), Resize(b, wide, type.is_signed));
  return Resize(builder_.CreateLShr(product, type.bits), type.bits, false);
}

absl::Status FunctionTranslator::Mul() {
  const std::string_view part = TakeOneOf("lo hi wide");
  if (part.empty()) return Unsupported();
  return Binary(part == "wide" ? "u16 s16 u32 s32" : kAllTypes, [&](Value a, Value b, const IntegerType& type) {
    if (part == "lo") return builder_.CreateMul(a, b);
    if (part == "hi") return HighProduct(a, b, type);
    return builder_.CreateMul(Resize(a, 2 * type.bits, type.is_signed), Resize(b, 2 * type.bits, type.is_signed));
  });
}

absl::Status FunctionTranslator::MultiplyAdd(bool carry_in) {
  const std::string_view part = TakeOneOf(carry_in ? "lo hi" : "lo hi wide");
  const bool carry_out = part != "wide" && Take("cc");
  const bool saturate = !carry_in && !carry_out && part == "hi" && Take("sat");
  if (part.empty()) return Unsupported();
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(saturate                ? "s32"
                                                         : carry_in || carry_out ? kCarryTypes
                                                         : part == "wide"        ? "u16 s16 u32 s32"
                                                                                 : kAllTypes));
  QGPU_RETURN_IF_ERROR(Finish(4));
  const uint32_t result_bits = part == "wide" ? 2 * type.bits : type.bits;
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value c, Read(In(3), result_bits));
  Value product;
  if (part == "hi") {
    product = HighProduct(a, b, type);
  } else {
    product = builder_.CreateMul(Resize(a, result_bits, type.is_signed), Resize(b, result_bits, type.is_signed));
  }
  if (saturate) return Write(In(0), builder_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, product, c));
  if (carry_in || carry_out) return Write(In(0), AddWithCarry(product, c, carry_in, carry_out));
  return Write(In(0), builder_.CreateAdd(product, c));
}

absl::Status FunctionTranslator::Mad() { return MultiplyAdd(false); }
absl::Status FunctionTranslator::Madc() { return MultiplyAdd(true); }

// 24-bit operands; `lo` gives bits 0 to 31 of the 48-bit product, `hi` bits 16 to 47.
absl::Status FunctionTranslator::MultiplyAdd24(bool add) {
  const std::string_view part = TakeOneOf("lo hi");
  if (part.empty()) return Unsupported();
  const bool saturate = add && part == "hi" && Take("sat");
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(saturate ? "s32" : "u32 s32"));
  QGPU_RETURN_IF_ERROR(Finish(add ? 4 : 3));
  Value factors[2];
  for (size_t i = 0; i < 2; ++i) {
    QGPU_ASSIGN_OR_RETURN(Value factor, Read(In(i + 1), 32));
    factors[i] = Resize(Resize(factor, 24, false), 64, type.is_signed);
  }
  Value product = builder_.CreateMul(factors[0], factors[1]);
  if (part == "hi") product = builder_.CreateLShr(product, 16);
  product = Resize(product, 32, false);
  if (!add) return Write(In(0), product);
  QGPU_ASSIGN_OR_RETURN(Value c, Read(In(3), 32));
  if (saturate) return Write(In(0), builder_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, product, c));
  return Write(In(0), builder_.CreateAdd(product, c));
}

absl::Status FunctionTranslator::Mul24() { return MultiplyAdd24(false); }
absl::Status FunctionTranslator::Mad24() { return MultiplyAdd24(true); }

absl::Status FunctionTranslator::Sad() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(kAllTypes));
  QGPU_RETURN_IF_ERROR(Finish(4));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value c, Read(In(3), type.bits));
  Value less = type.is_signed ? builder_.CreateICmpSLT(a, b) : builder_.CreateICmpULT(a, b);
  Value distance = builder_.CreateSelect(less, builder_.CreateSub(b, a), builder_.CreateSub(a, b));
  return Write(In(0), builder_.CreateAdd(c, distance));
}

// LLVM leaves division by zero and INT_MIN / -1 undefined, so both divide by 1 and are corrected. That a remainder by
// zero is the dividend is what the project's engines have agreed on, PTX leaves it open.
llvm::Value* FunctionTranslator::Quotient(Value a, Value b, const IntegerType& type, bool remainder) {
  Value one = Const(type.bits, 1), zero = Const(type.bits, 0), all_ones = Const(type.bits, ~uint64_t{0});
  Value by_zero = builder_.CreateICmpEQ(b, zero);
  Value safe = builder_.CreateSelect(by_zero, one, b);
  Value result;
  if (type.is_signed) {
    Value minimum = Const(type.bits, uint64_t{1} << (type.bits - 1));
    Value overflow = builder_.CreateAnd(builder_.CreateICmpEQ(a, minimum), builder_.CreateICmpEQ(b, all_ones));
    safe = builder_.CreateSelect(overflow, one, safe);
    result = remainder ? builder_.CreateSRem(a, safe) : builder_.CreateSDiv(a, safe);
  } else {
    result = remainder ? builder_.CreateURem(a, safe) : builder_.CreateUDiv(a, safe);
  }
  return builder_.CreateSelect(by_zero, remainder ? a : all_ones, result);
}

absl::Status FunctionTranslator::Div() {
  return Binary(kAllTypes, [&](Value a, Value b, const IntegerType& type) { return Quotient(a, b, type, false); });
}

absl::Status FunctionTranslator::Rem() {
  return Binary(kAllTypes, [&](Value a, Value b, const IntegerType& type) { return Quotient(a, b, type, true); });
}

absl::Status FunctionTranslator::Abs() {
  return Unary(kSignedTypes, [&](Value a, const IntegerType& type) {
    return builder_.CreateSelect(builder_.CreateICmpSLT(a, Const(type.bits, 0)), builder_.CreateNeg(a), a);
  });
}

absl::Status FunctionTranslator::Neg() {
  return Unary(kSignedTypes, [&](Value a, const IntegerType&) { return builder_.CreateNeg(a); });
}

absl::Status FunctionTranslator::Min() {
  return Binary(kAllTypes, [&](Value a, Value b, const IntegerType& type) {
    Value less = type.is_signed ? builder_.CreateICmpSLT(a, b) : builder_.CreateICmpULT(a, b);
    return builder_.CreateSelect(less, a, b);
  });
}

absl::Status FunctionTranslator::Max() {
  return Binary(kAllTypes, [&](Value a, Value b, const IntegerType& type) {
    Value less = type.is_signed ? builder_.CreateICmpSLT(a, b) : builder_.CreateICmpULT(a, b);
    return builder_.CreateSelect(less, b, a);
  });
}

absl::Status FunctionTranslator::Dp4a() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType a_type, TakeType("u32 s32"));
  QGPU_ASSIGN_OR_RETURN(const IntegerType b_type, TakeType("u32 s32"));
  QGPU_RETURN_IF_ERROR(Finish(4));
  std::vector<Value> arguments;
  for (size_t i = 1; i <= 3; ++i) {
    QGPU_ASSIGN_OR_RETURN(Value value, Read(In(i), 32));
    arguments.push_back(value);
  }
  arguments.push_back(Const(32, a_type.is_signed));
  arguments.push_back(Const(32, b_type.is_signed));
  return Write(In(0), CallHost("DotProduct4", 32, arguments));
}

absl::Status FunctionTranslator::Dp2a() {
  const std::string_view part = TakeOneOf("lo hi");
  if (part.empty()) return Unsupported();
  QGPU_ASSIGN_OR_RETURN(const IntegerType a_type, TakeType("u32 s32"));
  QGPU_ASSIGN_OR_RETURN(const IntegerType b_type, TakeType("u32 s32"));
  QGPU_RETURN_IF_ERROR(Finish(4));
  std::vector<Value> arguments;
  for (size_t i = 1; i <= 3; ++i) {
    QGPU_ASSIGN_OR_RETURN(Value value, Read(In(i), 32));
    arguments.push_back(value);
  }
  arguments.push_back(Const(32, a_type.is_signed));
  arguments.push_back(Const(32, b_type.is_signed));
  arguments.push_back(Const(32, part == "hi"));
  return Write(In(0), CallHost("DotProduct2", 32, arguments));
}

}  // namespace qgpu::native
