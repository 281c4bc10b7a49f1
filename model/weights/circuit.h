// The circuit: every non-zero weight of the compiled layers, for one base model's width. It is what `qgpu build` writes
// and what every executor runs; see docs/formats/circuit.md for the file.
//
// Residual dimensions are counted among the W added ones, 0 .. W-1; in the merged model dimension d is H0 + d.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "machine/isa/geometry.h"

namespace qgpu {

inline constexpr int kHeadDim = 128;  // key and value size of a linear attention head

// Coordinates sorted by row, then column; no duplicates, no zeros. Every value is exact in bfloat16.
struct SparseMatrix {
  int32_t rows = 0, cols = 0;
  std::vector<int32_t> row, col;
  std::vector<float> value;
  size_t nonzeros() const { return value.size(); }
  bool operator==(const SparseMatrix&) const = default;
};

// One layer as in Qwen3.5: RMSNorm, Gated DeltaNet mixer, RMSNorm, SwiGLU MLP. Formulas: Qwen3_5GatedDeltaNet in the
// public transformers library. The depthwise convolution passes the current token only (last tap 1, others 0).
struct CircuitLayer {
  std::vector<float> input_norm;      // [W], zero-centred: the norm multiplies by 1 + w
  SparseMatrix q, k, v;               // [heads * 128, W] each
  SparseMatrix z;                     // [heads * 128, W]
  SparseMatrix b;                     // [heads, W], write strength: beta = sigmoid
  SparseMatrix a;                     // [heads, W], decay: g = -exp(A_log) * softplus(a + dt_bias)
  std::vector<float> a_log, dt_bias;  // [heads]
  std::vector<float> head_norm;       // [128], not zero-centred
  SparseMatrix out;                   // [W, heads * 128]
  std::vector<float> post_norm;       // [W], zero-centred
  SparseMatrix gate, up;              // [neurons, W]
  SparseMatrix down;                  // [W, neurons]
  int32_t heads = 0, neurons = 0;     // of this layer; the dense form pads to the circuit's maxima
  bool operator==(const CircuitLayer&) const = default;
};

// Where the launch's results lie in the recurrent state S[layer][head] (128 keys x 128 values): row r of the bank is
// key row first_row + r, bit i is value dimension dims[i] (on: about 128 or 1 times the row's scale), its
// complement is dims[i] + 64. An unwritten row has both at 0 and reads as 0.
struct CellBank {
  int32_t layer = 0, head = 0, first_row = 0, rows = 0;
  std::vector<int32_t> dims;
  bool operator==(const CellBank&) const = default;
};

struct Circuit {
  int32_t format_version = 0;
  MachineGeometry geometry;
  int32_t base_hidden = 0;  // H0 of the base it was built for; H = base_hidden + width
  int32_t width = 0;        // W, at most 1280
  int32_t norm_log2 = 0;    // m: RMSNorm divides by 2^m on machine tokens
  float norm_eps = 1e-6f;
  std::vector<CircuitLayer> layers;
  SparseMatrix embedding;           // [machine ids, W]; tied: the same rows give the logits
  std::vector<float> final_norm;    // [W], zero-centred, only the dimensions that make logits differ from -1
  int32_t text_flag_dimension = 0;  // no layer reads or writes it, no machine row sets it; the dense form uses it
  // "memory" (126 rows x 32 bits), "register.0" to "register.3" (one a lane: 128 rows warp * 16 + register x 32 bits),
  // "warp" (1 x 3), "exec" (1 row: block 5, mask 4, valid 1), "cta.x", "cta.y", "cta.z" (1 row of 8, 8 and 6 bits)
  std::map<std::string, CellBank> cells;
  // Names for reports and errors: dimension d of layer l's MLP output etc. Not needed to run.
  std::map<std::string, std::string> notes;

  int32_t hidden() const { return base_hidden + width; }
  int32_t max_heads() const;
  int32_t max_neurons() const;
  bool operator==(const Circuit&) const = default;
};

inline constexpr int32_t kCircuitFormatVersion = 1;

// What a circuit file may hold at most: the contract of the project, and with it the most memory a file can claim.
struct CircuitFileLimits {
  static constexpr int32_t layers = 45;          // in front of a base of at most 24
  static constexpr int32_t neurons = 6144;       // a layer
  static constexpr int32_t heads = 16;           // a layer
  static constexpr int32_t width = 1280;         // added residual dimensions
  static constexpr int32_t machine_ids = 16384;  // rows of the embedding
  static constexpr int32_t base_hidden = 65536;
  static constexpr int32_t nonzeros = 1 << 26;  // of one tensor
};

// Everything that a circuit promises: shapes that fit together, sorted coordinates in range, finite values without
// zeros, weights exact in bfloat16, cells inside the state, the limits above. kInvalidArgument naming the tensor.
absl::Status ValidateCircuit(const Circuit& circuit);

// Serialises to one file and back. The file starts with a version, then a JSON header with the SHA-256 of every tensor;
// the same circuit gives the same bytes on every machine. Reading checks every size, index and checksum before use:
// kInvalidArgument naming layer and tensor; kFailedPrecondition for another format version. The circuit to serialise
// must be valid (ends the program otherwise).
std::string SerializeCircuit(const Circuit& circuit);
absl::StatusOr<Circuit> ParseCircuit(const std::string& bytes);
// SHA-256 of SerializeCircuit, first 16 hex digits: "the circuit's hash".
std::string CircuitHash(const Circuit& circuit);

// One weight that CorruptCircuit changed.
struct CorruptedWeight {
  std::string tensor;  // "layers.3.mlp.down"
  int32_t row = 0, col = 0;
  float before = 0, after = 0;
};

// Negates the index-th non-zero weight of a layer, counted from 0 through mixer.q, k, v, z, b, a, out and then
// mlp.gate, up, down, each by row and column: the fault that tests inject to show that the weights are what computes.
// kOutOfRange with the number of layers or weights there are.
absl::StatusOr<CorruptedWeight> CorruptCircuit(Circuit& circuit, int layer, int64_t index);

}  // namespace qgpu
