// The real LaunchRunner: a circuit, an executor of it, and what model/launch does with the two.
#pragma once

#include <memory>
#include <string>

#include "worker/launch_runner.h"

namespace qgpu {

struct ModelOptions {
  std::string circuit;                // path
  std::string executor = "sparse";    // "sparse", "torch"
  std::string form = "split";         // "split", "dense" (torch only)
  std::string data_type = "float32";  // "float32", "bfloat16"
  std::string base;                   // dense: folder of the base model
  std::string device = "cpu";         // torch: "cpu", "cuda", "mps"
};

// Reads and checks the circuit, makes the executor. kInvalidArgument naming layer and tensor for a broken file,
// kFailedPrecondition for another version or for what this build does not have, kNotFound for no file.
absl::StatusOr<std::unique_ptr<LaunchRunner>> MakeModelRunner(const ModelOptions& options);

}  // namespace qgpu
