#include "lowering/ptx/ptx.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace qgpu::ptx {
namespace {

template <typename T>
const T* FindByName(const std::vector<T>& items, std::string_view name) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const T& item) { return item.name == name; });
  return found == items.end() ? nullptr : &*found;
}

std::string Join(const std::vector<Operand>& operands, std::string_view separator) {
  std::string text;
  for (const Operand& operand : operands) {
    if (!text.empty()) text += separator;
    text += ToString(operand);
  }
  return text;
}

std::string WithOffset(std::string base, uint64_t offset) {
  const auto value = static_cast<int64_t>(offset);
  if (base.empty()) return fmt::format("{}", value);
  if (value == 0) return base;
  return fmt::format("{}{}{}", base, value < 0 ? "" : "+", value);
}

// The name as written in CUDA, without the return type of templates and without parameters.
std::string CudaName(const std::string& ptx_name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(ptx_name.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || demangled == nullptr) return ptx_name;
  const std::string name = demangled.get();
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.compare(i, kAnonymous.size(), kAnonymous) == 0) i += kAnonymous.size();
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth == 0 && name[i] == ' ') start = i + 1;
    if (depth == 0 && name[i] == '(') return name.substr(start, i - start);
  }
  return name;
}

std::string LastPart(const std::string& cuda_name) {
  const size_t arguments = std::min(cuda_name.find('<'), cuda_name.size());
  const size_t scope = cuda_name.rfind("::", arguments);
  return scope == std::string::npos ? cuda_name : cuda_name.substr(scope + 2);
}

}  // namespace

std::optional<TypeInfo> LookUpType(std::string_view type) {
  using Kind = TypeInfo::Kind;
  static constexpr struct {
    std::string_view name;
    TypeInfo info;
  } kTypes[] = {
      {"u8", {Kind::kUnsigned, 8}},   {"u16", {Kind::kUnsigned, 16}}, {"u32", {Kind::kUnsigned, 32}},
      {"u64", {Kind::kUnsigned, 64}}, {"s8", {Kind::kSigned, 8}},     {"s16", {Kind::kSigned, 16}},
      {"s32", {Kind::kSigned, 32}},   {"s64", {Kind::kSigned, 64}},   {"b8", {Kind::kBits, 8}},
      {"b16", {Kind::kBits, 16}},     {"b32", {Kind::kBits, 32}},     {"b64", {Kind::kBits, 64}},
      {"b128", {Kind::kBits, 128}},   {"f16", {Kind::kFloat, 16}},    {"bf16", {Kind::kFloat, 16}},
      {"f16x2", {Kind::kFloat, 32}},  {"bf16x2", {Kind::kFloat, 32}}, {"tf32", {Kind::kFloat, 32}},
      {"f32", {Kind::kFloat, 32}},    {"f64", {Kind::kFloat, 64}},    {"pred", {Kind::kPredicate, 1}},
  };
  for (const auto& entry : kTypes) {
    if (entry.name == type) return entry.info;
  }
  return std::nullopt;
}

std::string_view SpaceName(Space space) {
  switch (space) {
    case Space::kReg:
      return "reg";
    case Space::kGlobal:
      return "global";
    case Space::kShared:
      return "shared";
    case Space::kConst:
      return "const";
    case Space::kLocal:
      return "local";
    case Space::kParam:
      return "param";
  }
  return "";
}

bool Instruction::Has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::string Instruction::FullName() const {
  std::string name = opcode;
  for (const std::string& modifier : modifiers) name += fmt::format(".{}", modifier);
  return name;
}

uint64_t Variable::Elements() const {
  uint64_t count = 1;
  for (uint64_t dimension : dimensions) count *= dimension;
  return count;
}

// Types that are not fundamental (.texref, ...) are 64-bit handles.
static uint64_t ElementBytes(const Variable& variable) {
  const std::optional<TypeInfo> type = LookUpType(variable.type);
  return (type ? static_cast<uint64_t>(std::max(1, type->bits / 8)) : 8) * static_cast<uint64_t>(variable.vector);
}

uint64_t Variable::Bytes() const { return Elements() * ElementBytes(*this); }

int Variable::Align() const { return alignment != 0 ? alignment : static_cast<int>(ElementBytes(*this)); }

const Variable* Function::FindVariable(std::string_view variable) const { return FindByName(variables, variable); }

const Variable* Function::FindParameter(std::string_view parameter) const {
  const Variable* found = FindByName(parameters, parameter);
  return found != nullptr ? found : FindByName(return_parameters, parameter);
}

const Function* Module::FindFunction(std::string_view function) const { return FindByName(functions, function); }

const Variable* Module::FindVariable(std::string_view variable) const { return FindByName(variables, variable); }

uint32_t WidestBufferAccess(const Module& module) {
  uint32_t widest = 4;
  for (const Function& function : module.functions) {
    for (const Instruction& in : function.instructions) {
      static constexpr std::string_view kAccesses[] = {"ld", "ldu", "st", "atom", "red"};
      if (std::find(std::begin(kAccesses), std::end(kAccesses), in.opcode) == std::end(kAccesses)) continue;
      uint32_t bits = 0, elements = 1;
      bool other_space = false;
      for (const std::string& modifier : in.modifiers) {
        if (const auto type = LookUpType(modifier)) bits = static_cast<uint32_t>(type->bits);
        if (modifier == "v2") elements = 2;
        if (modifier == "v4") elements = 4;
        const std::string space = modifier.substr(0, modifier.find(':'));
        other_space = other_space || space == "shared" || space == "local" || space == "const" || space == "param";
      }
      if (!other_space) widest = std::max(widest, bits / 8 * elements);
    }
  }
  return std::min<uint32_t>(widest, 16);
}

std::string Module::FileName(int number) const {
  for (const File& file : files) {
    if (file.number == number) return file.path.substr(file.path.rfind('/') + 1);
  }
  return "";
}

absl::StatusOr<const Function*> FindKernel(const Module& module, const std::string& name) {
  std::string names;
  std::vector<const Function*> matches;
  for (const Function& function : module.functions) {
    if (!function.is_entry || function.is_declaration) continue;
    const std::string cuda_name = CudaName(function.name);
    if (name == function.name) return &function;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", cuda_name);
    if (name.empty() || name == cuda_name || name == LastPart(cuda_name)) matches.push_back(&function);
  }
  if (matches.size() == 1) return matches[0];
  if (names.empty()) return absl::InvalidArgumentError(fmt::format("{}:1: there is no kernel", module.name));
  if (!name.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}:1: {} kernel is called {}; there are: {}", module.name,
                                                  matches.empty() ? "no" : "more than one", name, names));
  }
  return absl::InvalidArgumentError(fmt::format("{}:1: there is more than one kernel: {}", module.name, names));
}

std::string ToString(const Operand& operand) {
  using Kind = Operand::Kind;
  const std::string sign = operand.negated ? "!" : "";
  switch (operand.kind) {
    case Kind::kRegister:
    case Kind::kSpecial:
      return fmt::format("{}{}{}{}", sign, operand.name, operand.component.empty() ? "" : ".", operand.component);
    case Kind::kSymbol:
      return sign + WithOffset(operand.name, operand.value);
    case Kind::kLabel:
    case Kind::kTargets:
      return operand.name;
    case Kind::kInteger:
      if (operand.is_unsigned) return fmt::format("{}", operand.value);
      return fmt::format("{}", static_cast<int64_t>(operand.value));
    case Kind::kFloat:
      return operand.is_double ? fmt::format("0d{:016x}", operand.value) : fmt::format("0f{:08x}", operand.value);
    case Kind::kAddress: {
      if (operand.elements.size() > 1) return fmt::format("[{}]", Join(operand.elements, ", "));
      std::string base;
      if (!operand.elements.empty()) base = ToString(operand.elements[0]);
      return fmt::format("[{}]", WithOffset(base, operand.value));
    }
    case Kind::kVector:
      return fmt::format("{{{}}}", Join(operand.elements, ", "));
    case Kind::kPair:
      return Join(operand.elements, "|");
    case Kind::kSink:
      return "_";
    case Kind::kList:
      return fmt::format("({})", Join(operand.elements, ", "));
  }
  return "";
}

std::string ToString(const Instruction& instruction) {
  std::string text;
  if (instruction.guard) text = fmt::format("@{} ", ToString(*instruction.guard));
  text += instruction.FullName();
  if (!instruction.operands.empty()) text += fmt::format(" {}", Join(instruction.operands, ", "));
  return text + ";";
}

std::string Place(const Module& module, const SourceLocation& location) {
  if (location.cuda_line == 0) return fmt::format("{}:{}", module.name, location.ptx_line);
  const std::string file = module.files.size() > 1 ? module.FileName(location.cuda_file) : "";
  return fmt::format("{}:{} (CUDA line {}{})", module.name, location.ptx_line, location.cuda_line,
                     file.empty() ? "" : " of " + file);
}

}  // namespace qgpu::ptx
