#include "model/merge/circuit_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "common/check.h"

namespace qgpu {
namespace {

// Entries of `from` as a column, at rows row_offset and up.
void ScatterVector(const std::vector<float>& from, int64_t row_offset, const RowWindow& window) {
  const int64_t begin = std::max(window.first, row_offset);
  const int64_t end = std::min<int64_t>(window.first + window.count, row_offset + from.size());
  for (int64_t row = begin; row < end; ++row) window.out[row - window.first] = from[row - row_offset];
}

std::vector<int64_t> Counting(int64_t count) {
  std::vector<int64_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Merged rows of q, k and v: every merged head that the base has a value head for takes that head's rows, with the key
// head it shares.
std::vector<int64_t> QkvRows(const ModelShape& base, int64_t channels) {
  const int64_t group = base.linear_value_heads / base.linear_key_heads, keys = base.linear_keys();
  std::vector<int64_t> rows(3 * channels, -1);
  for (int64_t head = 0; head < base.linear_value_heads; ++head) {
    for (int64_t i = 0; i < kHeadDim; ++i) {
      const int64_t key_row = head / group * kHeadDim + i, to = head * kHeadDim + i;
      rows[to] = key_row;
      rows[channels + to] = keys + key_row;
      rows[2 * channels + to] = 2 * keys + to;
    }
  }
  return rows;
}

ResidualRole RoleOf(const std::string& name) {
  static const std::map<std::string_view, ResidualRole> kRoles = {
      {"input_layernorm.weight", ResidualRole::kInputNorm},
      {"post_attention_layernorm.weight", ResidualRole::kPostNorm},
      {"linear_attn.in_proj_qkv.weight", ResidualRole::kReadsInput},
      {"linear_attn.in_proj_z.weight", ResidualRole::kReadsInput},
      {"linear_attn.in_proj_b.weight", ResidualRole::kReadsInput},
      {"linear_attn.in_proj_a.weight", ResidualRole::kReadsInput},
      {"self_attn.q_proj.weight", ResidualRole::kReadsInput},
      {"self_attn.k_proj.weight", ResidualRole::kReadsInput},
      {"self_attn.v_proj.weight", ResidualRole::kReadsInput},
      {"mlp.gate_proj.weight", ResidualRole::kReadsPost},
      {"mlp.up_proj.weight", ResidualRole::kReadsPost},
      {"linear_attn.out_proj.weight", ResidualRole::kWrites},
      {"self_attn.o_proj.weight", ResidualRole::kWrites},
      {"mlp.down_proj.weight", ResidualRole::kWrites},
  };
  const auto it = kRoles.find(name);
  return it == kRoles.end() ? ResidualRole::kNone : it->second;
}

}  // namespace

void ScatterRows(const SparseMatrix& matrix, int64_t row_offset, int64_t col_offset, const RowWindow& window) {
  const auto first = std::lower_bound(matrix.row.begin(), matrix.row.end(), window.first - row_offset);
  for (size_t i = first - matrix.row.begin(); i < matrix.nonzeros(); ++i) {
    const int64_t row = row_offset + matrix.row[i] - window.first;
    if (row >= window.count) break;
    window.out[row * window.row_size + col_offset + matrix.col[i]] = matrix.value[i];
  }
}

void ReadCircuitRows(const CircuitLayer& layer, const CircuitLayout& layout, const std::string& name,
                     const RowWindow& window) {
  const int64_t offset = layout.hidden_offset, channels = layout.heads * kHeadDim;
  std::fill_n(window.out, window.count * window.row_size, 0.0f);
  if (name == "linear_attn.in_proj_qkv.weight") {
    ScatterRows(layer.q, 0, offset, window);
    ScatterRows(layer.k, channels, offset, window);
    ScatterRows(layer.v, 2 * channels, offset, window);
  } else if (name == "linear_attn.in_proj_z.weight") {
    ScatterRows(layer.z, 0, offset, window);
  } else if (name == "linear_attn.in_proj_b.weight") {
    ScatterRows(layer.b, 0, offset, window);
  } else if (name == "linear_attn.in_proj_a.weight") {
    ScatterRows(layer.a, 0, offset, window);
  } else if (name == "linear_attn.conv1d.weight") {
    for (int64_t row = 0; row < window.count; ++row) window.out[(row + 1) * window.row_size - 1] = 1;
  } else if (name == "linear_attn.dt_bias") {
    ScatterVector(layer.dt_bias, 0, window);
  } else if (name == "linear_attn.A_log") {
    ScatterVector(layer.a_log, 0, window);
  } else if (name == "linear_attn.norm.weight") {
    ScatterVector(layer.head_norm, 0, window);
  } else if (name == "linear_attn.out_proj.weight") {
    ScatterRows(layer.out, offset, 0, window);
  } else if (name == "input_layernorm.weight" || name == "post_attention_layernorm.weight") {
    std::fill_n(window.out, window.count, -1.0f);
    ScatterVector(name == "input_layernorm.weight" ? layer.input_norm : layer.post_norm, offset, window);
  } else if (name == "mlp.gate_proj.weight") {
    ScatterRows(layer.gate, 0, offset, window);
  } else if (name == "mlp.up_proj.weight") {
    ScatterRows(layer.up, 0, offset, window);
  } else if (name == "mlp.down_proj.weight") {
    ScatterRows(layer.down, offset, 0, window);
  } else {
    QGPU_CHECK(false, "no such tensor in a compiled layer: " + name);
  }
}

BaseRowMap MapBaseRows(const ModelShape& base, int64_t heads, const std::string& name) {
  ModelShape one = base;
  one.layers = {name.starts_with("self_attn.") ? LayerType::kFullAttention : LayerType::kLinearAttention};
  BaseRowMap map;
  for (const TensorSpec& spec : ModelTensors(one)) {
    if (spec.name == LayerPrefix(0) + name) map.base_dims = spec.dims;
  }
  QGPU_CHECK(!map.base_dims.empty(), "no such tensor in a base layer: " + name);
  const bool is_qkv = name == "linear_attn.in_proj_qkv.weight" || name == "linear_attn.conv1d.weight";
  map.base_row = is_qkv ? QkvRows(base, heads * kHeadDim) : Counting(map.base_dims[0]);
  map.role = RoleOf(name);
  if (map.role == ResidualRole::kInputNorm || map.role == ResidualRole::kPostNorm) map.fill = -1;
  return map;
}

}  // namespace qgpu
