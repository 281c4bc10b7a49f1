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
  // Called after each block of weights with the bytes that are written and the bytes in all.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// Merges the circuit with the checkpoint in `base_directory` and writes into `out_directory`: config.json, sharded
// model-*.safetensors with their index (or one model.safetensors), the base's tokenizer files where it has any with the
// machine's tokens added, generation_config.json, and qgpu_manifest.json with the size and SHA-256 of every file and
// the circuit's hash. Memory: a few blocks of 16 MiB, and the tokenizer.
//
// Everything is made in `<out_directory>.partial`, where config.json comes last, and renamed when complete: nothing
// that is half-written looks whole. After an interruption or a full disk the shards that are complete stay there, and
// the same export takes them up again (they are hashed once more); a failure before the first leaves nothing.
//
// kAlreadyExists if it is there already; kFailedPrecondition, keeping nothing, where the base's files change meanwhile;
// kInvalidArgument for float16 and for a base or tokenizer file that cannot be merged; kResourceExhausted when the disk
// is or would be full; other errors of the file system and of PartialFolder.
absl::Status ExportDense(const Circuit& circuit, const std::string& base_directory, const std::string& out_directory,
                         const ExportOptions& options = {});

}  // namespace qgpu
