#include "model/merge/base_build.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "model/base/inspect.h"
#include "model/merge/merged_model.h"
#include "model/weights/build_circuit.h"

namespace qgpu {
namespace {

std::string Widened(int64_t from, int64_t to) {
  return from == to ? fmt::format("{}", to) : fmt::format("{} (the base's {}, padded)", to, from);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Checkpoint>> OpenBase(const std::string& directory) {
  QGPU_ASSIGN_OR_RETURN(std::shared_ptr<const Checkpoint> base, Checkpoint::Open(directory));
  QGPU_RETURN_IF_ERROR(CheckCarriesCircuit(base->shape(), directory));
  std::error_code error;
  if (std::filesystem::exists(directory + "/qgpu_manifest.json", error)) {
    return absl::FailedPreconditionError(
        fmt::format("{} is a merged model already (qgpu_manifest.json); give the base it was made of", directory));
  }
  return base;
}

absl::StatusOr<BaseBuild> BuildForBase(const std::string& directory) {
  BaseBuild build;
  QGPU_ASSIGN_OR_RETURN(build.base, OpenBase(directory));
  QGPU_ASSIGN_OR_RETURN(BuiltCircuit built, BuildCircuit(static_cast<int>(build.base->shape().hidden)));
  build.built = std::make_shared<const BuiltCircuit>(std::move(built));
  build.circuit = std::shared_ptr<const Circuit>(build.built, &build.built->circuit);
  QGPU_ASSIGN_OR_RETURN(const auto merged, MergedModel::Create(*build.circuit, build.base));
  build.dense = merged->shape();
  return build;
}

std::string DescribeDenseForm(const BaseBuild& build) {
  const ModelShape &base = build.base->shape(), &dense = build.dense;
  const uint64_t parameters = CountParameters(dense);
  const auto gigabytes = [](uint64_t bytes) { return static_cast<double>(bytes) * 1e-9; };
  std::string text;
  text += fmt::format("base                 hidden {}, {} layers, vocabulary {}, {} M parameters\n", base.hidden,
                      base.layers.size(), base.vocabulary, CountParameters(base) / 1'000'000);
  text += fmt::format(
      "dense form           hidden {}, {} layers, vocabulary {}, head {}\n", dense.hidden, dense.layers.size(),
      dense.vocabulary,
      dense.tied_head ? "tied to the embedding" : (base.tied_head ? "of its own (the base's is tied)" : "of its own"));
  text += fmt::format("  linear heads       {}\n", Widened(base.linear_value_heads, dense.linear_value_heads));
  text += fmt::format("  MLP width          {}\n", Widened(base.intermediate, dense.intermediate));
  text += fmt::format("  parameters         {} M: {:.1f} GB in bfloat16, {:.1f} GB in float32\n",
                      parameters / 1'000'000, gigabytes(2 * parameters), gigabytes(4 * parameters));
  text += "split form           the base untouched, and the circuit file\n";
  if (std::find(base.layers.begin(), base.layers.end(), LayerType::kFullAttention) == base.layers.end()) {
    text += "note                 no full attention layer: transformers' cache needs one to generate\n";
  }
  return text;
}

}  // namespace qgpu
