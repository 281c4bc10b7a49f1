// Writes a checkpoint of Qwen3.5-2B's shape with seeded random weights, for benchmarks: 3.8 GB in bfloat16. Tensors are
// drawn and written in blocks, so it needs little memory.
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "common/exit_code.h"
#include "model/base/random_base.h"

namespace qgpu {
namespace {

ModelShape Qwen2BShape(int layers) {
  ModelShape shape;
  shape.vocabulary = 248320;
  shape.hidden = 2048;
  shape.intermediate = 6144;
  for (int i = 0; i < layers; ++i) {
    shape.layers.push_back(i % 4 == 3 ? LayerType::kFullAttention : LayerType::kLinearAttention);
  }
  shape.attention_heads = 8;
  shape.kv_heads = 2;
  shape.head_dim = 256;
  shape.rope_theta = 1e7;
  shape.linear_key_heads = 16;
  shape.linear_value_heads = 16;
  shape.linear_key_dim = 128;
  shape.linear_value_dim = 128;
  shape.tied_head = true;
  return shape;
}

}  // namespace
}  // namespace qgpu

int main(int argc, char** argv) {
  std::string out, type = "bfloat16";
  int layers = 24;
  uint64_t seed = 1;
  CLI::App app("Writes a checkpoint of Qwen3.5-2B's shape with random weights");
  app.add_option("--out", out, "Directory to write, created if need be")->required();
  app.add_option("--layers", layers, "Fewer for less memory")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--dtype", type, "bfloat16 or float32")
      ->capture_default_str()
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--seed", seed, "Seed of the weights")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status =
      qgpu::WriteRandomBase(out, qgpu::Qwen2BShape(layers), seed,
                            type == "float32" ? qgpu::StoredType::kFloat32 : qgpu::StoredType::kBFloat16);
  if (status.ok()) return qgpu::kExitGood;
  std::fprintf(stderr, "random_checkpoint: %s\n", std::string(status.message()).c_str());
  return qgpu::ExitCodeFor(status);
}
