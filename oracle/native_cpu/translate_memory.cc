// Loads, stores, atomics and address conversions. Every access asks the runtime for a host address first; only the
// parameter space is reached directly, with bounds known here.
#include <algorithm>
#include <cstddef>

#include "oracle/native_cpu/translator.h"

namespace qgpu::native {
namespace {

constexpr char kMemoryTypes[] = "b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64";
constexpr char kScopes[] = "cta cluster gpu sys";

bool IsLevelHint(std::string_view word) {
  return word == "L1::evict_normal" || word == "L1::evict_unchanged" || word == "L1::evict_first" ||
         word == "L1::evict_last" || word == "L1::no_allocate" || word == "L2::64B" || word == "L2::128B" ||
         word == "L2::256B";
}

}  // namespace

bool FunctionTranslator::TakeSpace(MemorySpace* space) {
  static constexpr std::pair<std::string_view, MemorySpace> kSpaces[] = {
      {"global", MemorySpace::kGlobal},      {"shared", MemorySpace::kShared},    {"shared::cta", MemorySpace::kShared},
      {"local", MemorySpace::kLocal},        {"const", MemorySpace::kConst},      {"param", MemorySpace::kParam},
      {"param::entry", MemorySpace::kParam}, {"param::func", MemorySpace::kParam}};
  for (const auto& [name, value] : kSpaces) {
    if (!Take(name)) continue;
    *space = value;
    return true;
  }
  return false;
}

// Everything between "ld" and its operands: ordering, space, cache hints, vector length, type. One run is sequentially
// consistent anyway, so ordering and hints say nothing more.
absl::StatusOr<FunctionTranslator::Access> FunctionTranslator::TakeAccess(bool is_store) {
  Access access;
  const std::string_view ordering =
      TakeOneOf(is_store ? "weak volatile relaxed release" : "weak volatile relaxed acquire");
  if (ordering == "relaxed" || ordering == "release" || ordering == "acquire") {
    if (TakeOneOf(kScopes).empty()) return Unsupported();
  }
  TakeSpace(&access.space);
  TakeOneOf(is_store ? "wb cg cs wt" : "ca cg cs lu cv nc");
  if (!is_store) Take("nc");
  while (cursor_ < instruction_->modifiers.size() && IsLevelHint(instruction_->modifiers[cursor_])) ++cursor_;
  const std::string_view vector = TakeOneOf("v2 v4");
  access.elements = vector.empty() ? 1 : vector == "v2" ? 2 : 4;
  access.type = TakeOneOf(kMemoryTypes);
  if (access.type.empty()) return Unsupported();
  return access;
}

// Host address of `bytes` bytes at a PTX address; the thread ends there when it may not be accessed.
absl::StatusOr<llvm::Value*> FunctionTranslator::HostAddress(const ptx::Operand& address, MemorySpace space,
                                                             uint32_t bytes, bool is_store) {
  if (address.kind != ptx::Operand::Kind::kAddress || address.elements.size() > 1) return Malformed("no address");
  Value ptx_address = Const(64, address.value);
  const ptx::Operand* base = address.elements.empty() ? nullptr : &address.elements[0];
  if (base != nullptr && base->kind == ptx::Operand::Kind::kSymbol) {
    const VariablePlace* place = unit_->layout->FindVariable(function_, *base);
    if (place == nullptr) return Unsupported(fmt::format("the variable {}", base->name));
    if (space != MemorySpace::kGeneric && space != place->space) {
      return Malformed(fmt::format("{} is in another state space", base->name));
    }
    space = place->space;
    if (space == MemorySpace::kParam) {
      if (address.value > place->bytes || bytes > place->bytes - address.value) {
        return Malformed(fmt::format("{} has {} bytes", base->name, place->bytes));
      }
      Value param = builder_.CreateLoad(builder_.getPtrTy(), FieldAddress(offsetof(ThreadContext, param)));
      return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), param, place->address + address.value);
    }
    ptx_address = Const(64, place->address + address.value);
  } else if (base != nullptr) {
    QGPU_ASSIGN_OR_RETURN(Value value, ReadRegister(*base));
    const uint32_t width = value->getType()->getIntegerBitWidth();
    if (width != 32 && width != 64) return Malformed("an address has 32 or 64 bits");
    ptx_address = Resize(builder_.CreateAdd(value, Const(width, address.value)), 64, false);
  }
  Value host = CallHost("AccessMemory", 0,
                        {out_->getArg(0), Const(32, static_cast<uint64_t>(space)), ptx_address, Const(32, bytes),
                         Const(32, is_store), Const(32, InstructionId())});
  llvm::BasicBlock* go_on = NewBlock("go_on");
  builder_.CreateCondBr(builder_.CreateIsNull(host), end_block_, go_on);
  builder_.SetInsertPoint(go_on);
  return host;
}

absl::Status FunctionTranslator::Ld() {
  QGPU_ASSIGN_OR_RETURN(const Access access, TakeAccess(false));
  QGPU_RETURN_IF_ERROR(Finish(2));
  const auto type = *ptx::LookUpType(access.type);
  const auto bits = static_cast<uint32_t>(type.bits), bytes = bits / 8;
  if (access.elements > 1 && In(0).elements.size() != access.elements)
    return Malformed("the vector has another length");
  QGPU_ASSIGN_OR_RETURN(Value host, HostAddress(In(1), access.space, bytes * access.elements, false));
  std::vector<Value> values;
  for (uint32_t i = 0; i < access.elements; ++i) {
    Value element = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), host, i * bytes);
    values.push_back(builder_.CreateAlignedLoad(Int(bits), element, llvm::Align(1)));
  }
  for (uint32_t i = 0; i < access.elements; ++i) {
    const ptx::Operand& target = access.elements == 1 ? In(0) : In(0).elements[i];
    QGPU_RETURN_IF_ERROR(WriteExtended(target, values[i], type.kind == ptx::TypeInfo::Kind::kSigned));
  }
  return absl::OkStatus();
}

absl::Status FunctionTranslator::St() {
  QGPU_ASSIGN_OR_RETURN(const Access access, TakeAccess(true));
  QGPU_RETURN_IF_ERROR(Finish(2));
  const auto bits = static_cast<uint32_t>(ptx::LookUpType(access.type)->bits), bytes = bits / 8;
  if (access.elements > 1 && In(1).elements.size() != access.elements)
    return Malformed("the vector has another length");
  std::vector<Value> values;
  for (uint32_t i = 0; i < access.elements; ++i) {
    QGPU_ASSIGN_OR_RETURN(Value value, ReadAtLeast(access.elements == 1 ? In(1) : In(1).elements[i], bits));
    values.push_back(value);
  }
  QGPU_ASSIGN_OR_RETURN(Value host, HostAddress(In(0), access.space, bytes * access.elements, true));
  for (uint32_t i = 0; i < access.elements; ++i) {
    Value element = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), host, i * bytes);
    builder_.CreateAlignedStore(values[i], element, llvm::Align(1));
  }
  return absl::OkStatus();
}

absl::Status FunctionTranslator::Atom() { return Atomic(true); }
absl::Status FunctionTranslator::Red() { return Atomic(false); }

// Threads take turns only where compiled code calls back, so load, compute, store is atomic.
absl::Status FunctionTranslator::Atomic(bool has_result) {
  const std::string_view ordering = TakeOneOf(has_result ? "relaxed acquire release acq_rel" : "relaxed release");
  const std::string_view scope = TakeOneOf(kScopes);
  MemorySpace space = MemorySpace::kGeneric;
  TakeSpace(&space);
  if (!ordering.empty() && scope.empty()) TakeOneOf(kScopes);
  const std::string_view operation =
      TakeOneOf(has_result ? "and or xor cas exch add inc dec min max" : "and or xor add inc dec min max");
  if (operation.empty()) return Unsupported();
  const bool is_order = operation == "min" || operation == "max", is_cas = operation == "cas";
  const bool is_step = operation == "inc" || operation == "dec";
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType(is_order             ? "u32 s32 u64 s64"
                                                         : is_step            ? "u32"
                                                         : operation == "add" ? "u32 s32 u64 s64"
                                                         : is_cas             ? "b16 b32 b64"
                                                                              : "b32 b64"));
  const size_t first = has_result ? 2 : 1;
  QGPU_RETURN_IF_ERROR(Finish(first + (is_cas ? 2 : 1)));
  QGPU_ASSIGN_OR_RETURN(Value host, HostAddress(In(first - 1), space, type.bits / 8, true));
  Value old = builder_.CreateAlignedLoad(Int(type.bits), host, llvm::Align(1));
  QGPU_ASSIGN_OR_RETURN(Value result, AtomicResult(operation, type, old, first));
  builder_.CreateAlignedStore(result, host, llvm::Align(1));
  return has_result ? Write(In(0), old) : absl::OkStatus();
}

absl::StatusOr<llvm::Value*> FunctionTranslator::AtomicResult(std::string_view operation, const IntegerType& type,
                                                              Value old, size_t first_operand) {
  QGPU_ASSIGN_OR_RETURN(Value b, Read(In(first_operand), type.bits));
  Value zero = Const(type.bits, 0), one = Const(type.bits, 1);
  if (operation == "add") return builder_.CreateAdd(old, b);
  if (operation == "exch") return b;
  if (operation == "cas") {
    QGPU_ASSIGN_OR_RETURN(Value c, Read(In(first_operand + 1), type.bits));
    return builder_.CreateSelect(builder_.CreateICmpEQ(old, b), c, old);
  }
  if (operation == "inc") {  // old >= b ? 0 : old + 1
    return builder_.CreateSelect(builder_.CreateICmpUGE(old, b), zero, builder_.CreateAdd(old, one));
  }
  if (operation == "dec") {  // old == 0 || old > b ? b : old - 1
    Value wraps = builder_.CreateOr(builder_.CreateICmpEQ(old, zero), builder_.CreateICmpUGT(old, b));
    return builder_.CreateSelect(wraps, b, builder_.CreateSub(old, one));
  }
  if (operation == "min" || operation == "max") {
    Value less = type.is_signed ? builder_.CreateICmpSLT(old, b) : builder_.CreateICmpULT(old, b);
    return operation == "min" ? builder_.CreateSelect(less, old, b) : builder_.CreateSelect(less, b, old);
  }
  return Combine(operation, old, b);
}

// cvta.space.u64 generic, address;  cvta.to.space.u64 address, generic;
absl::Status FunctionTranslator::Cvta() {
  const bool to_space = Take("to");
  MemorySpace space = MemorySpace::kGeneric;
  if (!TakeSpace(&space)) return Unsupported();
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("u32 u64"));
  QGPU_RETURN_IF_ERROR(Finish(2));
  const ptx::Operand& source = In(1);
  if (source.kind == ptx::Operand::Kind::kSymbol) {
    const VariablePlace* place = unit_->layout->FindVariable(function_, source);
    if (place != nullptr && place->space != space) return Malformed(source.name + " is in another state space");
  }
  QGPU_ASSIGN_OR_RETURN(Value address, Read(source, type.bits));
  Value window = Const(type.bits, WindowOf(space));
  return Write(In(0), to_space ? builder_.CreateSub(address, window) : builder_.CreateAdd(address, window));
}

// isspacep.space p, a;  windows are in ascending order, each ends where the next begins.
absl::Status FunctionTranslator::Isspacep() {
  static constexpr std::pair<MemorySpace, uint64_t> kEnds[] = {{MemorySpace::kGlobal, kSharedWindow},
                                                               {MemorySpace::kShared, kLocalWindow},
                                                               {MemorySpace::kLocal, kConstWindow},
                                                               {MemorySpace::kConst, kParamWindow},
                                                               {MemorySpace::kParam, uint64_t{1} << 32}};
  MemorySpace space = MemorySpace::kGeneric;
  if (!TakeSpace(&space)) return Unsupported();
  QGPU_RETURN_IF_ERROR(Finish(2));
  QGPU_ASSIGN_OR_RETURN(Value address, In(1).kind == ptx::Operand::Kind::kRegister
                                           ? ReadRegister(In(1))
                                           : Read(In(1), static_cast<uint32_t>(unit_->module->address_size)));
  address = Resize(address, 64, false);
  for (const auto& [name, end] : kEnds) {
    if (name != space) continue;
    Value from = builder_.CreateICmpUGE(address, Const(64, WindowOf(space)));
    return Write(In(0), builder_.CreateAnd(from, builder_.CreateICmpULT(address, Const(64, end))));
  }
  return Unsupported();
}

}  // namespace qgpu::native
