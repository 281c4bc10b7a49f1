// Handlers of arithmetic, logic, shifts and bit fields.
#include "lowering/ptx_to_blocks/expand.h"
#include "lowering/ptx_to_blocks/translator.h"

namespace qgpu::lower {

absl::Status Translator::Binary(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  const std::optional<Type> type = TypeOf(info);
  if (!type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  const bool looks_at_all_bits = row.op != row.signed_op;
  if (looks_at_all_bits && *type == Type::kI64) return Unsupported(in, "64-bit values other than addresses");
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(std::vector<int> args, ReadAll(in, *type));
  if (looks_at_all_bits) {
    for (int& arg : args) arg = Extend(arg, *info);
  }
  return Write(in, in.operands[0], Emit(info->kind == TypeKind::kSigned ? row.signed_op : row.op, *type, args));
}

// mul and mad: lo, hi and wide.
absl::Status Translator::Multiply(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  const bool lo = modifiers.Take("lo"), hi = modifiers.Take("hi"), wide = modifiers.Take("wide");
  const std::optional<Type> type = TypeOf(info);
  if (!type || !modifiers.empty() || lo + hi + wide != 1) return Unsupported(in);
  if ((wide && *type != Type::kI32) || (hi && *type != Type::kI32)) return Unsupported(in);
  const bool is_mad = row.op == IrOp::kMad;
  QGPU_RETURN_IF_ERROR(Expect(in, is_mad ? 4 : 3));
  if (wide && info->bits == 16 && is_mad) return Unsupported(in);
  const Type result = wide && info->bits == 32 ? Type::kI64 : *type;
  QGPU_ASSIGN_OR_RETURN(int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(int b, Read(in, in.operands[2], *type));
  if (hi) {
    const Emit32Function emit = [this](IrOp op, std::vector<int> args) { return Emit32(op, std::move(args)); };
    const bool is_signed = info->kind == TypeKind::kSigned;
    int product;
    if (info->bits == 16) {
      product = Emit32(IrOp::kMul, {Extend(a, *info), Extend(b, *info)});
      product = Emit32(is_signed ? IrOp::kSar : IrOp::kShr, {product, Const32(16)});
    } else {
      product = ExpandHighProduct(f(), emit, a, b, is_signed);
    }
    if (is_mad) {
      QGPU_ASSIGN_OR_RETURN(const int c, Read(in, in.operands[3], result));
      product = Emit32(IrOp::kAdd, {product, c});
    }
    return Write(in, in.operands[0], product);
  }
  if (wide && info->bits == 16) {
    a = Extend(a, *info);
    b = Extend(b, *info);
  } else if (wide) {
    const IrOp extend = info->kind == TypeKind::kSigned ? IrOp::kSignExt : IrOp::kZeroExt;
    a = Emit(extend, Type::kI64, {a});
    b = Emit(extend, Type::kI64, {b});
  }
  int product;
  if (is_mad) {
    QGPU_ASSIGN_OR_RETURN(const int c, Read(in, in.operands[3], result));
    product = result == Type::kI32 ? Emit(IrOp::kMad, result, {a, b, c})
                                   : Emit(IrOp::kAdd, result, {Emit(IrOp::kMul, result, {a, b}), c});
  } else {
    product = Emit(IrOp::kMul, result, {a, b});
  }
  return Write(in, in.operands[0], product);
}

absl::Status Translator::Logic(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAll(in, *type));
  return Write(in, in.operands[0], Emit(*type == Type::kPredicate ? row.signed_op : row.op, *type, args));
}

absl::Status Translator::Not(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  const int value = *type == Type::kPredicate ? Emit(IrOp::kPredNot, *type, {a})
                                              : Emit(IrOp::kXor, *type, {a, f().Constant(*type, ~uint64_t{0})});
  return Write(in, in.operands[0], value);
}

absl::Status Translator::Negate(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  return Write(in, in.operands[0], Emit(IrOp::kSub, *type, {f().Constant(*type, 0), a}));
}

// The type of an instruction that exists for 32-bit integers only, or an error.
#define QGPU_EXPECT_ONLY_32(in, modifiers, operand_count)                                           \
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();                                   \
  if (TypeOf(info) != Type::kI32 || info->bits != 32 || !modifiers.empty()) return Unsupported(in); \
  QGPU_RETURN_IF_ERROR(Expect(in, operand_count));                                                  \
  [[maybe_unused]] const bool is_signed = info->kind == TypeKind::kSigned;                          \
  QGPU_ASSIGN_OR_RETURN([[maybe_unused]] const std::vector<int> args, ReadAll(in, Type::kI32))

absl::Status Translator::Absolute(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 2);
  return Write(in, in.operands[0], Emit32(IrOp::kMaxS, {args[0], Emit32(IrOp::kSub, {Const32(0), args[0]})}));
}

absl::Status Translator::SumOfDifferences(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 4);
  const int high = Emit32(is_signed ? IrOp::kMaxS : IrOp::kMaxU, {args[0], args[1]});
  const int low = Emit32(is_signed ? IrOp::kMinS : IrOp::kMinU, {args[0], args[1]});
  return Write(in, in.operands[0], Emit32(IrOp::kAdd, {Emit32(IrOp::kSub, {high, low}), args[2]}));
}

absl::Status Translator::Shift(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  const std::optional<Type> type = TypeOf(info);
  if (!type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(const int amount, Read(in, in.operands[2], Type::kI32));
  if (row.op == IrOp::kShr && *type == Type::kI32) a = Extend(a, *info);
  return Write(in, in.operands[0], Emit(info->kind == TypeKind::kSigned ? row.signed_op : row.op, *type, {a, amount}));
}

// shf: the upper (l) or lower (r) half of {b, a} shifted by c.
absl::Status Translator::FunnelShift(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool left = modifiers.Take("l"), right = modifiers.Take("r");
  const bool wrap = modifiers.Take("wrap"), clamp = modifiers.Take("clamp");
  if (left == right || wrap == clamp) return Unsupported(in);
  QGPU_EXPECT_ONLY_32(in, modifiers, 4);
  const int amount = Emit32(wrap ? IrOp::kAnd : IrOp::kMinU, {args[2], Const32(wrap ? 31 : 32)});
  const int rest = Emit32(IrOp::kSub, {Const32(32), amount});
  const int high = Emit32(IrOp::kShl, {args[1], left ? amount : rest});
  const int low = Emit32(IrOp::kShr, {args[0], left ? rest : amount});
  return Write(in, in.operands[0], Emit32(IrOp::kOr, {high, low}));
}

absl::Status Translator::ExtractField(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 4);
  const int position = Emit32(IrOp::kAnd, {args[1], Const32(255)});
  const int length = Emit32(IrOp::kAnd, {args[2], Const32(255)});
  if (!is_signed) {
    const int mask = Emit32(IrOp::kAdd, {Emit32(IrOp::kShl, {Const32(1), length}), Const32(~0u)});
    return Write(in, in.operands[0], Emit32(IrOp::kAnd, {Emit32(IrOp::kShr, {args[0], position}), mask}));
  }
  // The field's top bit, at most bit 31, goes to bit 31; an arithmetic shift brings the field down. Length 0 gives 0.
  const int end = Emit32(IrOp::kMinU, {Emit32(IrOp::kAdd, {position, length}), Const32(32)});
  const int up = Emit32(IrOp::kSub, {Const32(32), end});
  const int field = Emit32(IrOp::kSar, {Emit32(IrOp::kShl, {args[0], up}), Emit32(IrOp::kAdd, {up, position})});
  const int empty = Comparison(Compare::kEq, length, Const32(0));
  return Write(in, in.operands[0], Emit32(IrOp::kSelect, {empty, Const32(0), field}));
}

absl::Status Translator::InsertField(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 5);
  const int position = Emit32(IrOp::kAnd, {args[2], Const32(255)});
  const int length = Emit32(IrOp::kAnd, {args[3], Const32(255)});
  const int ones = Emit32(IrOp::kAdd, {Emit32(IrOp::kShl, {Const32(1), length}), Const32(~0u)});
  const int mask = Emit32(IrOp::kShl, {ones, position});
  const int kept = Emit32(IrOp::kAnd, {args[1], Emit32(IrOp::kXor, {mask, Const32(~0u)})});
  const int field = Emit32(IrOp::kAnd, {Emit32(IrOp::kShl, {args[0], position}), mask});
  return Write(in, in.operands[0], Emit32(IrOp::kOr, {kept, field}));
}

// bfind: position of the highest bit that differs from the sign, all ones where there is none.
absl::Status Translator::FindHighBit(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 2);
  int a = args[0];
  if (is_signed) a = Emit32(IrOp::kXor, {a, Emit32(IrOp::kSar, {a, Const32(31)})});
  return Write(in, in.operands[0], Emit32(IrOp::kSub, {Const32(31), Emit32(IrOp::kClz, {a})}));
}

absl::Status Translator::Unary(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 2);
  return Write(in, in.operands[0], Emit32(row.op, args));
}

// f(a, b, c) = f(a, b, 0) ^ (c & (f(a, b, 0) ^ f(a, b, 1))), and the same again for two operands.
absl::Status Translator::Lop3(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  if (in.operands.size() != 5 || in.operands[4].kind != OperandKind::kInteger || in.operands[4].value > 255) {
    return Unsupported(in);
  }
  QGPU_EXPECT_ONLY_32(in, modifiers, 5);
  const uint32_t table = static_cast<uint32_t>(in.operands[4].value);  // bit 4a + 2b + c
  const auto of_a = [&](uint32_t when_0, uint32_t when_1) {
    const int low = Const32(when_0 != 0 ? ~0u : 0);
    return when_0 == when_1 ? low : Emit32(IrOp::kXor, {args[0], low});
  };
  const auto of_a_b = [&](int c, bool difference) {  // the table, or its difference over c
    const auto entry = [&](int a, int b) {
      const uint32_t bit = table >> (4 * a + 2 * b + c) & 1;
      return difference ? bit ^ (table >> (4 * a + 2 * b + 1) & 1) : bit;
    };
    const int base = of_a(entry(0, 0), entry(1, 0));
    const int change = of_a(entry(0, 0) ^ entry(0, 1), entry(1, 0) ^ entry(1, 1));
    return Emit32(IrOp::kXor, {base, Emit32(IrOp::kAnd, {args[1], change})});
  };
  const int value = Emit32(IrOp::kXor, {of_a_b(0, false), Emit32(IrOp::kAnd, {args[2], of_a_b(0, true)})});
  return Write(in, in.operands[0], value);
}

}  // namespace qgpu::lower
