#include "model/forward/torch/qwen_model.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "ATen/ATen.h"
#include "model/forward/torch/gated_delta.h"
#include "model/forward/torch/project.h"

namespace qgpu {
namespace {

using at::Tensor;

constexpr int64_t kBlockElements = 4 << 20;  // of float32, the unit in which tensors are read

// Asks the system for large pages behind a tensor that nothing was written to yet: decoding reads every weight once a
// token, and finding small pages costs it some 5% of its time (bench/README.md).
void UseLargePages([[maybe_unused]] const Tensor& tensor) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kLargePage = 2 << 20;
  if (!tensor.device().is_cpu() || tensor.nbytes() < 2 * kLargePage) return;
  const auto address = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  const uintptr_t begin = (address + kLargePage - 1) / kLargePage * kLargePage;
  const uintptr_t end = (address + tensor.nbytes()) / kLargePage * kLargePage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // only advice: an error changes nothing
#endif
}

// Tensors of a source by name, in the compute type, each checked against the shape the layer expects.
class TensorLoader {
 public:
  TensorLoader(const TensorSource& source, at::ScalarType type, at::Device device)
      : source_(source), type_(type), device_(device) {
    for (TensorSpec& spec : source.tensors()) specs_.emplace(spec.name, std::move(spec));
  }

  bool Has(const std::string& name) const { return specs_.contains(name); }
  int64_t Rows(const std::string& name) const { return specs_.at(name).rows(); }

  Tensor Load(const std::string& name) {
    const TensorSpec& spec = specs_.at(name);
    Tensor out = at::empty(spec.dims, at::dtype(type_).device(device_));
    UseLargePages(out);
    const int64_t row_size = spec.row_size();
    if (row_size == 0) return out;
    const int64_t step = std::max<int64_t>(1, kBlockElements / row_size);
    for (int64_t row = 0; row < spec.rows() && status_.ok(); row += step) {
      const int64_t rows = std::min(step, spec.rows() - row);
      block_.resize(rows * row_size);
      status_ = source_.ReadRows(spec, row, rows, block_.data());
      out.slice(0, row, row + rows).view({-1}).copy_(at::from_blob(block_.data(), {rows * row_size}, at::kFloat));
    }
    return out;
  }
  // 1 + w of a zero-centred norm, float32.
  Tensor LoadNorm(const std::string& name) { return Load(name).to(at::kFloat) + 1.0; }

  const absl::Status& status() const { return status_; }

 private:
  const TensorSource& source_;
  at::ScalarType type_;
  at::Device device_;
  std::map<std::string, TensorSpec> specs_;
  std::vector<float> block_;
  absl::Status status_;
};

// x / sqrt(sum(x^2) / width + eps) * gain, in float32, rounded once.
Tensor RmsNorm(const Tensor& x, const Tensor& gain, double width, double eps) {
  const Tensor wide = x.to(at::kFloat);
  const Tensor mean = wide.size(-1) == width ? wide.pow(2).mean(-1, true) : wide.pow(2).sum(-1, true) / width;
  return (wide * (mean + eps).rsqrt() * gain).to(x.scalar_type());
}

// Rotates the halves of the first `cos.size(-1)` values of each head. x [heads, n, dim], cos and sin [n, rotary].
Tensor Rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const int64_t rotary = cos.size(-1);
  const Tensor turned = x.slice(-1, 0, rotary);
  const Tensor swapped = at::cat({-turned.slice(-1, rotary / 2, rotary), turned.slice(-1, 0, rotary / 2)}, /*dim=*/-1);
  return at::cat({turned * cos + swapped * sin, x.slice(-1, rotary, x.size(-1))}, /*dim=*/-1);
}

}  // namespace

// What all layers of one Forward share.
struct QwenModel::Context {
  int64_t first_position = 0;
  Tensor cos, sin;  // [n, rotary], compute type
};

class QwenModel::LinearAttention {
 public:
  LinearAttention(TensorLoader& load, const std::string& prefix, const ModelShape& shape)
      : key_dim_(shape.linear_key_dim),
        value_dim_(shape.linear_value_dim),
        value_heads_(load.Rows(prefix + "A_log")),
        eps_(shape.norm_eps) {
    if (value_heads_ == 0) return;
    qkv_ = load.Load(prefix + "in_proj_qkv.weight");
    key_heads_ = (qkv_.size(0) - value_heads_ * value_dim_) / (2 * key_dim_);
    z_ = load.Load(prefix + "in_proj_z.weight");
    b_ = load.Load(prefix + "in_proj_b.weight");
    a_ = load.Load(prefix + "in_proj_a.weight");
    conv_ = load.Load(prefix + "conv1d.weight").to(at::kFloat).squeeze(1).t().contiguous();
    const int64_t past = conv_.size(0) - 1;
    conv_is_identity_ = conv_.slice(0, 0, past).eq(0).all().item<bool>() && conv_[past].eq(1).all().item<bool>();
    dt_bias_ = load.Load(prefix + "dt_bias").to(at::kFloat);
    decay_rate_ = -load.Load(prefix + "A_log").to(at::kFloat).exp();
    head_norm_ = load.Load(prefix + "norm.weight");
    out_ = load.Load(prefix + "out_proj.weight");
    Reset();
  }

  void Reset() {
    if (value_heads_ == 0) return;
    state_ = at::zeros({value_heads_, key_dim_, value_dim_}, conv_.options());
    past_ = at::zeros({conv_.size(0) - 1, conv_.size(1)}, qkv_.options());
  }

  bool is_empty() const { return value_heads_ == 0; }
  const Tensor& state() const { return state_; }

  // x: the layer's normed input [n, hidden]; what is added to the residual.
  Tensor Forward(const Tensor& x) {
    const int64_t n = x.size(0), keys = key_heads_ * key_dim_, values = value_heads_ * value_dim_;
    const Tensor qkv = at::silu(Convolve(Project(x, qkv_)));
    const auto heads = [&](const Tensor& part, int64_t dim) {  // [n, heads * dim] -> float32 [value heads, n, dim]
      Tensor out = part.reshape({n, -1, dim}).transpose(0, 1).to(at::kFloat);
      return out.size(0) == value_heads_ ? out : out.repeat_interleave(value_heads_ / out.size(0), 0);
    };
    const Tensor beta = at::sigmoid(Project(x, b_));
    const Tensor g = decay_rate_ * at::softplus(Project(x, a_).to(at::kFloat) + dt_bias_);
    const DeltaInput input = {heads(qkv.slice(1, 0, keys), key_dim_).contiguous(),
                              heads(qkv.slice(1, keys, 2 * keys), key_dim_).contiguous(),
                              heads(qkv.slice(1, 2 * keys, 2 * keys + values), value_dim_).contiguous(),
                              beta.t().to(at::kFloat).contiguous(), g.t().contiguous()};
    const Tensor o = n == 1 ? GatedDeltaStep(input, state_) : GatedDeltaChunks(input, state_);
    return Project(GatedNorm(o.transpose(0, 1).to(x.scalar_type()), Project(x, z_)), out_);
  }

 private:
  // Causal depthwise convolution along positions; x [n, channels].
  Tensor Convolve(const Tensor& x) {
    if (conv_is_identity_) return x;
    const Tensor window = at::cat({past_, x}, 0);
    past_ = window.slice(0, x.size(0), window.size(0)).clone();
    Tensor sum;
    for (int64_t tap = 0; tap < conv_.size(0); ++tap) {
      const Tensor term = window.slice(0, tap, tap + x.size(0)).to(at::kFloat) * conv_[tap];
      sum = tap == 0 ? term : sum + term;
    }
    return sum.to(x.scalar_type());
  }

  // o [n, heads, dv], z [n, heads * dv] -> [n, heads * dv]
  Tensor GatedNorm(const Tensor& o, const Tensor& z) const {
    const Tensor wide = o.to(at::kFloat);
    const Tensor normed = (wide * (wide.pow(2).mean(-1, true) + eps_).rsqrt()).to(o.scalar_type());
    const Tensor gate = at::silu(z.to(at::kFloat)).view(o.sizes());
    return ((head_norm_ * normed) * gate).to(o.scalar_type()).reshape({o.size(0), -1});
  }

  int64_t key_dim_, value_dim_, key_heads_ = 0, value_heads_;
  double eps_;
  bool conv_is_identity_ = false;
  Tensor qkv_, z_, b_, a_, out_;  // [outputs, hidden]; out_ [hidden, values]
  Tensor conv_;                   // float32 [taps, channels]
  Tensor dt_bias_, decay_rate_;   // float32 [value heads]
  Tensor head_norm_;              // [dv]
  Tensor state_;                  // float32 [value heads, dk, dv]
  Tensor past_;                   // [taps - 1, channels]: projections of the last positions
};

class QwenModel::FullAttention {
 public:
  FullAttention(TensorLoader& load, const std::string& prefix, const ModelShape& shape)
      : heads_(shape.attention_heads), kv_heads_(shape.kv_heads), dim_(shape.head_dim), eps_(shape.norm_eps) {
    q_ = load.Load(prefix + "q_proj.weight");
    k_ = load.Load(prefix + "k_proj.weight");
    v_ = load.Load(prefix + "v_proj.weight");
    out_ = load.Load(prefix + "o_proj.weight");
    q_norm_ = load.LoadNorm(prefix + "q_norm.weight");
    k_norm_ = load.LoadNorm(prefix + "k_norm.weight");
  }

  void Reset() { keys_ = values_ = Tensor(); }

  Tensor Forward(const Tensor& x, const Context& context) {
    const int64_t n = x.size(0), end = context.first_position + n;
    const Tensor query_gate = Project(x, q_).view({n, heads_, 2 * dim_});
    const auto normed = [&](const Tensor& heads, const Tensor& gain) {  // [n, heads, dim] -> rotated [heads, n, dim]
      return Rotate(RmsNorm(heads, gain, dim_, eps_).transpose(0, 1), context.cos, context.sin);
    };
    const Tensor q = normed(query_gate.slice(2, 0, dim_), q_norm_);
    Reserve(end, x);
    keys_.slice(1, context.first_position, end).copy_(normed(Project(x, k_).view({n, kv_heads_, dim_}), k_norm_));
    values_.slice(1, context.first_position, end).copy_(Project(x, v_).view({n, kv_heads_, dim_}).transpose(0, 1));

    std::optional<Tensor> mask;
    if (n > 1 && context.first_position > 0) {
      mask = at::ones({n, end}, x.options().dtype(at::kBool)).tril(context.first_position);
    }
    const Tensor keys = keys_.slice(1, 0, end).unsqueeze(0), values = values_.slice(1, 0, end).unsqueeze(0);
    const Tensor attended =
        at::scaled_dot_product_attention(q.unsqueeze(0), keys, values, mask, /*dropout_p=*/0.0,
                                         /*is_causal=*/n > 1 && !mask, /*scale=*/std::nullopt, /*enable_gqa=*/true);
    const Tensor gate = query_gate.slice(2, dim_, 2 * dim_).reshape({n, heads_ * dim_});
    return Project(attended.squeeze(0).transpose(0, 1).reshape({n, heads_ * dim_}) * at::sigmoid(gate), out_);
  }

 private:
  // Room for `end` positions in the caches, growing by doubling.
  void Reserve(int64_t end, const Tensor& x) {
    const int64_t capacity = keys_.defined() ? keys_.size(1) : 0;
    if (end <= capacity) return;
    const int64_t grown = std::max<int64_t>({end, 2 * capacity, 256});
    for (Tensor* cache : {&keys_, &values_}) {
      Tensor wider = at::zeros({kv_heads_, grown, dim_}, x.options());
      if (capacity > 0) wider.slice(1, 0, capacity).copy_(*cache);
      *cache = wider;
    }
  }

  int64_t heads_, kv_heads_, dim_;
  double eps_;
  Tensor q_, k_, v_, out_;
  Tensor q_norm_, k_norm_;  // 1 + w, float32 [dim]
  Tensor keys_, values_;    // [kv heads, capacity, dim]
};

class QwenModel::Layer {
 public:
  Layer(TensorLoader& load, int64_t index, const ModelShape& shape, double norm_width)
      : norm_width_(norm_width), eps_(shape.norm_eps) {
    const std::string prefix = LayerPrefix(index);
    input_norm_ = load.LoadNorm(prefix + "input_layernorm.weight");
    post_norm_ = load.LoadNorm(prefix + "post_attention_layernorm.weight");
    if (shape.layers[index] == LayerType::kLinearAttention) {
      linear_.emplace(load, prefix + "linear_attn.", shape);
    } else {
      full_.emplace(load, prefix + "self_attn.", shape);
    }
    if (load.Rows(prefix + "mlp.gate_proj.weight") == 0) return;
    gate_ = load.Load(prefix + "mlp.gate_proj.weight");
    up_ = load.Load(prefix + "mlp.up_proj.weight");
    down_ = load.Load(prefix + "mlp.down_proj.weight");
  }

  void Reset() {
    if (linear_) linear_->Reset();
    if (full_) full_->Reset();
  }

  Tensor Forward(Tensor x, const Context& context) {
    if (full_) {
      x = x + full_->Forward(RmsNorm(x, input_norm_, norm_width_, eps_), context);
    } else if (!linear_->is_empty()) {
      x = x + linear_->Forward(RmsNorm(x, input_norm_, norm_width_, eps_));
    }
    if (!gate_.defined()) return x;
    const Tensor m = RmsNorm(x, post_norm_, norm_width_, eps_);
    return x + Project(at::silu(Project(m, gate_)) * Project(m, up_), down_);
  }

  Tensor State() const { return linear_ ? linear_->state() : Tensor(); }

 private:
  double norm_width_, eps_;
  Tensor input_norm_, post_norm_;  // 1 + w, float32 [hidden]
  Tensor gate_, up_, down_;
  std::optional<LinearAttention> linear_;
  std::optional<FullAttention> full_;
};

absl::StatusOr<at::Device> ParseDevice(const std::string& name) {
  std::optional<at::Device> device;
  try {
    device.emplace(name);
  } catch (const c10::Error&) {
    return absl::InvalidArgumentError(fmt::format("unknown device \"{}\"; use cpu, cuda, cuda:N or mps", name));
  }
  const bool usable = device->is_cpu() || (device->is_cuda() && at::hasCUDA()) || (device->is_mps() && at::hasMPS());
  if (!usable) return absl::FailedPreconditionError(fmt::format("this libtorch has no usable device \"{}\"", name));
  return *device;
}

at::ScalarType TorchType(DataType type) {
  switch (type) {
    case DataType::kBFloat16:
      return at::kBFloat16;
    case DataType::kFloat16:
      return at::kHalf;
    default:
      return at::kFloat;
  }
}

QwenModel::QwenModel(at::ScalarType type, at::Device device) : type_(type), device_(device) {}
QwenModel::~QwenModel() = default;

absl::StatusOr<std::unique_ptr<QwenModel>> QwenModel::Load(const TensorSource& source, DataType type,
                                                           at::Device device) {
  const c10::InferenceMode no_gradients;
  try {
    const ModelShape& shape = source.shape();
    std::unique_ptr<QwenModel> model(new QwenModel(TorchType(type), device));
    TensorLoader load(source, model->type_, device);
    model->vocabulary_ = shape.vocabulary;
    model->norm_eps_ = shape.norm_eps;
    model->norm_width_ = static_cast<double>(source.norm_width());
    model->embedding_ = load.Load("embed_tokens.weight");
    model->head_ = shape.tied_head ? model->embedding_ : load.Load("lm_head.weight");
    model->final_norm_ = load.LoadNorm("norm.weight");
    const double rotary = static_cast<double>(shape.rotary_dim());
    model->inverse_frequency_ =
        1.0 / at::pow(shape.rope_theta, at::arange(0, rotary, 2, at::kFloat) / rotary).to(device);
    for (size_t i = 0; i < shape.layers.size() && load.status().ok(); ++i) {
      model->layers_.push_back(std::make_unique<Layer>(load, i, shape, model->norm_width_));
    }
    QGPU_RETURN_IF_ERROR(load.status());
    return model;
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(fmt::format("cannot load the model: {}", error.what()));
  }
}

void QwenModel::Reset() {
  const c10::InferenceMode no_gradients;
  positions_ = 0;
  for (auto& layer : layers_) layer->Reset();
}

Tensor QwenModel::Forward(const Tensor& ids) {
  const c10::InferenceMode no_gradients;
  const int64_t n = ids.size(0);
  Context context;
  context.first_position = positions_;
  const Tensor position = at::arange(positions_, positions_ + n, at::dtype(at::kFloat).device(device_)).unsqueeze(1);
  const Tensor angle = (position * inverse_frequency_).repeat({1, 2});
  context.cos = angle.cos().to(type_);
  context.sin = angle.sin().to(type_);

  residuals_.clear();
  Tensor x = at::embedding(embedding_, ids.to(device_));
  for (auto& layer : layers_) {
    if (keep_residuals) residuals_.push_back(x);
    x = layer->Forward(x, context);
  }
  if (keep_residuals) residuals_.push_back(x);
  positions_ += n;
  return RmsNorm(x, final_norm_, norm_width_, norm_eps_);
}

Tensor QwenModel::Logits(const Tensor& normed) const {
  const c10::InferenceMode no_gradients;
  return Project(normed, head_);
}

Tensor QwenModel::State(int64_t layer) const { return layers_[layer]->State(); }

}  // namespace qgpu
