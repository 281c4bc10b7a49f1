// Handlers of arithmetic, and how the instructions on integers read and write.
#include "lowering/ptx_to_blocks/expand/expand.h"
#include "lowering/ptx_to_blocks/translate/translator.h"

namespace qgpu::lower {
namespace {

constexpr char kAllTypes[] = "u16 s16 u32 s32 u64 s64";
constexpr char kCarryTypes[] = "u32 s32 u64 s64";
constexpr char kSignedTypes[] = "s16 s32 s64";
constexpr char kWidenedTypes[] = "u16 s16 u32 s32";

Type IrTypeOf(const ptx::TypeInfo& type) { return type.bits == 64 ? Type::kI64 : Type::kI32; }
bool IsSigned(const ptx::TypeInfo& type) { return type.kind == TypeKind::kSigned; }

bool IsOneOf(std::string_view word, std::string_view list) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (list.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

// ---- operands ----

// The first type among the modifiers, which has to be one of `allowed`.
absl::StatusOr<ptx::TypeInfo> Translator::TakeTypeOf(const PtxInstruction& in, Modifiers& modifiers,
                                                     std::string_view allowed) const {
  const std::optional<std::string> name = modifiers.TakeTypeName();
  if (!name || !IsOneOf(*name, allowed)) return Unsupported(in);
  return *ptx::LookUpType(*name);
}

absl::Status Translator::ExpectWidth(const PtxInstruction& in, const Operand& operand, int bits) const {
  if (operand.kind != OperandKind::kRegister) return absl::OkStatus();
  const ptx::Register& reg = kernel_.registers[operand.index];
  const std::optional<ptx::TypeInfo> type = ptx::LookUpType(reg.type);
  if (!type || type->bits == bits) return absl::OkStatus();  // what is no type is refused where it is read
  return Wrong(in, fmt::format("{} is a .{} register, not one of {} bits", operand.name, reg.type, bits));
}

absl::StatusOr<int> Translator::ReadOf(const PtxInstruction& in, const Operand& operand, const ptx::TypeInfo& type) {
  QGPU_RETURN_IF_ERROR(ExpectWidth(in, operand, type.bits));
  return Read(in, operand, *TypeOf(type));
}

absl::StatusOr<std::vector<int>> Translator::ReadAllOf(const PtxInstruction& in, const ptx::TypeInfo& type) {
  std::vector<int> values;
  for (size_t i = 1; i < in.operands.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(const int value, ReadOf(in, in.operands[i], type));
    values.push_back(value);
  }
  return values;
}

absl::Status Translator::WriteOf(const PtxInstruction& in, const Operand& operand, int value, int bits) {
  QGPU_RETURN_IF_ERROR(ExpectWidth(in, operand, bits));
  return Write(in, operand, value);
}

// ---- two operands ----

absl::Status Translator::Binary(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kAllTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(std::vector<int> args, ReadAllOf(in, type));
  for (int& arg : args) arg = Extend(arg, type);
  return WriteOf(in, in.operands[0], Emit(IsSigned(type) ? row.signed_op : row.op, IrTypeOf(type), args), type.bits);
}

absl::Status Translator::WriteCarry(const PtxInstruction& in, int carry) {
  if (in.guard) {
    QGPU_ASSIGN_OR_RETURN(const int guard, ReadGuard(in));
    const int inverse = Emit(IrOp::kPredNot, Type::kPredicate, {guard});
    int old = ssa_->Read(current_, CarryVariable());
    if (in.guard->negated) std::swap(old, carry);
    carry = Emit(IrOp::kPredOr, Type::kPredicate,
                 {Emit(IrOp::kPredAnd, Type::kPredicate, {guard, carry}),
                  Emit(IrOp::kPredAnd, Type::kPredicate, {inverse, old})});
  }
  ssa_->Write(current_, CarryVariable(), carry);
  return absl::OkStatus();
}

// A sum has overflowed where it is below one of its terms.
absl::StatusOr<int> Translator::AddWithCarry(const PtxInstruction& in, int a, int b, bool carry_in, bool carry_out) {
  const Type type = f().at(a).type;
  int sum = Emit(IrOp::kAdd, type, {a, b});
  int carry = carry_out ? Comparison(Compare::kLtU, sum, a) : -1;
  if (carry_in) {
    const int before = sum;
    sum = Emit(IrOp::kAdd, type, {before, Number(ssa_->Read(current_, CarryVariable()), type)});
    if (carry_out) {
      carry = Emit(IrOp::kPredOr, Type::kPredicate, {carry, Comparison(Compare::kLtU, sum, before)});
    }
  }
  if (carry_out) QGPU_RETURN_IF_ERROR(WriteCarry(in, carry));
  return sum;
}

absl::StatusOr<int> Translator::SubtractWithBorrow(const PtxInstruction& in, int a, int b, bool carry_in,
                                                   bool carry_out) {
  const Type type = f().at(a).type;
  int difference = Emit(IrOp::kSub, type, {a, b});
  int borrow = carry_out ? Comparison(Compare::kLtU, a, b) : -1;
  if (carry_in) {
    const int before = difference, one = Number(ssa_->Read(current_, CarryVariable()), type);
    difference = Emit(IrOp::kSub, type, {before, one});
    if (carry_out) {
      borrow = Emit(IrOp::kPredOr, Type::kPredicate, {borrow, Comparison(Compare::kLtU, before, one)});
    }
  }
  if (carry_out) QGPU_RETURN_IF_ERROR(WriteCarry(in, borrow));
  return difference;
}

// The sum or difference of 32-bit numbers, or the nearest one that there is: it overflows where its sign differs from
// those of both terms.
int Translator::SaturatedSum(int a, int b, bool subtract) {
  const int sum = Emit32(subtract ? IrOp::kSub : IrOp::kAdd, {a, b});
  const int differs = Emit32(IrOp::kXor, {a, sum});
  const int terms = Emit32(IrOp::kXor, {subtract ? a : sum, b});
  const int overflow = Comparison(Compare::kLtS, Emit32(IrOp::kAnd, {differs, terms}), Const32(0));
  const int nearest = Emit32(IrOp::kXor, {Emit32(IrOp::kSar, {a, Const32(31)}), Const32(0x7fffffff)});
  return Emit32(IrOp::kSelect, {overflow, nearest, sum});
}

absl::Status Translator::AddOrSubtract(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const bool subtract = row.op == IrOp::kSub, carry_in = in.opcode == "addc" || in.opcode == "subc";
  const bool saturate = !carry_in && modifiers.Take("sat"), carry_out = !saturate && modifiers.Take("cc");
  const char* allowed = saturate ? "s32" : carry_in || carry_out ? kCarryTypes : kAllTypes;
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, allowed));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, type));
  int value;
  if (saturate) {
    value = SaturatedSum(args[0], args[1], subtract);
  } else if (!carry_in && !carry_out) {
    value = Emit(row.op, IrTypeOf(type), args);
  } else if (subtract) {
    QGPU_ASSIGN_OR_RETURN(value, SubtractWithBorrow(in, args[0], args[1], carry_in, carry_out));
  } else {
    QGPU_ASSIGN_OR_RETURN(value, AddWithCarry(in, args[0], args[1], carry_in, carry_out));
  }
  return WriteOf(in, in.operands[0], value, type.bits);
}

// ---- products ----

// The upper half of a product of two values of `type`.
int Translator::HighProduct(int a, int b, const ptx::TypeInfo& type) {
  if (type.bits == 64) return HighProduct64(a, b, IsSigned(type));
  if (type.bits == 16) {
    const int product = Emit32(IrOp::kMul, {Extend(a, type), Extend(b, type)});
    return Emit32(IsSigned(type) ? IrOp::kSar : IrOp::kShr, {product, Const32(16)});
  }
  const Emit32Function emit = [this](IrOp op, std::vector<int> args) { return Emit32(op, std::move(args)); };
  return ExpandHighProduct(f(), emit, a, b, IsSigned(type));
}

// A negative factor is its unsigned value less 2^64. What that takes away is found before the product is: afterwards it
// is one value instead of both factors.
int Translator::HighProduct64(int a, int b, bool is_signed) {
  if (!is_signed) return Emit(IrOp::kMulHighU, Type::kI64, {a, b});
  const auto where_negative = [&](int sign, int other) {
    return Emit(IrOp::kAnd, Type::kI64, {Emit(IrOp::kSar, Type::kI64, {sign, Const32(63)}), other});
  };
  const int less = Emit(IrOp::kAdd, Type::kI64, {where_negative(a, b), where_negative(b, a)});
  return Emit(IrOp::kSub, Type::kI64, {Emit(IrOp::kMulHighU, Type::kI64, {a, b}), less});
}

// mul, mad and madc: lo, hi and wide.
absl::Status Translator::Multiply(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const bool is_mad = row.op == IrOp::kMad, carry_in = in.opcode == "madc";
  const bool lo = modifiers.Take("lo"), hi = modifiers.Take("hi"), wide = modifiers.Take("wide");
  if (lo + hi + wide != 1 || (carry_in && wide)) return Unsupported(in);
  const bool carry_out = is_mad && !wide && modifiers.Take("cc");
  const bool saturate = is_mad && hi && !carry_in && !carry_out && modifiers.Take("sat");
  const char* allowed = saturate ? "s32" : carry_in || carry_out ? kCarryTypes : wide ? kWidenedTypes : kAllTypes;
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, allowed));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, is_mad ? 4 : 3));
  QGPU_ASSIGN_OR_RETURN(int a, ReadOf(in, in.operands[1], type));
  QGPU_ASSIGN_OR_RETURN(int b, ReadOf(in, in.operands[2], type));
  const ptx::TypeInfo result = {type.kind, wide ? 2 * type.bits : type.bits};
  const Type ir_type = IrTypeOf(result);
  if (wide) {
    for (int* factor : {&a, &b}) {
      *factor = type.bits == 16 ? Extend(*factor, type)
                                : Emit(IsSigned(type) ? IrOp::kSignExt : IrOp::kZeroExt, Type::kI64, {*factor});
    }
  }
  int c = -1;
  if (is_mad) {
    QGPU_ASSIGN_OR_RETURN(c, ReadOf(in, in.operands[3], result));
  }
  if (is_mad && !hi && !carry_in && !carry_out && ir_type == Type::kI32) {
    return WriteOf(in, in.operands[0], Emit32(IrOp::kMad, {a, b, c}), result.bits);
  }
  int value = hi ? HighProduct(a, b, type) : Emit(IrOp::kMul, ir_type, {a, b});
  if (saturate) {
    value = SaturatedSum(value, c, false);
  } else if (carry_in || carry_out) {
    QGPU_ASSIGN_OR_RETURN(value, AddWithCarry(in, value, c, carry_in, carry_out));
  } else if (is_mad) {
    value = Emit(IrOp::kAdd, ir_type, {value, c});
  }
  return WriteOf(in, in.operands[0], value, result.bits);
}

// Bits 0 to 31 (lo) or 16 to 47 (hi) of the product of two 24-bit numbers.
absl::Status Translator::Multiply24(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const bool is_mad = row.op == IrOp::kMad;
  const bool lo = modifiers.Take("lo"), hi = modifiers.Take("hi");
  const bool saturate = is_mad && hi && modifiers.Take("sat");
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, saturate ? "s32" : "u32 s32"));
  if (lo == hi || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, is_mad ? 4 : 3));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, type));
  int value;
  if (lo) {
    const ptx::TypeInfo factor = {type.kind, 24};
    value = Emit32(IrOp::kMul, {Extend(args[0], factor), Extend(args[1], factor)});
  } else {  // as the upper half of a product that is 2^16 times as large
    const int eight = Const32(8);
    value = HighProduct(Emit32(IrOp::kShl, {args[0], eight}), Emit32(IrOp::kShl, {args[1], eight}), type);
  }
  if (is_mad) value = saturate ? SaturatedSum(value, args[2], false) : Emit32(IrOp::kAdd, {value, args[2]});
  return WriteOf(in, in.operands[0], value, 32);
}

// dp4a: four products of bytes; dp2a: two of the halves of a and the lower or upper two bytes of b.
absl::Status Translator::DotProduct(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool of_halves = in.opcode == "dp2a";
  const bool lo = of_halves && modifiers.Take("lo"), hi = of_halves && modifiers.Take("hi");
  QGPU_ASSIGN_OR_RETURN(ptx::TypeInfo a_type, TakeTypeOf(in, modifiers, "u32 s32"));
  QGPU_ASSIGN_OR_RETURN(ptx::TypeInfo b_type, TakeTypeOf(in, modifiers, "u32 s32"));
  if ((of_halves && lo == hi) || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, a_type));
  // `bits` bits from bit `first` on.
  const auto piece = [&](int value, int first, int bits, const ptx::TypeInfo& type) {
    if (!IsSigned(type)) {
      return Extend(Emit32(IrOp::kShr, {value, Const32(static_cast<uint32_t>(first))}), {type.kind, bits});
    }
    const int top = Emit32(IrOp::kShl, {value, Const32(static_cast<uint32_t>(32 - bits - first))});
    return Emit32(IrOp::kSar, {top, Const32(static_cast<uint32_t>(32 - bits))});
  };
  int sum = args[2];
  const int count = of_halves ? 2 : 4, a_bits = 32 / count;
  for (int i = 0; i < count; ++i) {
    const int a = piece(args[0], a_bits * i, a_bits, a_type);
    const int b = piece(args[1], 8 * i + (hi ? 16 : 0), 8, b_type);
    sum = Emit32(IrOp::kMad, {a, b, sum});
  }
  return WriteOf(in, in.operands[0], sum, 32);
}

// ---- signs ----

absl::Status Translator::Negate(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kSignedTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], type));
  const Type ir_type = IrTypeOf(type);
  return WriteOf(in, in.operands[0], Emit(IrOp::kSub, ir_type, {Constant(ir_type, 0), a}), type.bits);
}

absl::Status Translator::Absolute(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kSignedTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(int a, ReadOf(in, in.operands[1], type));
  a = Extend(a, type);
  int value;
  if (type.bits == 64) {
    const int zero = Constant(Type::kI64, 0), negative = Comparison(Compare::kLtS, a, zero);
    value = Emit(IrOp::kSelect, Type::kI64, {negative, Emit(IrOp::kSub, Type::kI64, {zero, a}), a});
  } else {
    value = Emit32(IrOp::kMaxS, {a, Emit32(IrOp::kSub, {Const32(0), a})});
  }
  return WriteOf(in, in.operands[0], value, type.bits);
}

absl::Status Translator::SumOfDifferences(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kAllTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, type));
  const int a = Extend(args[0], type), b = Extend(args[1], type);
  const Type ir_type = IrTypeOf(type);
  int distance;
  if (type.bits == 64) {
    const int less = Comparison(IsSigned(type) ? Compare::kLtS : Compare::kLtU, a, b);
    const int greater = Emit(IrOp::kSelect, ir_type, {less, b, a}),
              smaller = Emit(IrOp::kSelect, ir_type, {less, a, b});
    distance = Emit(IrOp::kSub, ir_type, {greater, smaller});
  } else {
    const int high = Emit32(IsSigned(type) ? IrOp::kMaxS : IrOp::kMaxU, {a, b});
    distance = Emit32(IrOp::kSub, {high, Emit32(IsSigned(type) ? IrOp::kMinS : IrOp::kMinU, {a, b})});
  }
  return WriteOf(in, in.operands[0], Emit(IrOp::kAdd, ir_type, {distance, args[2]}), type.bits);
}

}  // namespace qgpu::lower
