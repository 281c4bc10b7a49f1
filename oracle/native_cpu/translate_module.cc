// Which functions a kernel needs, where its variables lie, and the LLVM module that holds it all.
#include <algorithm>
#include <cstring>

#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "oracle/native_cpu/scalar_ops.h"
#include "oracle/native_cpu/translator.h"

namespace qgpu::native {
namespace {

constexpr size_t kMaxInstructions = 100'000;
constexpr size_t kStackBytesPerInstruction = 256;  // every value of an instruction in a slot of its own
constexpr size_t kStackBytesPerRegister = 16;

std::string At(const ptx::Module& module, int line) { return fmt::format("{}:{}", module.name, line); }

uint64_t AlignUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// The kernel and all functions it reaches, callers before what they call first.
class CallGraph {
 public:
  explicit CallGraph(const ptx::Module& module) : module_(module) {}

  // Depth first without recursion of our own: PTX decides how deep calls go.
  absl::StatusOr<std::vector<const ptx::Function*>> Reach(const ptx::Function& kernel) {
    struct Frame {
      const ptx::Function* function;
      size_t next = 0;
    };
    std::vector<Frame> stack = {{&kernel}};
    std::unordered_map<const ptx::Function*, bool> is_open = {{&kernel, true}};
    std::vector<const ptx::Function*> reached = {&kernel};
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.function->instructions.size()) {
        is_open[frame.function] = false;
        stack.pop_back();
        continue;
      }
      const ptx::Instruction& instruction = frame.function->instructions[frame.next++];
      const ptx::Function* callee = Callee(instruction);
      if (callee == nullptr) continue;
      const auto [known, is_new] = is_open.try_emplace(callee, true);
      if (!is_new && known->second) {
        return absl::UnimplementedError(fmt::format("{}: unsupported instruction `{}`: needs recursion",
                                                    Place(module_, instruction.location), ToString(instruction)));
      }
      if (!is_new) continue;
      reached.push_back(callee);
      stack.push_back({callee});
    }
    return reached;
  }

 private:
  const ptx::Function* Callee(const ptx::Instruction& instruction) const {
    if (instruction.opcode != "call") return nullptr;
    for (const ptx::Operand& operand : instruction.operands) {
      if (operand.kind != ptx::Operand::Kind::kSymbol) continue;
      const ptx::Function* callee = module_.FindFunction(operand.name);
      return callee == nullptr || callee->is_declaration || callee->is_entry ? nullptr : callee;
    }
    return nullptr;
  }

  const ptx::Module& module_;
};

MemorySpace SpaceOf(ptx::Space space) {
  switch (space) {
    case ptx::Space::kShared:
      return MemorySpace::kShared;
    case ptx::Space::kConst:
      return MemorySpace::kConst;
    case ptx::Space::kLocal:
      return MemorySpace::kLocal;
    case ptx::Space::kParam:
    case ptx::Space::kReg:
      return MemorySpace::kParam;
    case ptx::Space::kGlobal:
      break;
  }
  return MemorySpace::kGlobal;
}

}  // namespace

// Takes room for `variable` at the end of its state space.
absl::StatusOr<VariablePlace> MemoryLayout::Reserve(const ptx::Module& module, const ptx::Variable& variable) {
  VariablePlace place = {SpaceOf(variable.space), 0, variable.Bytes()};
  const auto alignment = static_cast<uint64_t>(variable.Align());
  const auto take = [&](uint64_t size, uint64_t limit) -> absl::StatusOr<uint32_t> {
    place.address = AlignUp(size, alignment);
    if (place.address + place.bytes <= limit) return static_cast<uint32_t>(place.address + place.bytes);
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} does not fit: its .{} space would take {} bytes, the limit is {}", At(module, variable.ptx_line),
        variable.name, ptx::SpaceName(variable.space), place.address + place.bytes, limit));
  };
  if (place.space == MemorySpace::kShared) {
    QGPU_ASSIGN_OR_RETURN(footprint_.shared_bytes, take(footprint_.shared_bytes, kMaxSharedBytes));
  } else if (place.space == MemorySpace::kLocal) {
    QGPU_ASSIGN_OR_RETURN(footprint_.local_bytes, take(footprint_.local_bytes, kMaxLocalBytes));
  } else if (place.space == MemorySpace::kParam) {
    QGPU_ASSIGN_OR_RETURN(footprint_.param_bytes, take(footprint_.param_bytes, kMaxConstBytes));
  } else {
    const bool is_const = place.space == MemorySpace::kConst;
    std::vector<uint8_t>& bytes = is_const ? footprint_.const_variables : footprint_.global_variables;
    QGPU_ASSIGN_OR_RETURN(const uint32_t size, take(bytes.size(), is_const ? kMaxConstBytes : kMaxGlobalVariableBytes));
    bytes.resize(size);
    if (!is_const) place.address += kGlobalVariableBase;
  }
  return place;
}

absl::Status MemoryLayout::AddModuleVariables(const ptx::Module& module) {
  for (const ptx::Variable& variable : module.variables) {
    if (variable.is_extern) continue;  // placed by PlaceDynamicShared, or refused where it is used
    QGPU_ASSIGN_OR_RETURN(module_variables_[variable.name], Reserve(module, variable));
  }
  return absl::OkStatus();
}

absl::Status MemoryLayout::AddFunction(const ptx::Module& module, const ptx::Function& function) {
  for (const std::vector<ptx::Variable>* parameters : {&function.parameters, &function.return_parameters}) {
    for (const ptx::Variable& parameter : *parameters) {
      QGPU_ASSIGN_OR_RETURN(parameters_[&function][parameter.name], Reserve(module, parameter));
    }
  }
  for (const ptx::Variable& variable : function.variables) {
    QGPU_ASSIGN_OR_RETURN(const VariablePlace place, Reserve(module, variable));
    variables_[&function].push_back(place);
  }
  return absl::OkStatus();
}

// extern .shared arrays all begin where the static variables end.
void MemoryLayout::PlaceDynamicShared(const ptx::Module& module) {
  constexpr uint64_t kDynamicAlignment = 16;
  footprint_.shared_bytes = static_cast<uint32_t>(AlignUp(footprint_.shared_bytes, kDynamicAlignment));
  for (const ptx::Variable& variable : module.variables) {
    if (variable.is_extern && variable.space == ptx::Space::kShared) {
      module_variables_[variable.name] = {MemorySpace::kShared, footprint_.shared_bytes, 0};
    }
  }
}

absl::StatusOr<uint64_t> MemoryLayout::InitialValue(const ptx::Module& module, const ptx::Variable& variable,
                                                    const ptx::Initializer& initializer) const {
  if (initializer.value.kind == ptx::Operand::Kind::kFloat) {
    const bool narrow = ptx::LookUpType(variable.type).value_or(ptx::TypeInfo{}).bits == 32;
    if (!initializer.value.is_double || !narrow) return initializer.value.value;
    double value;
    std::memcpy(&value, &initializer.value.value, sizeof value);
    const auto single = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    return uint64_t{bits};
  }
  if (initializer.value.kind != ptx::Operand::Kind::kSymbol) return initializer.value.value;
  const auto symbol = module_variables_.find(initializer.value.name);
  if (symbol == module_variables_.end()) {
    return absl::UnimplementedError(fmt::format("{}: {} is initialised with the address of {}, which is no variable",
                                                At(module, variable.ptx_line), variable.name, initializer.value.name));
  }
  const VariablePlace& place = symbol->second;
  uint64_t address = place.address + initializer.value.value;
  if (initializer.generic) address += WindowOf(place.space);
  if (initializer.mask == 0) return address;
  return (address & initializer.mask) >> __builtin_ctzll(initializer.mask);
}

absl::Status MemoryLayout::FillInitializers(const ptx::Module& module) {
  for (const ptx::Variable& variable : module.variables) {
    if (variable.initializers.empty()) continue;
    if (variable.space != ptx::Space::kGlobal && variable.space != ptx::Space::kConst) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} cannot be initialised", At(module, variable.ptx_line), variable.name));
    }
    const auto type = ptx::LookUpType(variable.type);
    if (!type || variable.is_extern) continue;
    const VariablePlace& place = module_variables_.at(variable.name);
    const bool is_const = place.space == MemorySpace::kConst;
    std::vector<uint8_t>& bytes = is_const ? footprint_.const_variables : footprint_.global_variables;
    const uint64_t start = place.address - (is_const ? 0 : kGlobalVariableBase);
    const auto element_bytes = static_cast<uint64_t>(std::max(1, type->bits / 8));
    for (const ptx::Initializer& initializer : variable.initializers) {
      QGPU_ASSIGN_OR_RETURN(const uint64_t value, InitialValue(module, variable, initializer));
      const uint64_t offset = initializer.element * element_bytes;
      if (offset + element_bytes > place.bytes) {
        return absl::InvalidArgumentError(
            fmt::format("{}: too many initialisers for {}", At(module, variable.ptx_line), variable.name));
      }
      std::memcpy(bytes.data() + start + offset, &value, std::min<uint64_t>(element_bytes, sizeof value));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryLayout> MemoryLayout::Create(const ptx::Module& module,
                                                  const std::vector<const ptx::Function*>& functions) {
  MemoryLayout layout;
  for (const ptx::Function* function : functions) QGPU_RETURN_IF_ERROR(layout.AddFunction(module, *function));
  QGPU_RETURN_IF_ERROR(layout.AddModuleVariables(module));
  layout.PlaceDynamicShared(module);
  QGPU_RETURN_IF_ERROR(layout.FillInitializers(module));
  layout.footprint_.param_bytes = static_cast<uint32_t>(AlignUp(layout.footprint_.param_bytes, 16));
  layout.footprint_.local_bytes = static_cast<uint32_t>(AlignUp(layout.footprint_.local_bytes, 16));
  for (const ptx::Function* function : functions) {
    layout.footprint_.stack_bytes +=
        kStackBytesPerInstruction * function->instructions.size() + kStackBytesPerRegister * function->registers.size();
  }
  return layout;
}

const VariablePlace* MemoryLayout::FindVariable(const ptx::Function& function, const ptx::Operand& symbol) const {
  if (symbol.index >= 0) return &variables_.at(&function)[static_cast<size_t>(symbol.index)];
  if (const VariablePlace* parameter = FindParameter(function, symbol.name)) return parameter;
  const auto found = module_variables_.find(symbol.name);
  return found == module_variables_.end() ? nullptr : &found->second;
}

const VariablePlace* MemoryLayout::FindParameter(const ptx::Function& function, const std::string& name) const {
  const auto parameters = parameters_.find(&function);
  if (parameters == parameters_.end()) return nullptr;
  const auto found = parameters->second.find(name);
  return found == parameters->second.end() ? nullptr : &found->second;
}

absl::StatusOr<Translation> Translate(const ptx::Module& module, const ptx::Function& kernel) {
  QGPU_ASSIGN_OR_RETURN(const std::vector<const ptx::Function*> functions, CallGraph(module).Reach(kernel));
  size_t instructions = 0;
  for (const ptx::Function* function : functions) instructions += function->instructions.size();
  if (instructions > kMaxInstructions) {
    return absl::InvalidArgumentError(fmt::format("{}: the kernel {} has {} instructions, the limit is {}", module.name,
                                                  kernel.name, instructions, kMaxInstructions));
  }
  QGPU_ASSIGN_OR_RETURN(const MemoryLayout layout, MemoryLayout::Create(module, functions));

  Translation translation;
  translation.context = std::make_unique<llvm::LLVMContext>();
  translation.module = std::make_unique<llvm::Module>(module.name, *translation.context);
  translation.footprint = layout.footprint();
  for (const ptx::Variable& parameter : kernel.parameters) {
    const VariablePlace* place = layout.FindParameter(kernel, parameter.name);
    translation.parameters.push_back({parameter.name, static_cast<uint32_t>(place->address),
                                      static_cast<uint32_t>(place->bytes), parameter.dimensions.empty()});
  }
  TranslationUnit unit = {&module, &layout, translation.module.get(), {}};
  llvm::Type* pointer = llvm::PointerType::getUnqual(*translation.context);
  llvm::Type* word = llvm::Type::getInt32Ty(*translation.context);
  for (size_t i = 0; i < functions.size(); ++i) {
    llvm::Function* out =
        llvm::Function::Create(llvm::FunctionType::get(word, {pointer}, false), llvm::Function::ExternalLinkage,
                               fmt::format("ptx_function_{}", i), translation.module.get());
    out->addFnAttr("probe-stack", "inline-asm");  // no frame steps over the guard page
    out->addFnAttr(llvm::Attribute::NoUnwind);
    unit.functions[functions[i]->name] = out;
  }
  translation.entry = unit.functions.at(kernel.name)->getName().str();
  for (const ptx::Function* function : functions) {
    const auto first_id = static_cast<uint32_t>(translation.places.size());
    for (const ptx::Instruction& instruction : function->instructions) {
      translation.places.push_back(instruction.location);
    }
    QGPU_RETURN_IF_ERROR(FunctionTranslator(&unit, *function, first_id).Translate());
  }
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  if (llvm::verifyModule(*translation.module, &stream)) {
    return absl::InternalError(fmt::format("native-cpu made invalid LLVM IR of {}: {}", module.name, errors));
  }
  return translation;
}

std::vector<std::pair<std::string, void*>> HostFunctions() {
#define QGPU_HOST_FUNCTION(name) {#name, reinterpret_cast<void*>(&name)}
  return {QGPU_HOST_FUNCTION(AccessMemory),
          QGPU_HOST_FUNCTION(EndOfSlice),
          QGPU_HOST_FUNCTION(WaitAtBarrier),
          QGPU_HOST_FUNCTION(RunWarpOp),
          QGPU_HOST_FUNCTION(RaiseTrap),
          QGPU_HOST_FUNCTION(BitFieldExtract),
          QGPU_HOST_FUNCTION(BitFieldInsert),
          QGPU_HOST_FUNCTION(BitFind),
          QGPU_HOST_FUNCTION(FindNthSet),
          QGPU_HOST_FUNCTION(SignOrZeroExtend),
          QGPU_HOST_FUNCTION(BitMask),
          QGPU_HOST_FUNCTION(Permute),
          QGPU_HOST_FUNCTION(FunnelShift),
          QGPU_HOST_FUNCTION(LogicOp3),
          QGPU_HOST_FUNCTION(DotProduct4),
          QGPU_HOST_FUNCTION(DotProduct2),
          {"memcpy", reinterpret_cast<void*>(&std::memcpy)}};
#undef QGPU_HOST_FUNCTION
}

}  // namespace qgpu::native
