// Handlers of atomic operations, and of what only orders accesses. ExpandMemory makes serial blocks of the former.
#include <algorithm>

#include "lowering/ptx_to_blocks/translate/translator.h"

namespace qgpu::lower {

absl::StatusOr<AtomicOp> Translator::TakeAtomicOp(const PtxInstruction& in, Modifiers& modifiers, ptx::TypeInfo* type) {
  static constexpr struct {
    std::string_view name;
    AtomicOp op, signed_op;
    std::string_view types;
  } kOperations[] = {{"add", AtomicOp::kAdd, AtomicOp::kAdd, "u32 s32 u64 s64"},
                     {"min", AtomicOp::kMinU, AtomicOp::kMinS, "u32 s32 u64 s64"},
                     {"max", AtomicOp::kMaxU, AtomicOp::kMaxS, "u32 s32 u64 s64"},
                     {"and", AtomicOp::kAnd, AtomicOp::kAnd, "b32 b64"},
                     {"or", AtomicOp::kOr, AtomicOp::kOr, "b32 b64"},
                     {"xor", AtomicOp::kXor, AtomicOp::kXor, "b32 b64"},
                     {"exch", AtomicOp::kExchange, AtomicOp::kExchange, "b32 b64"},
                     {"cas", AtomicOp::kCompareSwap, AtomicOp::kCompareSwap, "b16 b32 b64"},
                     {"inc", AtomicOp::kInc, AtomicOp::kInc, "u32"},
                     {"dec", AtomicOp::kDec, AtomicOp::kDec, "u32"}};
  for (const auto& operation : kOperations) {
    if (!modifiers.Take(operation.name)) continue;
    for (const std::string& modifier : in.modifiers) {
      if (!ptx::LookUpType(modifier)) continue;
      if (operation.types.find(modifier) == std::string_view::npos || !modifiers.Take(modifier)) break;
      *type = *ptx::LookUpType(modifier);
      return type->kind == TypeKind::kSigned ? operation.signed_op : operation.op;
    }
    return Unsupported(in);
  }
  return Unsupported(in);
}

// atom, and red, which is the same without a result.
absl::Status Translator::Atomic(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool has_result = in.opcode == "atom";
  Access access;
  TakeOrder(modifiers);
  access.space = TakeSpace(modifiers);
  if (access.space && *access.space != ptx::Space::kGlobal && *access.space != ptx::Space::kShared) {
    return Wrong(in, "atomic operations are for global and shared memory");
  }
  QGPU_ASSIGN_OR_RETURN(const AtomicOp op, TakeAtomicOp(in, modifiers, &access.type));
  const bool swaps = op == AtomicOp::kCompareSwap || op == AtomicOp::kExchange;
  if (!modifiers.empty() || (swaps && !has_result)) return Unsupported(in);
  const size_t first = has_result ? 1 : 0;
  QGPU_RETURN_IF_ERROR(Expect(in, first + (op == AtomicOp::kCompareSwap ? 3 : 2)));
  uint64_t offset = 0;
  QGPU_ASSIGN_OR_RETURN(const int base, ReadAddress(in, in.operands[first], &access.space, &offset));
  const Type type = access.type.bits == 64 ? Type::kI64 : Type::kI32;
  std::vector<int> args = {base};
  for (size_t i = first + 1; i < in.operands.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(int value, Read(in, in.operands[i], type));
    args.push_back(value);
  }
  const int old = Emit(IrOp::kAtomic, type, std::move(args));
  f().at(old).atomic = op;
  f().at(old).bytes = static_cast<uint8_t>(access.type.bits / 8);
  f().at(old).alignment = static_cast<uint8_t>(std::max(4, access.type.bits / 8));
  QGPU_RETURN_IF_ERROR(FinishAccess(in, access, offset, old));
  return has_result ? Write(in, in.operands[0], old) : absl::OkStatus();
}

// What orders accesses or fetches ahead.
absl::Status Translator::Nothing(const PtxInstruction& in, const Row&) {
  static constexpr std::string_view kKnown[] = {"cta",
                                                "gl",
                                                "gpu",
                                                "sys",
                                                "cluster",
                                                "sc",
                                                "acq_rel",
                                                "acquire",
                                                "release",
                                                "global",
                                                "local",
                                                "L1",
                                                "L2",
                                                "L2::evict_last",
                                                "L2::evict_normal"};
  Modifiers modifiers(in.modifiers);
  for (const std::string_view word : kKnown) modifiers.Take(word);
  return modifiers.empty() ? absl::OkStatus() : Unsupported(in);
}

}  // namespace qgpu::lower
