// Handlers of logic, shifts, bit fields and bytes.
#include "lowering/ptx_to_blocks/translate/translator.h"

namespace qgpu::lower {
namespace {

constexpr char kBitTypes[] = "b16 b32 b64";
constexpr char kLogicTypes[] = "pred b16 b32 b64";
constexpr char kShiftedTypes[] = "b16 b32 b64 u16 u32 u64 s16 s32 s64";
constexpr char kFieldTypes[] = "u32 u64 s32 s64";
constexpr ptx::TypeInfo kWord = {TypeKind::kBits, 32};

Type IrTypeOf(const ptx::TypeInfo& type) { return type.bits == 64 ? Type::kI64 : Type::kI32; }
bool IsSigned(const ptx::TypeInfo& type) { return type.kind == TypeKind::kSigned; }

}  // namespace

// ---- logic ----

absl::Status Translator::Logic(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kLogicTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, type));
  const Type ir_type = *TypeOf(type);
  const IrOp op = ir_type == Type::kPredicate ? row.signed_op : row.op;
  return WriteOf(in, in.operands[0], Emit(op, ir_type, args), type.bits);
}

absl::Status Translator::Not(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kLogicTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], type));
  const Type ir_type = *TypeOf(type);
  const int value = ir_type == Type::kPredicate ? Emit(IrOp::kPredNot, ir_type, {a})
                                                : Emit(IrOp::kXor, ir_type, {a, Constant(ir_type, ~uint64_t{0})});
  return WriteOf(in, in.operands[0], value, type.bits);
}

// cnot: 1 where the operand is 0.
absl::Status Translator::IsZero(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, kBitTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], type));
  const Type ir_type = IrTypeOf(type);
  const int zero = Comparison(Compare::kEq, Extend(a, type), Constant(ir_type, 0));
  return WriteOf(in, in.operands[0], Number(zero, ir_type), type.bits);
}

// f(a, b, c) = f(a, b, 0) ^ (c & (f(a, b, 0) ^ f(a, b, 1))), and the same again for two operands.
// lop3.and and lop3.or have a second result: whether the first is not 0, combined with a predicate.
absl::Status Translator::Lop3(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool with_and = modifiers.Take("and"), with_or = modifiers.Take("or"), combined = with_and || with_or;
  QGPU_RETURN_IF_ERROR(TakeTypeOf(in, modifiers, "b32").status());
  if ((with_and && with_or) || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, combined ? 6 : 5));
  if (in.operands[4].kind != OperandKind::kInteger || in.operands[4].value > 255) {
    return Wrong(in, "the table is not a number from 0 to 255");
  }
  std::vector<int> args;
  for (size_t i = 1; i <= 3; ++i) {
    QGPU_ASSIGN_OR_RETURN(const int arg, ReadOf(in, in.operands[i], kWord));
    args.push_back(arg);
  }
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
  if (!combined) return WriteOf(in, in.operands[0], value, 32);
  const Operand& results = in.operands[0];
  if (results.kind != OperandKind::kPair || results.elements.size() != 2) return Wrong(in, "the result is not d|p");
  QGPU_ASSIGN_OR_RETURN(const int other, Read(in, in.operands[5], Type::kPredicate));
  const int predicate = Emit(with_and ? IrOp::kPredAnd : IrOp::kPredOr, Type::kPredicate,
                             {Comparison(Compare::kNe, value, Const32(0)), other});
  QGPU_RETURN_IF_ERROR(WriteOf(in, results.elements[0], value, 32));
  return Write(in, results.elements[1], predicate);
}

// ---- shifts ----

absl::Status Translator::Shift(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const bool left = row.op == IrOp::kShl;
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo type, TakeTypeOf(in, modifiers, left ? kBitTypes : kShiftedTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(int a, ReadOf(in, in.operands[1], type));
  QGPU_ASSIGN_OR_RETURN(const int amount, ReadOf(in, in.operands[2], kWord));
  if (!left) a = Extend(a, type);
  const int value = Emit(IsSigned(type) ? row.signed_op : row.op, IrTypeOf(type), {a, amount});
  return WriteOf(in, in.operands[0], value, type.bits);
}

// The upper (left) or lower half of {high, low} shifted by an amount of at most 32.
int Translator::FunnelShifted(int low, int high, int amount, bool left) {
  const int rest = Emit32(IrOp::kSub, {Const32(32), amount});
  const int upper = Emit32(IrOp::kShl, {high, left ? amount : rest});
  return Emit32(IrOp::kOr, {upper, Emit32(IrOp::kShr, {low, left ? rest : amount})});
}

absl::Status Translator::FunnelShift(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool left = modifiers.Take("l"), right = modifiers.Take("r");
  const bool wrap = modifiers.Take("wrap"), clamp = modifiers.Take("clamp");
  QGPU_RETURN_IF_ERROR(TakeTypeOf(in, modifiers, "b32").status());
  if (left == right || wrap == clamp || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, kWord));
  const int amount = Emit32(wrap ? IrOp::kAnd : IrOp::kMinU, {args[2], Const32(wrap ? 31 : 32)});
  return WriteOf(in, in.operands[0], FunnelShifted(args[0], args[1], amount, left), 32);
}

// ---- bit fields ----

// Position and length, of which the low eight bits count.
absl::StatusOr<std::vector<int>> Translator::ReadFieldOperands(const PtxInstruction& in, size_t first) {
  std::vector<int> out;
  for (size_t i = first; i < first + 2; ++i) {
    QGPU_ASSIGN_OR_RETURN(const int value, ReadOf(in, in.operands[i], kWord));
    out.push_back(Emit32(IrOp::kAnd, {value, Const32(255)}));
  }
  return out;
}

absl::Status Translator::ExtractField(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo info, TakeTypeOf(in, modifiers, kFieldTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], info));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> field, ReadFieldOperands(in, 2));
  const int position = field[0], length = field[1];
  const Type type = IrTypeOf(info);
  if (!IsSigned(info)) {
    const int ones =
        Emit(IrOp::kAdd, type, {Emit(IrOp::kShl, type, {Constant(type, 1), length}), Constant(type, ~uint64_t{0})});
    const int value = Emit(IrOp::kAnd, type, {Emit(IrOp::kShr, type, {a, position}), ones});
    return WriteOf(in, in.operands[0], value, info.bits);
  }
  // The field's top bit, at most the highest one there is, goes to the top; an arithmetic shift brings the field down.
  // Length 0 gives 0.
  const int bits = Const32(static_cast<uint32_t>(info.bits));
  const int end = Emit32(IrOp::kMinU, {Emit32(IrOp::kAdd, {position, length}), bits});
  const int up = Emit32(IrOp::kSub, {bits, end});
  const int down = Emit32(IrOp::kAdd, {up, position});
  const int value = Emit(IrOp::kSar, type, {Emit(IrOp::kShl, type, {a, up}), down});
  const int empty = Comparison(Compare::kEq, length, Const32(0));
  return WriteOf(in, in.operands[0], Emit(IrOp::kSelect, type, {empty, Constant(type, 0), value}), info.bits);
}

absl::Status Translator::InsertField(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo info, TakeTypeOf(in, modifiers, "b32 b64"));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 5));
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], info));
  QGPU_ASSIGN_OR_RETURN(const int b, ReadOf(in, in.operands[2], info));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> field, ReadFieldOperands(in, 3));
  const Type type = IrTypeOf(info);
  const int all = Constant(type, ~uint64_t{0});
  const int ones = Emit(IrOp::kAdd, type, {Emit(IrOp::kShl, type, {Constant(type, 1), field[1]}), all});
  const int mask = Emit(IrOp::kShl, type, {ones, field[0]});
  const int kept = Emit(IrOp::kAnd, type, {b, Emit(IrOp::kXor, type, {mask, all})});
  const int inserted = Emit(IrOp::kAnd, type, {Emit(IrOp::kShl, type, {a, field[0]}), mask});
  return WriteOf(in, in.operands[0], Emit(IrOp::kOr, type, {kept, inserted}), info.bits);
}

// bfind: position of the highest bit that differs from the sign, or how far it is from the top; all ones where there is
// none.
absl::Status Translator::FindHighBit(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool shift_amount = modifiers.Take("shiftamt");
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo info, TakeTypeOf(in, modifiers, kFieldTypes));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(int a, ReadOf(in, in.operands[1], info));
  const Type type = IrTypeOf(info);
  const auto bits = static_cast<uint32_t>(info.bits);
  if (IsSigned(info)) a = Emit(IrOp::kXor, type, {a, Emit(IrOp::kSar, type, {a, Const32(bits - 1)})});
  const int zeros = bits == 64 ? Math().LeadingZeros({LowHalf(a), HighHalf(a)}) : Emit32(IrOp::kClz, {a});
  const int value = shift_amount
                        ? Emit32(IrOp::kSelect, {Comparison(Compare::kEq, zeros, Const32(bits)), Const32(~0u), zeros})
                        : Emit32(IrOp::kSub, {Const32(bits - 1), zeros});
  return WriteOf(in, in.operands[0], value, 32);
}

// bmsk: ones from a position on.
absl::Status Translator::FieldMask(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool wrap = modifiers.Take("wrap"), clamp = modifiers.Take("clamp");
  QGPU_RETURN_IF_ERROR(TakeTypeOf(in, modifiers, "b32").status());
  if (wrap == clamp || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(std::vector<int> args, ReadAllOf(in, kWord));
  if (wrap) {
    for (int& arg : args) arg = Emit32(IrOp::kAnd, {arg, Const32(31)});
  }
  const int ones = Emit32(IrOp::kAdd, {Emit32(IrOp::kShl, {Const32(1), args[1]}), Const32(~0u)});
  return WriteOf(in, in.operands[0], Emit32(IrOp::kShl, {ones, args[0]}), 32);
}

// szext: the lowest bits, as many as the second operand says, extended.
absl::Status Translator::ExtendField(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool wrap = modifiers.Take("wrap"), clamp = modifiers.Take("clamp");
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo info, TakeTypeOf(in, modifiers, "u32 s32"));
  if (wrap == clamp || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, info));
  const int count = Emit32(wrap ? IrOp::kAnd : IrOp::kMinU, {args[1], Const32(wrap ? 31 : 32)});
  if (!IsSigned(info)) {
    const int ones = Emit32(IrOp::kAdd, {Emit32(IrOp::kShl, {Const32(1), count}), Const32(~0u)});
    return WriteOf(in, in.operands[0], Emit32(IrOp::kAnd, {args[0], ones}), 32);
  }
  const int up = Emit32(IrOp::kSub, {Const32(32), count});
  return WriteOf(in, in.operands[0], Emit32(IrOp::kSar, {Emit32(IrOp::kShl, {args[0], up}), up}), 32);
}

// ---- counting and searching ----

absl::Status Translator::CountOrReverse(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  QGPU_ASSIGN_OR_RETURN(const ptx::TypeInfo info, TakeTypeOf(in, modifiers, "b32 b64"));
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, ReadOf(in, in.operands[1], info));
  if (info.bits == 32) return WriteOf(in, in.operands[0], Emit32(row.op, {a}), 32);
  const int low = LowHalf(a), high = HighHalf(a);
  if (row.op == IrOp::kBrev) {
    return WriteOf(in, in.operands[0], JoinHalves(Emit32(row.op, {high}), Emit32(row.op, {low})), 64);
  }
  const int count = row.op == IrOp::kClz ? Math().LeadingZeros({low, high})
                                         : Emit32(IrOp::kAdd, {Emit32(row.op, {low}), Emit32(row.op, {high})});
  return WriteOf(in, in.operands[0], count, 32);
}

// fns: the position of the n-th one of a mask, upwards from a base or, where n is negative, downwards. Downwards is
// upwards in the reversed mask. n = 0 asks whether the base itself is one.
absl::Status Translator::FindNthOne(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_RETURN_IF_ERROR(TakeTypeOf(in, modifiers, "b32").status());
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, kWord));
  const int mask = args[0], base = args[1], n = args[2];
  const int down = Comparison(Compare::kLtS, n, Const32(0)), at_base = Comparison(Compare::kEq, n, Const32(0));
  int bits = Emit32(IrOp::kSelect, {down, Emit32(IrOp::kBrev, {mask}), mask});
  const int first = Emit32(IrOp::kSelect, {down, Emit32(IrOp::kSub, {Const32(31), base}), base});
  bits = Emit32(IrOp::kShl, {Emit32(IrOp::kShr, {bits, first}), first});  // a base above 31 leaves nothing
  const int only_base = Emit32(IrOp::kShl, {Const32(1), base});
  bits = Emit32(IrOp::kSelect, {at_base, Emit32(IrOp::kAnd, {mask, only_base}), bits});
  const int count = Emit32(IrOp::kMaxS, {n, Emit32(IrOp::kSub, {Const32(0), n})});
  const int skipped = Emit32(IrOp::kSelect, {at_base, Const32(0), Emit32(IrOp::kAdd, {count, Const32(~0u)})});
  bits = Emit32(IrOp::kDropOnes, {bits, skipped});
  // The lowest one that is left, as the highest of its mirror image.
  const int lowest = Emit32(IrOp::kAnd, {bits, Emit32(IrOp::kSub, {Const32(0), bits})});
  const int upright = Emit32(IrOp::kSelect, {down, Emit32(IrOp::kBrev, {bits}), lowest});
  return WriteOf(in, in.operands[0], Emit32(IrOp::kSub, {Const32(31), Emit32(IrOp::kClz, {upright})}), 32);
}

// ---- bytes ----

// Bytes that keep their distance move together.
int Translator::PermutedByConstant(int a, int b, uint32_t selector) {
  const int sources[] = {a, b};
  int result = Const32(0);
  for (int source = 0; source < 2; ++source) {
    for (int distance = -3; distance <= 3; ++distance) {
      uint32_t mask = 0;
      for (int i = 0; i < 4; ++i) {
        const auto nibble = static_cast<int>(selector >> (4 * i) & 15);
        if (nibble < 8 && nibble / 4 == source && nibble % 4 - i == distance) mask |= 255u << (8 * i);
      }
      if (mask == 0) continue;
      const int moved = Emit32(distance < 0 ? IrOp::kShl : IrOp::kShr,
                               {sources[source], Const32(static_cast<uint32_t>(8 * std::abs(distance)))});
      result = Emit32(IrOp::kOr, {result, Emit32(IrOp::kAnd, {moved, Const32(mask)})});
    }
  }
  for (int from = 8; from < 16; ++from) {  // copies of a byte's sign
    uint32_t mask = 0;
    for (int i = 0; i < 4; ++i) {
      if (static_cast<int>(selector >> (4 * i) & 15) == from) mask |= 255u << (8 * i);
    }
    if (mask == 0) continue;
    const int top = Emit32(IrOp::kShl, {sources[(from - 8) / 4], Const32(static_cast<uint32_t>(24 - 8 * (from % 4)))});
    const int sign = Emit32(IrOp::kSar, {top, Const32(31)});
    result = Emit32(IrOp::kOr, {result, Emit32(IrOp::kAnd, {sign, Const32(mask)})});
  }
  return result;
}

int Translator::ReversedBytes(int value) { return PermutedByConstant(value, value, 0x0123); }

absl::Status Translator::Permute(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_RETURN_IF_ERROR(TakeTypeOf(in, modifiers, "b32").status());
  std::string mode;
  for (const char* name : {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
    if (mode.empty() && modifiers.Take(name)) mode = name;
  }
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAllOf(in, kWord));
  const int a = args[0], b = args[1], c = args[2];
  const auto result = [&](int value) { return WriteOf(in, in.operands[0], value, 32); };
  if (mode.empty()) {
    if (f().IsConstant(c)) return result(PermutedByConstant(a, b, static_cast<uint32_t>(f().at(c).immediate)));
    return result(Emit32(IrOp::kPermute, {a, b, c}));
  }
  // Byte c, or half c, of a.
  const int bits = Emit32(IrOp::kShl, {Emit32(IrOp::kAnd, {c, Const32(3)}), Const32(3)});
  if (mode == "f4e") return result(FunnelShifted(a, b, bits, false));
  if (mode == "b4e") {  // the bytes before byte c, backwards
    return result(ReversedBytes(FunnelShifted(b, a, Emit32(IrOp::kAdd, {bits, Const32(8)}), false)));
  }
  if (mode == "rc16") {
    const int half = Emit32(IrOp::kShr, {a, Emit32(IrOp::kAnd, {Emit32(IrOp::kShl, {c, Const32(4)}), Const32(16)})});
    return result(Emit32(IrOp::kMul, {Emit32(IrOp::kAnd, {half, Const32(0xffff)}), Const32(0x00010001)}));
  }
  const int byte = Emit32(IrOp::kAnd, {Emit32(IrOp::kShr, {a, bits}), Const32(255)});
  const int copies = Emit32(IrOp::kMul, {byte, Const32(0x01010101)});
  if (mode == "rc8") return result(copies);
  // ecl replaces the bytes below byte c by it, ecr those above it: a ^ ((a ^ copies) & mask).
  const int from_c = Emit32(IrOp::kShl, {Const32(~0u), bits});
  const int mask = mode == "ecr" ? from_c : Emit32(IrOp::kXor, {from_c, Const32(~0u)});
  const int change = Emit32(IrOp::kAnd, {Emit32(IrOp::kXor, {a, copies}), mask});
  return result(Emit32(IrOp::kXor, {a, change}));
}

}  // namespace qgpu::lower
