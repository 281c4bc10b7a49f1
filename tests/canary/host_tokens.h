// The way back from the host's tokens to the launch, written from docs/formats/isa.md's token table. A canary that
// wants to cheat convincingly has to know what the right answer is.
#pragma once

#include <span>

#include "machine/isa/machine_launch.h"

namespace qgpu {

// A launch whose HostTokens are `host_ids`, up to origins, trailing zero words and empty blocks. kInvalidArgument for
// tokens that are no host's.
absl::StatusOr<MachineLaunch> LaunchFromHostTokens(std::span<const int32_t> host_ids);

}  // namespace qgpu
