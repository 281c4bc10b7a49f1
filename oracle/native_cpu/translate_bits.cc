// Logic, shifts and bit manipulation.
#include "llvm/IR/Intrinsics.h"
#include "oracle/native_cpu/scalar_ops.h"
#include "oracle/native_cpu/translator.h"

namespace qgpu::native {

absl::Status FunctionTranslator::Logic(llvm::Instruction::BinaryOps operation) {
  return Binary("pred b16 b32 b64",
                [&](Value a, Value b, const IntegerType&) { return builder_.CreateBinOp(operation, a, b); });
}

absl::Status FunctionTranslator::And() { return Logic(llvm::Instruction::And); }
absl::Status FunctionTranslator::Or() { return Logic(llvm::Instruction::Or); }
absl::Status FunctionTranslator::Xor() { return Logic(llvm::Instruction::Xor); }

absl::Status FunctionTranslator::Not() {
  return Unary("pred b16 b32 b64", [&](Value a, const IntegerType&) { return builder_.CreateNot(a); });
}

absl::Status FunctionTranslator::Cnot() {
  return Unary("b16 b32 b64", [&](Value a, const IntegerType& type) {
    return Resize(builder_.CreateICmpEQ(a, Const(type.bits, 0)), type.bits, false);
  });
}

// lop3.b32 d, a, b, c, table;  lop3.{and,or}.b32 d|p, a, b, c, table, q;
absl::Status FunctionTranslator::Lop3() {
  const std::string_view combination = TakeOneOf("and or");
  QGPU_RETURN_IF_ERROR(TakeType("b32").status());
  QGPU_RETURN_IF_ERROR(Finish(combination.empty() ? 5 : 6));
  if (In(4).kind != ptx::Operand::Kind::kInteger || In(4).value > 255) {
    return Malformed("the table is an integer from 0 to 255");
  }
  std::vector<Value> arguments;
  for (size_t i = 1; i <= 4; ++i) {
    QGPU_ASSIGN_OR_RETURN(Value value, Read(In(i), 32));
    arguments.push_back(value);
  }
  Value result = CallHost("LogicOp3", 32, arguments);
  if (combination.empty()) return Write(In(0), result);
  if (In(0).kind != ptx::Operand::Kind::kPair) return Malformed("the result is d|p");
  QGPU_ASSIGN_OR_RETURN(Value q, ReadPredicate(In(5)));
  QGPU_RETURN_IF_ERROR(Write(In(0).elements[0], result));
  return Write(In(0).elements[1], Combine(combination, builder_.CreateICmpNE(result, Const(32, 0)), q));
}

// Amounts have 32 bits whatever is shifted, and larger ones than the width shift everything out.
absl::Status FunctionTranslator::Shl() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("b16 b32 b64"));
  QGPU_RETURN_IF_ERROR(Finish(3));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value amount, Read(In(2), 32));
  Value fits = builder_.CreateICmpULT(amount, Const(32, type.bits));
  Value safe = Resize(builder_.CreateSelect(fits, amount, Const(32, 0)), type.bits, false);
  return Write(In(0), builder_.CreateSelect(fits, builder_.CreateShl(a, safe), Const(type.bits, 0)));
}

absl::Status FunctionTranslator::Shr() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("b16 b32 b64 u16 u32 u64 s16 s32 s64"));
  QGPU_RETURN_IF_ERROR(Finish(3));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value amount, Read(In(2), 32));
  Value fits = builder_.CreateICmpULT(amount, Const(32, type.bits));
  if (type.is_signed) {
    Value safe = Resize(builder_.CreateSelect(fits, amount, Const(32, type.bits - 1)), type.bits, false);
    return Write(In(0), builder_.CreateAShr(a, safe));
  }
  Value safe = Resize(builder_.CreateSelect(fits, amount, Const(32, 0)), type.bits, false);
  return Write(In(0), builder_.CreateSelect(fits, builder_.CreateLShr(a, safe), Const(type.bits, 0)));
}

absl::Status FunctionTranslator::Shf() {
  const std::string_view direction = TakeOneOf("l r");
  const std::string_view mode = TakeOneOf("clamp wrap");
  if (direction.empty() || mode.empty()) return Unsupported();
  QGPU_RETURN_IF_ERROR(TakeType("b32").status());
  QGPU_RETURN_IF_ERROR(Finish(4));
  std::vector<Value> arguments;
  for (size_t i = 1; i <= 3; ++i) {
    QGPU_ASSIGN_OR_RETURN(Value value, Read(In(i), 32));
    arguments.push_back(value);
  }
  arguments.push_back(Const(32, direction == "l"));
  arguments.push_back(Const(32, mode == "clamp"));
  return Write(In(0), CallHost("FunnelShift", 32, arguments));
}

absl::Status FunctionTranslator::Bfe() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("u32 u64 s32 s64"));
  QGPU_RETURN_IF_ERROR(Finish(4));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value position, Read(In(2), 32));
  QGPU_ASSIGN_OR_RETURN(Value length, Read(In(3), 32));
  Value result = CallHost("BitFieldExtract", 64,
                          {Resize(a, 64, false), Resize(position, 64, false), Resize(length, 64, false),
                           Const(32, type.bits), Const(32, type.is_signed)});
  return Write(In(0), Resize(result, type.bits, false));
}

absl::Status FunctionTranslator::Bfi() {
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("b32 b64"));
  QGPU_RETURN_IF_ERROR(Finish(5));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(2), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value position, Read(In(3), 32));
  QGPU_ASSIGN_OR_RETURN(Value length, Read(In(4), 32));
  Value result = CallHost("BitFieldInsert", 64,
                          {Resize(a, 64, false), Resize(b, 64, false), Resize(position, 64, false),
                           Resize(length, 64, false), Const(32, type.bits)});
  return Write(In(0), Resize(result, type.bits, false));
}

absl::Status FunctionTranslator::Bfind() {
  const bool shift_amount = Take("shiftamt");
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("u32 u64 s32 s64"));
  QGPU_RETURN_IF_ERROR(Finish(2));
  QGPU_ASSIGN_OR_RETURN(Value a, Read(In(1), type.bits));
  return Write(In(0), CallHost("BitFind", 32,
                               {Resize(a, 64, false), Const(32, type.bits), Const(32, type.is_signed),
                                Const(32, shift_amount)}));
}

absl::Status FunctionTranslator::Bmsk() {
  const std::string_view mode = TakeOneOf("clamp wrap");
  if (mode.empty()) return Unsupported();
  return Binary("b32", [&](Value position, Value width, const IntegerType&) {
    return CallHost("BitMask", 32, {position, width, Const(32, mode == "clamp")});
  });
}

absl::Status FunctionTranslator::Szext() {
  const std::string_view mode = TakeOneOf("clamp wrap");
  if (mode.empty()) return Unsupported();
  return Binary("u32 s32", [&](Value a, Value width, const IntegerType& type) {
    return CallHost("SignOrZeroExtend", 32, {a, width, Const(32, type.is_signed), Const(32, mode == "clamp")});
  });
}

absl::Status FunctionTranslator::Brev() {
  return Unary("b32 b64", [&](Value a, const IntegerType&) {
    return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, a);
  });
}

absl::Status FunctionTranslator::Fns() {
  QGPU_RETURN_IF_ERROR(TakeType("b32").status());
  QGPU_RETURN_IF_ERROR(Finish(4));
  std::vector<Value> arguments;
  for (size_t i = 1; i <= 3; ++i) {
    QGPU_ASSIGN_OR_RETURN(Value value, Read(In(i), 32));
    arguments.push_back(value);
  }
  return Write(In(0), CallHost("FindNthSet", 32, arguments));
}

absl::Status FunctionTranslator::Popc() {
  return Unary("b32 b64", [&](Value a, const IntegerType&) {
    return Resize(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, a), 32, false);
  });
}

absl::Status FunctionTranslator::Clz() {
  return Unary("b32 b64", [&](Value a, const IntegerType&) {
    return Resize(builder_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, a, builder_.getFalse()), 32, false);
  });
}

absl::Status FunctionTranslator::Prmt() {
  QGPU_RETURN_IF_ERROR(TakeType("b32").status());
  static constexpr std::pair<std::string_view, PermuteMode> kModes[] = {
      {"f4e", PermuteMode::kForward4}, {"b4e", PermuteMode::kBackward4}, {"rc8", PermuteMode::kReplicate8},
      {"ecl", PermuteMode::kEdgeLeft}, {"ecr", PermuteMode::kEdgeRight}, {"rc16", PermuteMode::kReplicate16}};
  PermuteMode mode = PermuteMode::kIndex;
  for (const auto& [name, value] : kModes) {
    if (mode == PermuteMode::kIndex && Take(name)) mode = value;
  }
  QGPU_RETURN_IF_ERROR(Finish(4));
  std::vector<Value> arguments;
  for (size_t i = 1; i <= 3; ++i) {
    QGPU_ASSIGN_OR_RETURN(Value value, Read(In(i), 32));
    arguments.push_back(value);
  }
  arguments.push_back(Const(32, static_cast<uint64_t>(mode)));
  return Write(In(0), CallHost("Permute", 32, arguments));
}

}  // namespace qgpu::native
