// Between the messages and the project's own types. Everything that comes from the wire is checked here.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"
#include "machine/isa/machine_launch.h"
#include "proto/host_info.h"
#include "qgpu/v1/launch.pb.h"
#include "qgpu/v1/oracle.pb.h"

namespace qgpu {

v1::ProgramInfo ToMessage(const ProgramDescription& description);
ProgramDescription FromMessage(const v1::ProgramInfo& message);

v1::MachineImage ToMessage(const MachineState& state);
// kInvalidArgument if the sizes are not those of the machine (`memory_words` words, 8 x 4 x 16 registers).
absl::StatusOr<MachineState> FromMessage(const v1::MachineImage& message, size_t memory_words);

v1::Tokens ToMessage(std::span<const int32_t> ids);
// Appends to `ids`. kInvalidArgument for an id that is none (negative ones are text ids and taken only where
// `text_allowed`), or if there would be more than `limit`.
absl::Status AppendTokens(const v1::Tokens& message, bool text_allowed, size_t limit, std::vector<int32_t>& ids);

v1::OracleRunRequest ToMessage(const LaunchSpec& spec, int64_t time_limit_ms);
// kInvalidArgument for a request beyond the limits or a bad launch description.
absl::StatusOr<LaunchSpec> FromMessage(const v1::OracleRunRequest& request);

// Calls `send` for pieces of at most kChunkTokens; stops when it returns false.
void ForEachChunk(std::span<const int32_t> ids, const std::function<bool(std::span<const int32_t>)>& send);

}  // namespace qgpu
