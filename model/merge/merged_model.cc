#include "model/merge/merged_model.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "common/check.h"
#include "model/merge/circuit_rows.h"

namespace qgpu {
namespace {

// On text: logit of a machine row = -kTextFlag * kMachineFlag * kFlagNorm / rms = -4096 / rms, where rms is that of the
// last residual in the merged model, at most twice the base's. All are powers of two, exact in bfloat16. The square of
// the text flag is 1e-8, spread over H dimensions; the machine's is 64 beside constants of 65536 H; and a tied text row
// adds 2^-13 * 2^-13 * 2^22 / rms = 0.06 / rms to all text logits alike.
constexpr float kTextFlag = 0x1p-13f;
constexpr float kMachineFlag = 8;
constexpr float kFlagNorm = 0x1p22f;

int64_t MachineIds(const Circuit& circuit) { return circuit.embedding.rows; }

bool HasColumn(const SparseMatrix& matrix, int64_t col) {
  return std::find(matrix.col.begin(), matrix.col.end(), col) != matrix.col.end();
}
bool HasRow(const SparseMatrix& matrix, int64_t row) {
  return std::find(matrix.row.begin(), matrix.row.end(), row) != matrix.row.end();
}

// The layer's own part of a tensor name ("mlp.up_proj.weight") and its number; -1 for tensors outside the layers.
std::string LayerPart(const std::string& name, int64_t& layer) {
  layer = -1;
  if (!name.starts_with("layers.")) return name;
  const size_t dot = name.find('.', 7);
  layer = std::stoll(name.substr(7, dot - 7));
  return name.substr(dot + 1);
}

void ReadVector(const std::vector<float>& from, int64_t first, int64_t count, float* out) {
  std::copy_n(from.begin() + first, count, out);
}

// Gives a layer's tensor the extents of a layer with so many linear heads (keys not shared) and neurons.
void Narrow(TensorSpec& spec, const std::string& name, int64_t heads, int64_t neurons) {
  const int64_t channels = heads * kHeadDim;
  if (name == "linear_attn.in_proj_qkv.weight" || name == "linear_attn.conv1d.weight") spec.dims[0] = 3 * channels;
  if (name == "linear_attn.in_proj_z.weight") spec.dims[0] = channels;
  if (name == "linear_attn.in_proj_b.weight" || name == "linear_attn.in_proj_a.weight" ||
      name == "linear_attn.dt_bias" || name == "linear_attn.A_log") {
    spec.dims[0] = heads;
  }
  if (name == "linear_attn.out_proj.weight") spec.dims[1] = channels;
  if (name == "mlp.gate_proj.weight" || name == "mlp.up_proj.weight") spec.dims[0] = neurons;
  if (name == "mlp.down_proj.weight") spec.dims[1] = neurons;
}

}  // namespace

CompiledModel::CompiledModel(const Circuit& circuit) : circuit_(circuit) {
  shape_.vocabulary = MachineIds(circuit);
  shape_.hidden = circuit.width;
  shape_.layers.assign(circuit.layers.size(), LayerType::kLinearAttention);
  for (const CircuitLayer& layer : circuit.layers) {
    shape_.linear_value_heads = std::max<int64_t>(shape_.linear_value_heads, layer.heads);
    shape_.intermediate = std::max<int64_t>(shape_.intermediate, layer.neurons);
  }
  shape_.linear_key_heads = shape_.linear_value_heads;
  shape_.linear_key_dim = shape_.linear_value_dim = kHeadDim;
  shape_.norm_eps = circuit.norm_eps;
  shape_.tied_head = true;
}

std::vector<TensorSpec> CompiledModel::tensors() const {
  std::vector<TensorSpec> specs = ModelTensors(shape_);
  for (TensorSpec& spec : specs) {
    int64_t index;
    const std::string name = LayerPart(spec.name, index);
    if (index >= 0) Narrow(spec, name, circuit_.layers[index].heads, circuit_.layers[index].neurons);
  }
  return specs;
}

absl::Status CompiledModel::ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const {
  int64_t index;
  const std::string name = LayerPart(spec.name, index);
  if (name == "embed_tokens.weight") {
    std::fill_n(out, rows * spec.row_size(), 0.0f);
    ScatterRows(circuit_.embedding, 0, 0, {first_row, rows, spec.row_size(), out});
  } else if (name == "norm.weight") {
    ReadVector(circuit_.final_norm, first_row, rows, out);
  } else {
    const CircuitLayer& layer = circuit_.layers[index];
    ReadCircuitRows(layer, {.hidden_offset = 0, .heads = layer.heads}, name, {first_row, rows, spec.row_size(), out});
  }
  return absl::OkStatus();
}

absl::Status CheckCarriesCircuit(const ModelShape& base, const std::string& name) {
  if (base.linear_key_dim == kHeadDim && base.linear_value_dim == kHeadDim) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "the linear attention heads of {} are {} x {} (linear_key_head_dim, linear_value_head_dim); a compiled "
      "layer is one of the same model, and the circuit's memory needs heads of {} x {}",
      name, base.linear_key_dim, base.linear_value_dim, kHeadDim, kHeadDim));
}

MergedModel::MergedModel(const Circuit& circuit, std::shared_ptr<const Checkpoint> base, Padding padding)
    : circuit_(circuit), base_(std::move(base)), padding_(padding), shape_(base_->shape()) {
  const ModelShape& small = base_->shape();
  shape_.vocabulary = small.vocabulary + MachineIds(circuit);
  shape_.hidden = circuit.hidden();
  shape_.layers.assign(circuit.layers.size(), LayerType::kLinearAttention);
  shape_.layers.insert(shape_.layers.end(), small.layers.begin(), small.layers.end());
  for (const CircuitLayer& layer : circuit.layers) {
    shape_.linear_value_heads = std::max<int64_t>(shape_.linear_value_heads, layer.heads);
    shape_.intermediate = std::max<int64_t>(shape_.intermediate, layer.neurons);
  }
  shape_.linear_key_heads = shape_.linear_value_heads;
}

absl::StatusOr<std::unique_ptr<const MergedModel>> MergedModel::Create(const Circuit& circuit,
                                                                       std::shared_ptr<const Checkpoint> base,
                                                                       Padding padding) {
  const ModelShape& shape = base->shape();
  if (circuit.layers.empty()) return absl::InvalidArgumentError("the circuit has no layers");
  if (circuit.base_hidden != shape.hidden) {
    return absl::InvalidArgumentError(fmt::format(
        "the circuit was built for a base of hidden size {}, {} has {}; qgpu build --base makes the one for it",
        circuit.base_hidden, base->directory(), shape.hidden));
  }
  QGPU_RETURN_IF_ERROR(CheckCarriesCircuit(shape, base->directory()));
  std::unique_ptr<MergedModel> model(new MergedModel(circuit, std::move(base), padding));
  QGPU_RETURN_IF_ERROR(model->PlanTextFlag());
  QGPU_ASSIGN_OR_RETURN(model->scaling_,
                        PlanTextScaling(circuit, *model->base_, kTextFlag, model->constant_dimension_));
  model->shape_.tied_head = !model->scaling_.has_own_head;
  return model;
}

// The clearing neuron's gate needs a dimension that is exactly 1 after the last layer's norm on every machine token:
// one that all machine rows hold alike and no layer writes.
absl::Status MergedModel::PlanTextFlag() {
  const int64_t flag = circuit_.text_flag_dimension;
  if (HasColumn(circuit_.embedding, flag)) return absl::OkStatus();
  for (size_t i = 0; i < circuit_.layers.size(); ++i) {
    const CircuitLayer& layer = circuit_.layers[i];
    for (const SparseMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.z, &layer.b, &layer.a, &layer.gate, &layer.up}) {
      if (HasColumn(*matrix, flag)) {
        return absl::InvalidArgumentError(
            fmt::format("circuit layer {} reads the text flag dimension {}, which text tokens set", i, flag));
      }
    }
  }
  std::vector<int64_t> count(circuit_.width, 0);
  std::vector<float> value(circuit_.width, 0);
  for (size_t i = 0; i < circuit_.embedding.nonzeros(); ++i) {
    const int32_t col = circuit_.embedding.col[i];
    if (count[col]++ == 0) value[col] = circuit_.embedding.value[i];
    if (value[col] != circuit_.embedding.value[i]) value[col] = 0;
  }
  const CircuitLayer& last = circuit_.layers.back();
  const double norm = std::ldexp(1.0, -circuit_.norm_log2);
  for (int32_t dim = 0; dim < circuit_.width && constant_dimension_ < 0; ++dim) {
    if (count[dim] != MachineIds(circuit_) || value[dim] * norm * (1.0 + last.post_norm[dim]) != 1) continue;
    const bool written = std::any_of(circuit_.layers.begin(), circuit_.layers.end(), [dim](const CircuitLayer& layer) {
      return HasRow(layer.out, dim) || HasRow(layer.down, dim);
    });
    if (!written) constant_dimension_ = dim;
  }
  if (constant_dimension_ < 0) {
    return absl::InvalidArgumentError("the circuit has no constant dimension that is 1 after the last layer's norm");
  }
  flag_neuron_ = last.neurons;
  shape_.intermediate = std::max<int64_t>(shape_.intermediate, last.neurons + 1);
  return absl::OkStatus();
}

int64_t MergedModel::LayerHeads(int64_t layer) const {
  if (padding_ == Padding::kUniform) return shape_.linear_value_heads;
  return layer < compiled_layers() ? circuit_.layers[layer].heads : base_->shape().linear_value_heads;
}

int64_t MergedModel::LayerNeurons(int64_t layer) const {
  if (padding_ == Padding::kUniform) return shape_.intermediate;
  if (layer >= compiled_layers()) return base_->shape().intermediate;
  const bool has_flag_neuron = layer == compiled_layers() - 1 && flag_neuron_ >= 0;
  return circuit_.layers[layer].neurons + (has_flag_neuron ? 1 : 0);
}

std::vector<TensorSpec> MergedModel::tensors() const {
  std::vector<TensorSpec> specs = ModelTensors(shape_);
  for (TensorSpec& spec : specs) {
    int64_t layer;
    const std::string name = LayerPart(spec.name, layer);
    if (layer >= 0) Narrow(spec, name, LayerHeads(layer), LayerNeurons(layer));
  }
  return specs;
}

absl::Status MergedModel::ReadRows(const TensorSpec& spec, int64_t first_row, int64_t rows, float* out) const {
  int64_t index;
  const std::string name = LayerPart(spec.name, index);
  if (name == "norm.weight") {
    std::vector<float> whole(spec.rows());
    QGPU_RETURN_IF_ERROR(ReadFinalNorm(whole.data()));
    ReadVector(whole, first_row, rows, out);
    return absl::OkStatus();
  }
  if (index < 0) return ReadVocabularyRows(spec, first_row, rows, out);
  if (index >= compiled_layers()) return ReadBaseRows(spec, index - compiled_layers(), name, first_row, rows, out);
  ReadCircuitRows(circuit_.layers[index], {.hidden_offset = circuit_.base_hidden, .heads = LayerHeads(index)}, name,
                  {first_row, rows, spec.row_size(), out});
  if (index == compiled_layers() - 1 && flag_neuron_ >= 0) AddFlagNeuron(name, first_row, rows, spec.row_size(), out);
  return absl::OkStatus();
}

// silu(128) * (flag / 128) is added back to a machine row's flag, -kMachineFlag, and leaves 0. On text the constant is
// 0 and the neuron silent.
void MergedModel::AddFlagNeuron(const std::string& name, int64_t first_row, int64_t rows, int64_t row_size,
                                float* out) const {
  const int64_t flag = circuit_.base_hidden + circuit_.text_flag_dimension;
  const auto set = [&](int64_t row, int64_t col, float value) {
    if (row >= first_row && row < first_row + rows) out[(row - first_row) * row_size + col] = value;
  };
  if (name == "post_attention_layernorm.weight") set(flag, 0, std::ldexp(1.0f, circuit_.norm_log2) - 1);
  if (name == "mlp.gate_proj.weight") set(flag_neuron_, circuit_.base_hidden + constant_dimension_, 128);
  if (name == "mlp.up_proj.weight") set(flag_neuron_, flag, -1.0f / 128);
  if (name == "mlp.down_proj.weight") set(flag, flag_neuron_, 1);
}

absl::Status MergedModel::ReadVocabularyRows(const TensorSpec& spec, int64_t first_row, int64_t rows,
                                             float* out) const {
  const int64_t base_hidden = circuit_.base_hidden, width = spec.row_size(), text_rows = first_machine_token();
  const int64_t flag = base_hidden + circuit_.text_flag_dimension;
  const bool is_embedding = spec.name == "embed_tokens.weight";
  const bool is_head = !is_embedding || shape_.tied_head;
  std::fill_n(out, rows * width, 0.0f);

  const int64_t text_end = std::min(first_row + rows, text_rows);
  // A head of the merged model alone is the base's embedding.
  const bool base_has_it = is_embedding || !base_->shape().tied_head;
  const TensorSpec base_spec = {base_has_it ? spec.name : "embed_tokens.weight", {text_rows, base_hidden}};
  const double scale = is_embedding ? scaling_.residual : scaling_.head_scale;
  std::vector<float> row(base_hidden);
  for (int64_t id = first_row; id < text_end; ++id) {
    QGPU_RETURN_IF_ERROR(base_->ReadRows(base_spec, id, 1, row.data()));
    float* to = out + (id - first_row) * width;
    for (int64_t i = 0; i < base_hidden; ++i) to[i] = static_cast<float>(row[i] * scale);
    if (!is_embedding) continue;
    to[flag] = kTextFlag;
    if (scaling_.filler_dimension >= 0) to[base_hidden + scaling_.filler_dimension] = scaling_.filler;
  }
  const int64_t machine_first = std::max(first_row, text_rows);
  if (machine_first >= first_row + rows) return absl::OkStatus();
  ScatterRows(circuit_.embedding, text_rows, base_hidden, {first_row, rows, width, out});
  if (flag_neuron_ >= 0 && is_head) {
    for (int64_t id = machine_first; id < first_row + rows; ++id) out[(id - first_row) * width + flag] = -kMachineFlag;
  }
  return absl::OkStatus();
}

absl::Status MergedModel::ReadFinalNorm(float* out) const {
  const int64_t base_hidden = circuit_.base_hidden;
  QGPU_RETURN_IF_ERROR(base_->ReadRows({"norm.weight", {base_hidden}}, 0, base_hidden, out));
  for (int64_t i = 0; i < base_hidden; ++i) out[i] = static_cast<float>((1.0 + out[i]) * scaling_.final_gain - 1.0);
  std::copy(circuit_.final_norm.begin(), circuit_.final_norm.end(), out + base_hidden);
  if (flag_neuron_ >= 0) out[base_hidden + circuit_.text_flag_dimension] = kFlagNorm;
  return absl::OkStatus();
}

double MergedModel::BaseScale(ResidualRole role, int64_t base_layer) const {
  const TextScaling::LayerShifts& shifts = scaling_.layers[base_layer];
  switch (role) {
    case ResidualRole::kInputNorm:
      return std::ldexp(scaling_.norm_gain, shifts.input);
    case ResidualRole::kPostNorm:
      return std::ldexp(scaling_.norm_gain, shifts.post);
    case ResidualRole::kReadsInput:
      return std::ldexp(1.0, -shifts.input);
    case ResidualRole::kReadsPost:
      return std::ldexp(1.0, -shifts.post);
    case ResidualRole::kWrites:
      return scaling_.residual;
    default:
      return 1;
  }
}

absl::Status MergedModel::ReadBaseRows(const TensorSpec& spec, int64_t base_layer, const std::string& name,
                                       int64_t first_row, int64_t rows, float* out) const {
  const BaseRowMap map = MapBaseRows(base_->shape(), LayerHeads(compiled_layers() + base_layer), name);
  const int64_t width = spec.row_size();
  TensorSpec base_spec = {LayerPrefix(base_layer) + name, map.base_dims};
  const int64_t base_width = base_spec.row_size();
  const double scale = BaseScale(map.role, base_layer);
  const bool is_norm = map.role == ResidualRole::kInputNorm || map.role == ResidualRole::kPostNorm;
  std::vector<float> row(base_width);
  std::fill_n(out, rows * width, map.fill);
  for (int64_t i = first_row; i < first_row + rows; ++i) {
    const int64_t from = map.BaseRow(i);
    if (from < 0) continue;
    QGPU_RETURN_IF_ERROR(base_->ReadRows(base_spec, from, 1, row.data()));
    float* to = out + (i - first_row) * width;
    for (int64_t col = 0; col < base_width; ++col) {
      const double value = row[col];
      to[col] = static_cast<float>(is_norm ? (1.0 + value) * scale - 1.0 : value * scale);
    }
  }
  return absl::OkStatus();
}

}  // namespace qgpu
