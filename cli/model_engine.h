// The model as an engine: a circuit file, an executor, a form and a data type.
#pragma once

#include <memory>

#include "cli/engines.h"
#include "model/forward/executor.h"

namespace qgpu {

// The launch in the model's forward passes, checked where the options ask for it.
absl::StatusOr<LaunchResult> RunModel(const PreparedLaunch& launch, const LoweredKernel& lowered,
                                      const EngineOptions& options);

// A machine's run as a result: arena, end and message.
LaunchResult ResultOfMachine(const PreparedLaunch& launch, const LoweredKernel& lowered, MachineRun run);

}  // namespace qgpu
