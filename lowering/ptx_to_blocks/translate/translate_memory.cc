// Handlers of memory accesses and addresses. What orders accesses among threads (volatile, acquire, fences) and what
// only hints at caches means nothing to a machine on which every store is seen at once.
#include <utility>

#include "lowering/ptx_to_blocks/translate/translator.h"

namespace qgpu::lower {
namespace {

constexpr std::pair<std::string_view, ptx::Space> kSpaces[] = {
    {"global", ptx::Space::kGlobal},      {"shared", ptx::Space::kShared},    {"shared::cta", ptx::Space::kShared},
    {"local", ptx::Space::kLocal},        {"const", ptx::Space::kConst},      {"param", ptx::Space::kParam},
    {"param::entry", ptx::Space::kParam}, {"param::func", ptx::Space::kParam}};
constexpr std::string_view kOrders[] = {"relaxed", "acquire", "release", "acq_rel"};
constexpr std::string_view kScopes[] = {"cta", "cluster", "gpu", "sys"};
constexpr std::string_view kHints[] = {"weak",
                                       "ca",
                                       "cg",
                                       "cs",
                                       "lu",
                                       "cv",
                                       "wb",
                                       "wt",
                                       "L1::evict_normal",
                                       "L1::evict_unchanged",
                                       "L1::evict_first",
                                       "L1::evict_last",
                                       "L1::no_allocate",
                                       "L2::64B",
                                       "L2::128B",
                                       "L2::256B"};

AccessSpace AccessSpaceOf(const std::optional<ptx::Space>& space) {
  if (space == ptx::Space::kShared) return AccessSpace::kShared;
  if (space == ptx::Space::kLocal) return AccessSpace::kLocal;
  if (space == ptx::Space::kConst) return AccessSpace::kConst;
  if (space == ptx::Space::kParam) return AccessSpace::kParameters;
  return AccessSpace::kAny;
}

}  // namespace

std::optional<ptx::Space> TakeSpace(Modifiers& modifiers) {
  for (const auto& [name, space] : kSpaces) {
    if (modifiers.Take(name)) return space;
  }
  return std::nullopt;
}

void TakeOrder(Modifiers& modifiers) {
  for (const std::string_view order : kOrders) modifiers.Take(order);
  for (const std::string_view scope : kScopes) modifiers.Take(scope);
}

// ---- addresses ----

// The thread's own number, which its local memory is found by.
int Translator::ThreadNumber() {
  if (block_.Count() == 1) return Const32(0);
  return f().Special(Type::kI32, block_.y == 1 && block_.z == 1 ? kSpecialTidX : kSpecialLaneId);
}

absl::StatusOr<int> Translator::AddressOfVariable(const PtxInstruction& in, const Operand& symbol, Type type) {
  const PlacedVariable* variable = layout_.Find(symbol);
  if (variable == nullptr) {
    if (module_.FindFunction(symbol.name) != nullptr) {
      return Unsupported(in, fmt::format("the address of the function {}", symbol.name));
    }
    const ptx::Variable* declared = module_.FindVariable(symbol.name);
    if (declared != nullptr && declared->is_extern) {
      return Unsupported(in, fmt::format("the variable {} is declared here but defined elsewhere", symbol.name));
    }
    return Wrong(in, fmt::format("{} is no variable", symbol.name));
  }
  if (type != Type::kI32 && type != Type::kI64) return Wrong(in, fmt::format("{} is an address", symbol.name));
  const uint64_t address = variable->address + symbol.value;
  if (variable->space != ptx::Space::kLocal) return f().Constant(type, address);
  const int base = Emit32(IrOp::kMul, {ThreadNumber(), Const32(layout_.local_bytes())});
  const int sum = Emit32(IrOp::kAdd, {base, Const32(layout_.local().low + static_cast<uint32_t>(address))});
  return type == Type::kI32 ? sum : Emit(IrOp::kZeroExt, Type::kI64, {sum});
}

// cvta, cvta.to: a generic address is the same number.
absl::Status Translator::ConvertAddress(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  modifiers.Take("to");
  const std::optional<ptx::Space> space = TakeSpace(modifiers);
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  if (!space || !info || !IsInteger(*info) || info->bits < 32 || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *TypeOf(info)));
  return Write(in, in.operands[0], a);
}

int Translator::IsInside(int address, const Window& window) {
  if (window.empty()) return f().Constant(Type::kPredicate, 0);
  const int offset = Emit32(IrOp::kSub, {address, Const32(window.low)});
  return Comparison(Compare::kLtU, offset, Const32(window.high - window.low));
}

// isspacep: what is in none of the others is global.
absl::Status Translator::IsInSpace(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::Space> space = TakeSpace(modifiers);
  if (!space || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  const bool narrow = in.operands[1].kind == OperandKind::kRegister && !IsWideRegister(in.operands[1]);
  QGPU_ASSIGN_OR_RETURN(int address, Read(in, in.operands[1], narrow ? Type::kI32 : Type::kI64));
  if (!narrow) address = Emit32(IrOp::kTruncate, {address});
  const std::pair<ptx::Space, Window> windows[] = {{ptx::Space::kShared, layout_.shared()},
                                                   {ptx::Space::kLocal, layout_.local()},
                                                   {ptx::Space::kConst, layout_.constant()},
                                                   {ptx::Space::kParam, layout_.parameter_copies()}};
  int elsewhere = f().Constant(Type::kPredicate, 0);
  for (const auto& [name, window] : windows) {
    const int inside = IsInside(address, window);
    if (name == space) return Write(in, in.operands[0], inside);
    elsewhere = Emit(IrOp::kPredOr, Type::kPredicate, {elsewhere, inside});
  }
  return Write(in, in.operands[0], Emit(IrOp::kPredNot, Type::kPredicate, {elsewhere}));
}

// The base of an address operand, of 32 or 64 bits, and what is added to it. `*space` becomes that of a variable that
// the address names.
absl::StatusOr<int> Translator::ReadAddress(const PtxInstruction& in, const Operand& operand,
                                            std::optional<ptx::Space>* space, uint64_t* offset) {
  if (operand.kind != OperandKind::kAddress || operand.elements.size() > 1) return Wrong(in, "has no address");
  *offset = operand.value;
  if (operand.elements.empty()) return f().Constant(Type::kI64, 0);
  const Operand& base = operand.elements[0];
  if (base.kind == OperandKind::kSymbol) {
    QGPU_ASSIGN_OR_RETURN(const int address, AddressOfVariable(in, base, Type::kI64));
    const ptx::Space of_variable = layout_.Find(base)->space;
    if (*space && *space != of_variable) {
      return Wrong(in, fmt::format("{} is in {} memory", base.name, ptx::SpaceName(of_variable)));
    }
    *space = of_variable;
    return address;
  }
  if (base.kind != OperandKind::kRegister) return Wrong(in, "has no address");
  const std::optional<ptx::TypeInfo> type = ptx::LookUpType(kernel_.registers[base.index].type);
  if (!type || type->bits < 32) return Wrong(in, "an address has 32 or 64 bits");
  return Read(in, base, type->bits == 64 ? Type::kI64 : Type::kI32);
}

// ---- one access ----

absl::StatusOr<Translator::Access> Translator::TakeAccess(const PtxInstruction& in, bool is_store) {
  Modifiers modifiers(in.modifiers);
  Access access;
  access.is_volatile = modifiers.Take("volatile");
  TakeOrder(modifiers);
  access.declared = TakeSpace(modifiers);
  access.is_constant = !is_store && modifiers.Take("nc");
  for (const std::string_view hint : kHints) modifiers.Take(hint);
  access.elements = modifiers.Take("v2") ? 2 : modifiers.Take("v4") ? 4 : 1;
  const std::optional<ptx::TypeInfo> type = modifiers.TakeType();
  if (!type || !IsInteger(*type) || type->bits > 64 || !modifiers.empty()) return Unsupported(in);
  access.type = *type;
  if (access.Bytes() > 16) return Wrong(in, "accesses more than 16 bytes");
  return access;
}

absl::Status Translator::FinishAccess(const PtxInstruction& in, const Access& access, uint64_t offset, int value) {
  IrInstruction& out = f().at(value);
  out.immediate = offset;
  out.is_volatile = access.is_volatile && out.op == IrOp::kLoad;
  out.space = AccessSpaceOf(access.space);
  out.constant = access.is_constant || out.space == AccessSpace::kConst || out.space == AccessSpace::kParameters;
  const bool writes = out.op != IrOp::kLoad;
  if (writes && (out.space == AccessSpace::kConst || out.space == AccessSpace::kParameters)) {
    return Wrong(in, fmt::format("{} memory is read-only", ptx::SpaceName(*access.space)));
  }
  if (writes && !access.space && !layout_.constant().empty()) out.space = AccessSpace::kNotConst;
  if (!in.guard) return absl::OkStatus();
  QGPU_ASSIGN_OR_RETURN(const int guard, ReadGuard(in));
  f().at(value).guard = guard;
  f().at(value).negate = in.guard->negated;
  return absl::OkStatus();
}

bool Translator::IsWideRegister(const Operand& operand) const {
  return operand.kind == OperandKind::kRegister &&
         TypeOf(ptx::LookUpType(kernel_.registers[operand.index].type)) == Type::kI64;
}

// A load may write a register that is wider than what it loads.
absl::Status Translator::WriteLoaded(const PtxInstruction& in, const Operand& target, int value,
                                     const ptx::TypeInfo& type) {
  if (target.kind == OperandKind::kSink) return absl::OkStatus();
  if (IsWideRegister(target) && f().at(value).type == Type::kI32) {
    value = Emit(type.kind == TypeKind::kSigned ? IrOp::kSignExt : IrOp::kZeroExt, Type::kI64, {value});
  }
  return Write(in, target, value);
}

int Translator::JoinHalves(int low, int high) {
  const int up = Emit(IrOp::kShl, Type::kI64, {Emit(IrOp::kZeroExt, Type::kI64, {high}), Const32(32)});
  return Emit(IrOp::kOr, Type::kI64, {Emit(IrOp::kZeroExt, Type::kI64, {low}), up});
}

// The words that hold what is loaded: the first byte of an access of 1 or 2 bytes is bit 0 of words[0].
absl::StatusOr<std::vector<int>> Translator::LoadWords(const PtxInstruction& in, Access access,
                                                       const Operand& operand) {
  access.space = access.declared;
  uint64_t offset = 0;
  QGPU_ASSIGN_OR_RETURN(int base, ReadAddress(in, operand, &access.space, &offset));
  const uint32_t bytes = access.Bytes();
  int bit = -1;
  if (bytes < 4) {
    // The lowest address bit of a 16-bit access stays, so that a misaligned one traps.
    const Type type = f().at(base).type;
    const uint64_t inside = bytes == 1 ? 3 : 2;
    const int address = Emit(IrOp::kAdd, type, {base, f().Constant(type, std::exchange(offset, 0))});
    const int low = type == Type::kI32 ? address : Emit32(IrOp::kTruncate, {address});
    bit = Emit32(IrOp::kShl, {Emit32(IrOp::kAnd, {low, Const32(static_cast<uint32_t>(inside))}), Const32(3)});
    base = Emit(IrOp::kAnd, type, {address, f().Constant(type, ~inside)});
  }
  std::vector<int> words;
  for (uint32_t at = 0; at < bytes; at += 4) {
    const int load = Emit32(IrOp::kLoad, {base});
    QGPU_RETURN_IF_ERROR(FinishAccess(in, access, offset + at, load));
    if (at == 0 && bytes > 4) f().at(load).alignment = static_cast<uint8_t>(bytes);
    words.push_back(bit < 0 ? load : Emit32(IrOp::kShr, {load, bit}));
  }
  return words;
}

// The words of parameters at a fixed place.
absl::StatusOr<std::vector<int>> Translator::ParameterWords(const PtxInstruction& in, const Access& access,
                                                            const Operand& address) {
  const uint64_t offset = address.value + address.elements[0].value;
  const std::string& name = address.elements[0].name;
  const uint32_t bytes = access.Bytes();
  const uint64_t inside = offset % 4;
  if (inside + bytes > 4 && inside != 0) return Unsupported(in, "parameters are read at aligned places only");
  std::vector<int> words;
  for (uint32_t at = 0; at < bytes; at += 4) {
    const int bits = static_cast<int>(8 * (inside + std::min<uint32_t>(bytes - at, 4)));
    QGPU_ASSIGN_OR_RETURN(int word, ParameterWordOf(in, name, offset - inside + at, bits));
    if (inside != 0) word = Emit32(IrOp::kShr, {word, Const32(static_cast<uint32_t>(8 * inside))});
    words.push_back(word);
  }
  return words;
}

absl::Status Translator::Load(const PtxInstruction& in, const Row&) {
  QGPU_ASSIGN_OR_RETURN(const Access access, TakeAccess(in, false));
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  const Operand& address = in.operands[1];
  const bool vector = access.elements > 1;
  if (vector && (in.operands[0].kind != OperandKind::kVector || in.operands[0].elements.size() != access.elements)) {
    return Wrong(in, "the vector has another length");
  }
  const int bits = access.type.bits;
  std::vector<int> words;
  const bool of_parameter = access.declared == ptx::Space::kParam && address.kind == OperandKind::kAddress &&
                            address.elements.size() == 1 && address.elements[0].kind == OperandKind::kSymbol;
  if (of_parameter && bits == 64 && !vector) {
    QGPU_ASSIGN_OR_RETURN(const int value,
                          ParameterWordOf(in, address.elements[0].name, address.value + address.elements[0].value, 64));
    return WriteLoaded(in, in.operands[0], value, access.type);
  }
  if (of_parameter) {
    QGPU_ASSIGN_OR_RETURN(words, ParameterWords(in, access, address));
  } else {
    QGPU_ASSIGN_OR_RETURN(words, LoadWords(in, access, address));
  }
  for (uint32_t i = 0; i < access.elements; ++i) {
    const uint32_t first = i * static_cast<uint32_t>(bits);
    int value = words[first / 32];
    if (bits == 64) value = JoinHalves(value, words[first / 32 + 1]);
    if (first % 32 != 0) value = Emit32(IrOp::kShr, {value, Const32(first % 32)});
    if (bits < 32) value = Extend(value, access.type);
    const Operand& target = vector ? in.operands[0].elements[i] : in.operands[0];
    QGPU_RETURN_IF_ERROR(WriteLoaded(in, target, value, access.type));
  }
  return absl::OkStatus();
}

// The value to be stored, as one or two words; its high bits may mean nothing.
absl::StatusOr<std::vector<int>> Translator::ReadStored(const PtxInstruction& in, const Operand& operand, int bits) {
  const bool wide = bits == 64 || IsWideRegister(operand);  // a narrow store takes a wide register's low bits
  QGPU_ASSIGN_OR_RETURN(const int value, Read(in, operand, wide ? Type::kI64 : Type::kI32));
  if (!wide) return std::vector<int>{value};
  std::vector<int> words = {Emit32(IrOp::kTruncate, {value})};
  if (bits == 64) words.push_back(HighHalf(value));
  return words;
}

int Translator::HighHalf(int value) {
  return Emit32(IrOp::kTruncate, {Emit(IrOp::kShr, Type::kI64, {value, Const32(32)})});
}

absl::Status Translator::Store(const PtxInstruction& in, const Row&) {
  QGPU_ASSIGN_OR_RETURN(Access access, TakeAccess(in, true));
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  const bool vector = access.elements > 1;
  if (vector && (in.operands[1].kind != OperandKind::kVector || in.operands[1].elements.size() != access.elements)) {
    return Wrong(in, "the vector has another length");
  }
  const int bits = access.type.bits;
  const uint32_t bytes = access.Bytes();
  std::vector<int> words((bytes + 3) / 4, Const32(0));
  for (uint32_t i = 0; i < access.elements; ++i) {
    QGPU_ASSIGN_OR_RETURN(const std::vector<int> values,
                          ReadStored(in, vector ? in.operands[1].elements[i] : in.operands[1], bits));
    const uint32_t first = i * static_cast<uint32_t>(bits);
    for (size_t half = 0; half < values.size(); ++half) {
      int value = values[half];
      if (bits < 32) value = Emit32(IrOp::kAnd, {value, Const32((1u << bits) - 1)});
      if (first % 32 != 0) value = Emit32(IrOp::kShl, {value, Const32(first % 32)});
      int& word = words[first / 32 + half];
      word = first % 32 == 0 ? value : Emit32(IrOp::kOr, {word, value});
    }
  }
  access.space = access.declared;
  uint64_t offset = 0;
  QGPU_ASSIGN_OR_RETURN(const int base, ReadAddress(in, in.operands[0], &access.space, &offset));
  for (size_t i = 0; i < words.size(); ++i) {
    const int store = Emit(IrOp::kStore, Type::kNone, {base, words[i]});
    f().at(store).bytes = static_cast<uint8_t>(std::min<uint32_t>(bytes, 4));
    if (i == 0 && bytes > 4) f().at(store).alignment = static_cast<uint8_t>(bytes);
    QGPU_RETURN_IF_ERROR(FinishAccess(in, access, offset + 4 * i, store));
  }
  return absl::OkStatus();
}

}  // namespace qgpu::lower
