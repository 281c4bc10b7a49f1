#include "lowering/ptx_to_blocks/translate/memory_layout.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace qgpu::lower {
namespace {

using ptx::Operand;
using OperandKind = ptx::Operand::Kind;

uint64_t AlignUp(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

std::string At(const LayoutRequest& request, const ptx::Variable& variable) {
  return fmt::format("{}:{}", request.module->name, variable.ptx_line);
}

// A variable of the body may have the name of one of the module.
std::string KeyOf(const Operand& symbol) { return (symbol.index >= 0 ? "body " : "module ") + symbol.name; }

// The symbols that a kernel mentions.
struct Mentions {
  std::set<std::string> variables;   // keys
  std::set<std::string> parameters;  // names of those whose address is taken
};

void Collect(const Operand& operand, bool is_parameter_access, Mentions& mentions) {
  if (operand.kind == OperandKind::kSymbol) {
    mentions.variables.insert(KeyOf(operand));
    if (!is_parameter_access) mentions.parameters.insert(operand.name);
  }
  for (const Operand& element : operand.elements) {
    Collect(element, is_parameter_access && operand.kind == OperandKind::kAddress, mentions);
  }
}

Mentions MentionsOf(const ptx::Function& kernel) {
  Mentions mentions;
  for (const ptx::Instruction& in : kernel.instructions) {
    const bool reads_parameters = in.opcode == "ld" && !in.modifiers.empty() && in.modifiers[0].starts_with("param");
    for (const Operand& operand : in.operands) Collect(operand, reads_parameters, mentions);
  }
  return mentions;
}

// The bits of an initialiser.
uint64_t InitialBits(const Operand& value, int bits) {
  if (value.kind != OperandKind::kFloat || !value.is_double || bits != 32) return value.value;
  double number;
  std::memcpy(&number, &value.value, sizeof number);
  const auto single = static_cast<float>(number);
  uint32_t result;
  std::memcpy(&result, &single, sizeof result);
  return result;
}

}  // namespace

MemoryLayout::RegionIndex MemoryLayout::RegionOf(ptx::Space space) {
  switch (space) {
    case ptx::Space::kShared:
      return kShared;
    case ptx::Space::kConst:
      return kConstant;
    case ptx::Space::kLocal:
      return kLocal;
    case ptx::Space::kParam:
    case ptx::Space::kReg:
      return kParameters;
    case ptx::Space::kGlobal:
      break;
  }
  return kGlobal;
}

void MemoryLayout::Append(const std::string& key, const ptx::Variable& variable, RegionIndex index) {
  Region& region = regions_[index];
  const auto alignment = static_cast<uint64_t>(std::max(1, variable.Align()));
  const uint64_t offset = AlignUp(region.bytes, alignment);
  region.alignment = std::max(region.alignment, alignment);
  region.bytes = std::min<uint64_t>(offset + variable.Bytes(), uint64_t{1} << 40);
  variables_[key] = {variable.space, static_cast<uint32_t>(std::min<uint64_t>(offset, ~0u)), variable.Bytes()};
}

void MemoryLayout::AddByte(RegionIndex region, uint64_t offset, uint8_t byte) {
  if (byte != 0) content_[{region, offset}] = byte;
}

absl::Status MemoryLayout::AddContent(const LayoutRequest& request, const ptx::Variable& variable,
                                      const std::string& key) {
  const auto type = ptx::LookUpType(variable.type);
  if (variable.initializers.empty() || !type) return absl::OkStatus();
  const RegionIndex region = RegionOf(variable.space);
  if (region != kGlobal && region != kConstant) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} cannot have an initial value", At(request, variable), variable.name));
  }
  const auto bytes = static_cast<uint64_t>(std::max(1, type->bits / 8));
  for (const ptx::Initializer& initializer : variable.initializers) {
    if (initializer.value.kind == OperandKind::kSymbol) {
      return absl::UnimplementedError(
          fmt::format("{}: {} holds the address of {}: not supported by the machine's lowering: pointers in memory",
                      At(request, variable), variable.name, initializer.value.name));
    }
    const uint64_t offset = initializer.element * bytes;
    if (initializer.element >= variable.Bytes() / bytes) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} has more initial values than elements", At(request, variable), variable.name));
    }
    const uint64_t bits = InitialBits(initializer.value, type->bits);
    for (uint64_t i = 0; i < std::min<uint64_t>(bytes, 8); ++i) {
      AddByte(region, variables_.at(key).address + offset + i, static_cast<uint8_t>(bits >> (8 * i)));
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryLayout::AppendVariable(const LayoutRequest& request, const ptx::Variable& variable,
                                          const std::string& key) {
  if (variable.is_extern) return absl::OkStatus();  // dynamic shared memory, or found missing where it is used
  Append(key, variable, RegionOf(variable.space));
  if (regions_[RegionOf(variable.space)].bytes > uint64_t{4} * request.memory_words) return absl::OkStatus();
  return AddContent(request, variable, key);
}

absl::Status MemoryLayout::DoesNotFit(uint64_t words) const {
  std::string parts = fmt::format("arena {}", arena_words_);
  for (int i = 0; i < kRegions; ++i) {
    const uint64_t bytes = regions_[i].bytes;
    if (bytes != 0) parts += fmt::format(", {} {}", regions_[i].name, (bytes + 3) / 4);
  }
  if (scratch_words_ != 0) parts += fmt::format(", scratch {}", scratch_words_);
  return absl::InvalidArgumentError(
      fmt::format("needs {} words: {}; the memory holds {} (word 0 is never given out)", words, parts, memory_words_));
}

absl::Status MemoryLayout::Place(const LayoutRequest& request) {
  local_bytes_ =
      static_cast<uint32_t>(AlignUp(std::min<uint64_t>(regions_[kLocal].bytes, 1 << 20), regions_[kLocal].alignment));
  regions_[kLocal].bytes =
      std::min<uint64_t>(AlignUp(regions_[kLocal].bytes, regions_[kLocal].alignment), 1 << 30) * request.threads;
  int64_t free_end = int64_t{4} * memory_words_;
  for (Region& region : regions_) {
    if (region.bytes == 0) continue;
    const auto alignment = static_cast<int64_t>(region.alignment);
    free_end -= static_cast<int64_t>(region.bytes);
    free_end -= ((free_end % alignment) + alignment) % alignment;
    if (free_end >= 0) {
      region.window = {static_cast<uint32_t>(free_end),
                       static_cast<uint32_t>(free_end) + static_cast<uint32_t>(region.bytes)};
    }
  }
  if (free_end < int64_t{4} * arena_words_) {
    return DoesNotFit(static_cast<uint64_t>(arena_words_ + memory_words_ - (free_end >> 2)));
  }
  free_end_ = static_cast<uint32_t>(free_end) / 4 * 4;
  for (auto& [key, variable] : variables_) {
    if (variable.space != ptx::Space::kLocal) variable.address += regions_[RegionOf(variable.space)].window.low;
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryLayout> MemoryLayout::Create(const LayoutRequest& request) {
  MemoryLayout layout;
  layout.arena_words_ = request.arena_words;
  layout.memory_words_ = request.memory_words;
  const Mentions mentions = MentionsOf(*request.kernel);
  for (const ptx::Variable& variable : request.kernel->variables) {
    const std::string key = "body " + variable.name;
    if (variable.space == ptx::Space::kParam || !mentions.variables.contains(key)) continue;
    QGPU_RETURN_IF_ERROR(layout.AppendVariable(request, variable, key));
  }
  for (const ptx::Variable& variable : request.module->variables) {
    const std::string key = "module " + variable.name;
    if (!mentions.variables.contains(key)) continue;
    QGPU_RETURN_IF_ERROR(layout.AppendVariable(request, variable, key));
  }
  uint32_t dynamic_bytes = 0;  // of no use where nothing names them
  layout.dynamic_shared_bytes_ = request.dynamic_shared_bytes;
  for (const ptx::Variable& variable : request.module->variables) {  // dynamic arrays all begin at the same place
    const std::string key = "module " + variable.name;
    if (!variable.is_extern || variable.space != ptx::Space::kShared || !mentions.variables.contains(key)) continue;
    Region& shared = layout.regions_[kShared];
    const auto alignment = static_cast<uint64_t>(std::max(4, variable.Align()));
    shared.alignment = std::max(shared.alignment, alignment);
    shared.bytes = AlignUp(shared.bytes, shared.alignment);
    dynamic_bytes = request.dynamic_shared_bytes;
  }
  const auto dynamic = static_cast<uint32_t>(std::min<uint64_t>(layout.regions_[kShared].bytes, ~0u));
  for (const ptx::Variable& variable : request.module->variables) {
    const std::string key = "module " + variable.name;
    if (!variable.is_extern || variable.space != ptx::Space::kShared || !mentions.variables.contains(key)) continue;
    layout.variables_[key] = {ptx::Space::kShared, dynamic, request.dynamic_shared_bytes};
  }
  layout.regions_[kShared].bytes += dynamic_bytes;
  for (size_t i = 0; i < request.kernel->parameters.size(); ++i) {
    const ptx::Variable& parameter = request.kernel->parameters[i];
    if (!mentions.parameters.contains(parameter.name) || request.parameters == nullptr) continue;
    const std::string key = "module " + parameter.name;
    layout.Append(key, parameter, kParameters);
    const std::vector<uint8_t>& content = (*request.parameters)[i];
    for (size_t b = 0; b < content.size(); ++b) {
      layout.AddByte(kParameters, layout.variables_[key].address + b, content[b]);
    }
  }
  QGPU_RETURN_IF_ERROR(layout.Place(request));
  return layout;
}

const PlacedVariable* MemoryLayout::Find(const Operand& symbol) const {
  const auto found = variables_.find(KeyOf(symbol));
  return found == variables_.end() ? nullptr : &found->second;
}

absl::StatusOr<uint32_t> MemoryLayout::TakeScratchWords(uint32_t words) {
  scratch_words_ += words;
  const uint64_t free = free_words();
  if (words > free) return DoesNotFit(memory_words_ + (words - free));
  free_end_ -= 4 * words;
  return free_end_;
}

void MemoryLayout::WriteInitialContent(std::vector<uint32_t>* memory) const {
  for (const auto& [place, byte] : content_) {
    const uint64_t address = regions_[place.first].window.low + place.second;
    if (memory->size() <= address / 4) memory->resize(address / 4 + 1);
    (*memory)[address / 4] |= uint32_t{byte} << (8 * (address % 4));
  }
}

}  // namespace qgpu::lower
