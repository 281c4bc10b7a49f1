// The merged model's tensors, computed row by row from a circuit and a base checkpoint; nothing is kept in memory.
//
// Dense form: the compiled layers, then the base's own, in one uniform Qwen3.5 shape. The residual is the base's H0
// dimensions followed by the circuit's W. What keeps the two apart:
// - Compiled layers have weights on added dimensions only, base layers on base dimensions only.
// - Qwen's RMSNorm averages over H = H0 + W instead of H0: the base's weights are rescaled (text_scaling.h).
// - The uniform shape takes the wider of circuit and base; the rest is zeros. Base heads with shared keys get a copy of
//   the key each.
// - Text tokens carry a tiny value in the circuit's text flag dimension, from which the final norm and the machine rows
//   of the head make a large negative logit. Machine rows are inputs as well where the head is tied: their value there
//   is cleared by one added neuron in the last compiled layer.
//
// Split form: the compiled layers alone, for machine tokens, each as narrow as it is. The base's dimensions are 0 there
// and left out; norm_width() says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/base/checkpoint.h"
#include "model/base/model_shape.h"
#include "model/merge/circuit_rows.h"
#include "model/merge/text_scaling.h"
#include "model/weights/circuit.h"

namespace qgpu {

// The compiled layers alone: vocabulary = machine ids, hidden = W.
class CompiledModel : public TensorSource {
 public:
  // `circuit` must outlive the model and be well formed (what ParseCircuit and the builder give).
  explicit CompiledModel(const Circuit& circuit);

  const ModelShape& shape() const override { return shape_; }
  std::vector<TensorSpec> tensors() const override;
  int64_t norm_width() const override { return circuit_.hidden(); }
  absl::Status ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const override;

 private:
  const Circuit& circuit_;
  ModelShape shape_;
};

// Whether layers narrower than the widest are filled up with zeros, as a checkpoint's one shape needs it, or left as
// they are, which is the same model in less memory and time.
enum class Padding { kUniform, kNone };

// Whether a base of that shape can carry a circuit: kFailedPrecondition, saying why not, where its linear heads are not
// 128 x 128, which the circuit's memory is made of. `name` is what the message calls the base.
absl::Status CheckCarriesCircuit(const ModelShape& base, const std::string& name);

// The dense form.
class MergedModel : public TensorSource {
 public:
  // `circuit` must outlive the model. kInvalidArgument: the circuit was built for another hidden size, or has no
  // constant or no free text flag dimension; kFailedPrecondition: CheckCarriesCircuit. Errors of the base's files.
  static absl::StatusOr<std::unique_ptr<const MergedModel>> Create(const Circuit& circuit,
                                                                   std::shared_ptr<const Checkpoint> base,
                                                                   Padding padding = Padding::kUniform);

  const ModelShape& shape() const override { return shape_; }
  std::vector<TensorSpec> tensors() const override;
  absl::Status ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const override;

  const Checkpoint& base() const { return *base_; }
  int64_t compiled_layers() const { return static_cast<int64_t>(circuit_.layers.size()); }
  const TextScaling& scaling() const { return scaling_; }
  // Token id of machine id 0.
  int64_t first_machine_token() const { return base_->shape().vocabulary; }

 private:
  MergedModel(const Circuit& circuit, std::shared_ptr<const Checkpoint> base, Padding padding);
  int64_t LayerHeads(int64_t layer) const;
  int64_t LayerNeurons(int64_t layer) const;
  absl::Status PlanTextFlag();
  absl::Status ReadVocabularyRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const;
  absl::Status ReadFinalNorm(float* out) const;
  void AddFlagNeuron(const std::string& name, int64_t first_row, int64_t rows, int64_t row_size, float* out) const;
  double BaseScale(ResidualRole role, int64_t base_layer) const;
  absl::Status ReadBaseRows(const TensorSpec& spec, int64_t base_layer, const std::string& name, int64_t first_row,
                            int64_t rows, float* out) const;

  const Circuit& circuit_;
  std::shared_ptr<const Checkpoint> base_;
  Padding padding_;
  ModelShape shape_;
  TextScaling scaling_;
  // Where the circuit leaves the flag to us: the dimension that is 1 after the last layer's norm on machine tokens, and
  // the added neuron; -1 where the circuit's own machine rows hold a flag value.
  int64_t constant_dimension_ = -1, flag_neuron_ = -1;
};

}  // namespace qgpu
