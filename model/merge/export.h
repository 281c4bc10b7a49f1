// The dense merged model as a Hugging Face checkpoint: loads in the public transformers library with no code of ours,
// where greedy generation from a launch's prompt writes the launch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/status.h"
#include "model/forward/executor.h"
#include "model/weights/circuit.h"

namespace qgpu {

struct ExportOptions {
  DataType type = DataType::kFloat32;  // float32 or bfloat16
  uint64_t shard_bytes = uint64_t{1} << 30;
  // The text of a machine id in the tokenizer; TokenText of machine/isa/token.h when empty.
  std::function<std::string(int32_t machine_id)> token_text;
  // Id whose token ends a generation beside the base's own end tokens; DONE of the machine when negative.
  int32_t done_id = -1;
  // Called after each tensor with the bytes written and the bytes in all.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// Merges the circuit with the checkpoint in `base_directory` and writes into `out_directory`: config.json, sharded
// model-*.safetensors with their index (or one model.safetensors), tokenizer.json with the machine's tokens added,
// the base's other tokenizer files, generation_config.json, and qgpu_manifest.json with the size and SHA-256 of every
// file and the circuit's hash. Memory: a few blocks of 16 MiB. Everything is written into a directory beside it and
// renamed when complete, so `out_directory` never looks whole when it is not. kAlreadyExists if it is there already;
// kInvalidArgument for float16 and for a base or tokenizer.json that cannot be merged; errors of the file system.
absl::Status ExportDense(const Circuit& circuit, const std::string& base_directory, const std::string& out_directory,
                         const ExportOptions& options = {});

// A base's tokenizer.json with one special token added for every text, ids from `first_id` on. kInvalidArgument when it
// is not a BPE tokenizer file, or one of the ids or texts is taken.
absl::StatusOr<std::string> AddTokens(const std::string& tokenizer_json, int64_t first_id,
                                      const std::vector<std::string>& texts);

}  // namespace qgpu
