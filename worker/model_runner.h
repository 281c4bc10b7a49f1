// The real worker: a circuit, an executor of it and what model/launch does with the two; in builds with libtorch also a
// base model for text.
#pragma once

#include <memory>
#include <string>

#include "worker/launch_runner.h"
#include "worker/text_host.h"

namespace qgpu {

struct ModelOptions {
  std::string circuit;                // path
  bool circuit_is_given = false;      // else it is the default one, for the embedded base
  std::string executor = "sparse";    // "sparse", "torch"
  std::string form = "split";         // "split", "dense" (torch only)
  std::string data_type = "float32";  // "float32", "bfloat16"
  std::string base;                   // folder of the base model; empty: the embedded one
  std::string device = "cpu";         // torch: "cpu", "cuda", "mps"
};

struct ModelHost {
  std::unique_ptr<LaunchRunner> launches;
  std::unique_ptr<TextHost> text;  // null:
  std::string no_text;             // why not
};

// Reads and checks the circuit, or builds one where a base is named and no circuit; makes the executor. A base that is
// named is checked now (its files, its tokenizer, whether it can carry the circuit), but models for text are loaded
// when they are first needed. Without a base named, the embedded one is not even looked at before that; no text where
// the circuit is for another width. kInvalidArgument and kFailedPrecondition, with the reason, for a broken circuit or
// base, the two not fitting, or what this build does not have; kNotFound for no file.
absl::StatusOr<ModelHost> MakeModelHost(const ModelOptions& options);

}  // namespace qgpu
