#include "proto/convert.h"

#include <algorithm>

#include "proto/limits.h"

namespace qgpu {
namespace {

constexpr int kRegisters = 16;
constexpr int kRegisterWords = kWarps * kLanes * kRegisters;

}  // namespace

v1::ProgramInfo ToMessage(const ProgramDescription& description) {
  v1::ProgramInfo message;
  message.set_program(description.program);
  message.set_version(description.version);
  message.set_commit(description.commit);
  message.set_build_type(description.build_type);
  v1::MachineInfo* machine = message.mutable_machine();
  machine->set_name(description.host.name);
  machine->set_operating_system(description.host.operating_system);
  machine->set_processor(description.host.processor);
  machine->set_logical_processors(description.host.logical_processors);
  machine->set_accelerator(description.host.accelerator);
  return message;
}

ProgramDescription FromMessage(const v1::ProgramInfo& message) {
  const v1::MachineInfo& machine = message.machine();
  return {message.program(),
          message.version(),
          message.commit(),
          message.build_type(),
          {machine.name(), machine.operating_system(), machine.processor(), machine.logical_processors(),
           machine.accelerator()}};
}

v1::MachineImage ToMessage(const MachineState& state) {
  v1::MachineImage message;
  message.mutable_memory()->Add(state.memory.begin(), state.memory.end());
  message.mutable_registers()->Reserve(kRegisterWords);
  for (const auto& warp : state.registers) {
    for (const auto& lane : warp) message.mutable_registers()->Add(lane.begin(), lane.end());
  }
  return message;
}

absl::StatusOr<MachineState> FromMessage(const v1::MachineImage& message, size_t memory_words) {
  if (static_cast<size_t>(message.memory_size()) != memory_words || message.registers_size() != kRegisterWords) {
    return absl::InvalidArgumentError(
        fmt::format("a machine image of {} memory words and {} registers, expected {} and {}", message.memory_size(),
                    message.registers_size(), memory_words, kRegisterWords));
  }
  MachineState state;
  state.memory.assign(message.memory().begin(), message.memory().end());
  int next = 0;
  for (auto& warp : state.registers) {
    for (auto& lane : warp) {
      for (uint32_t& word : lane) word = message.registers(next++);
    }
  }
  return state;
}

v1::Tokens ToMessage(std::span<const int32_t> ids) {
  v1::Tokens message;
  message.mutable_ids()->Add(ids.begin(), ids.end());
  return message;
}

absl::Status AppendTokens(const v1::Tokens& message, bool text_allowed, size_t limit, std::vector<int32_t>& ids) {
  if (ids.size() + message.ids_size() > limit) {
    return absl::InvalidArgumentError(fmt::format("more than {} tokens", limit));
  }
  const int vocabulary = MachineVocabularySize();
  for (int32_t id : message.ids()) {
    if (id >= vocabulary || (id < 0 && !text_allowed)) {
      return absl::InvalidArgumentError(fmt::format("{} is no machine id; there are {}", id, vocabulary));
    }
    ids.push_back(id);
  }
  return absl::OkStatus();
}

v1::OracleRunRequest ToMessage(const LaunchSpec& spec, int64_t time_limit_ms) {
  v1::OracleRunRequest request;
  request.set_source_name(spec.source.name);
  request.set_language(spec.source.language == SourceLanguage::kCuda ? v1::SOURCE_LANGUAGE_CUDA
                                                                     : v1::SOURCE_LANGUAGE_PTX);
  request.set_source(spec.source.text);
  request.set_launch_json(LaunchSpecToJson(spec));
  request.set_time_limit_ms(static_cast<uint32_t>(time_limit_ms));
  return request;
}

absl::StatusOr<LaunchSpec> FromMessage(const v1::OracleRunRequest& request) {
  if (request.source().size() > kMaxSourceBytes) {
    return absl::InvalidArgumentError(fmt::format("{}: a source of {} bytes, the limit is {}", request.source_name(),
                                                  request.source().size(), kMaxSourceBytes));
  }
  if (request.launch_json().size() > kMaxLaunchJsonBytes) {
    return absl::InvalidArgumentError(fmt::format("a launch description of {} bytes, the limit is {}",
                                                  request.launch_json().size(), kMaxLaunchJsonBytes));
  }
  if (request.language() != v1::SOURCE_LANGUAGE_CUDA && request.language() != v1::SOURCE_LANGUAGE_PTX) {
    return absl::InvalidArgumentError("the request names no source language that is known here");
  }
  QGPU_ASSIGN_OR_RETURN(LaunchSpec spec, LaunchSpecFromJson(request.launch_json()));
  spec.source.name = request.source_name();
  spec.source.text = request.source();
  spec.source.language = request.language() == v1::SOURCE_LANGUAGE_CUDA ? SourceLanguage::kCuda : SourceLanguage::kPtx;
  return spec;
}

void ForEachChunk(std::span<const int32_t> ids, const std::function<bool(std::span<const int32_t>)>& send) {
  while (!ids.empty()) {
    const size_t count = std::min(ids.size(), kChunkTokens);
    if (!send(ids.first(count))) return;
    ids = ids.subspan(count);
  }
}

}  // namespace qgpu
