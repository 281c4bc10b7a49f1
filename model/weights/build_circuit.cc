#include "model/weights/build_circuit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "machine/isa/isa.h"

namespace qgpu {
namespace {

constexpr float kDecayClosed = -100;    // dt_bias: softplus(-100) is 4e-44, so that exp(g) = 1
constexpr float kDecayOpen = 1024;      // added on a reset: exp(g) = 0
constexpr float kWriteGate = 300;       // sigmoid(150) = 1, sigmoid(-150) = 0
constexpr float kFinalNorm = 8192;      // a bit, 2^-8 after the norm, counts 32 in a logit
constexpr int kAddedDimensions = 1280;  // W of the default machine

float RoundToBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Collects entries of one matrix, then sorts them.
class MatrixBuilder {
 public:
  MatrixBuilder(int rows, int cols) : rows_(rows), cols_(cols) {}

  void Add(int row, int col, double value) { entries_[{row, col}] += value; }

  // kInternal if a value is not exact in bfloat16.
  absl::StatusOr<SparseMatrix> Build(const std::string& name) const {
    SparseMatrix matrix;
    matrix.rows = rows_;
    matrix.cols = cols_;
    for (const auto& [place, value] : entries_) {
      if (value == 0) continue;
      const float weight = static_cast<float>(value);
      if (RoundToBFloat16(weight) != weight || weight != value) {
        return absl::InternalError(
            fmt::format("{}[{}, {}] = {} is not exact in bfloat16", name, place.first, place.second, value));
      }
      matrix.row.push_back(place.first);
      matrix.col.push_back(place.second);
      matrix.value.push_back(weight);
    }
    return matrix;
  }

 private:
  int rows_, cols_;
  std::map<std::pair<int, int>, double> entries_;
};

class CircuitBuilder {
 public:
  CircuitBuilder(const MachineNetlist& machine, const Schedule& schedule, int base_hidden)
      : net_(machine.netlist), machine_(machine), schedule_(schedule) {
    circuit_.format_version = kCircuitFormatVersion;
    circuit_.base_hidden = base_hidden;
    circuit_.width = kAddedDimensions;
    circuit_.norm_log2 = schedule.norm_log2;
    circuit_.text_flag_dimension = schedule.text_flag;
  }

  absl::StatusOr<Circuit> Build() {
    for (int layer = 0; layer < net_.layers(); ++layer) QGPU_RETURN_IF_ERROR(Layer(layer));
    QGPU_RETURN_IF_ERROR(Vocabulary());
    Cells();
    return std::move(circuit_);
  }

 private:
  // Row `row` of `matrix` += scale * form, constants spread over the constant dimensions in exact parts.
  void AddForm(MatrixBuilder& matrix, int row, double scale, const Linear& form) const {
    for (const auto& [id, coefficient] : form.terms) {
      const int dimension = schedule_.dimension[id];
      if (dimension >= 0) matrix.Add(row, dimension, scale * coefficient / schedule_.scale[id]);
    }
    double left = scale * form.constant;
    for (size_t i = 0; i < schedule_.constants.size() && left != 0; ++i) {
      const double part = RoundToBFloat16(static_cast<float>(left));
      matrix.Add(row, static_cast<int>(i), part);
      left -= part;
    }
    // What is left would not be exact in any further dimension: the last one takes it, and Build refuses.
    if (left != 0) matrix.Add(row, 0, left);
  }

  std::vector<float> NormWeights() const {
    std::vector<float> norm(circuit_.width, static_cast<float>(std::exp2(schedule_.norm_log2) - 1));
    for (size_t i = 0; i < schedule_.constants.size(); ++i) {
      norm[i] = static_cast<float>(std::exp2(schedule_.norm_log2) / schedule_.constants[i] - 1);
    }
    norm[schedule_.text_flag] = -1;
    return norm;
  }

  absl::Status Layer(int index) {
    std::vector<const Head*> heads;
    for (const Head& head : net_.heads()) {
      if (head.layer == index) heads.push_back(&head);
    }
    CircuitLayer layer;
    layer.heads = static_cast<int>(heads.size());
    layer.neurons = static_cast<int>(schedule_.neurons[index].size());
    layer.input_norm = layer.post_norm = NormWeights();
    layer.head_norm.assign(kHeadDim, static_cast<float>(std::sqrt(0.5)));
    layer.a_log.assign(heads.size(), 0);
    layer.dt_bias.assign(heads.size(), kDecayClosed);
    const std::string name = fmt::format("layers.{}", index);
    QGPU_RETURN_IF_ERROR(Mixer(heads, name + ".mixer", layer));
    QGPU_RETURN_IF_ERROR(Mlp(schedule_.neurons[index], name + ".mlp", layer));
    circuit_.layers.push_back(std::move(layer));
    return absl::OkStatus();
  }

  absl::Status Mixer(const std::vector<const Head*>& heads, const std::string& name, CircuitLayer& layer) const {
    const int rows = layer.heads * kHeadDim, width = circuit_.width;
    MatrixBuilder q(rows, width), k(rows, width), v(rows, width), z(rows, width), b(layer.heads, width),
        a(layer.heads, width), out(width, rows);
    for (int h = 0; h < layer.heads; ++h) {
      const Head& head = *heads[h];
      const int base = h * kHeadDim;
      const auto components = [&](MatrixBuilder& matrix, const std::vector<Head::Component>& list, int offset) {
        for (const auto& component : list) {
          AddForm(matrix, base + offset + component.index, 256, component.condition - 0.5);
        }
      };
      components(k, head.keys, 0);
      components(q, head.queries, 0);
      components(v, head.on, 0);
      components(v, head.off, 64);
      AddForm(b, h, kWriteGate, head.write - 0.5);
      AddForm(a, h, kDecayOpen, head.reset);
      for (const auto& tap : head.taps) {
        out.Add(schedule_.dimension[tap.target.id], base + tap.cell, schedule_.scale[tap.target.id] / 128);
      }
      for (int i = 0; i < kHeadDim; ++i) z.Add(base + i, 0, 128);
    }
    QGPU_ASSIGN_OR_RETURN(layer.q, q.Build(name + ".q"));
    QGPU_ASSIGN_OR_RETURN(layer.k, k.Build(name + ".k"));
    QGPU_ASSIGN_OR_RETURN(layer.v, v.Build(name + ".v"));
    QGPU_ASSIGN_OR_RETURN(layer.z, z.Build(name + ".z"));
    QGPU_ASSIGN_OR_RETURN(layer.b, b.Build(name + ".b"));
    QGPU_ASSIGN_OR_RETURN(layer.a, a.Build(name + ".a"));
    QGPU_ASSIGN_OR_RETURN(layer.out, out.Build(name + ".out"));
    return absl::OkStatus();
  }

  absl::Status Mlp(const std::vector<PlacedNeuron>& neurons, const std::string& name, CircuitLayer& layer) const {
    const int count = layer.neurons, width = circuit_.width;
    MatrixBuilder gate(count, width), up(count, width), down(width, count);
    for (int i = 0; i < count; ++i) {
      AddForm(gate, i, 1, neurons[i].gate);
      AddForm(up, i, 1, neurons[i].up);
      for (const Output& output : neurons[i].outputs) {
        down.Add(schedule_.dimension[output.signal.id], i, output.weight * schedule_.scale[output.signal.id]);
      }
    }
    QGPU_ASSIGN_OR_RETURN(layer.gate, gate.Build(name + ".gate"));
    QGPU_ASSIGN_OR_RETURN(layer.up, up.Build(name + ".up"));
    QGPU_ASSIGN_OR_RETURN(layer.down, down.Build(name + ".down"));
    return absl::OkStatus();
  }

  // An id's row is its embedding and, where the final norm lets it through, its logit pattern.
  absl::Status Vocabulary() {
    MatrixBuilder rows(MachineVocabularySize(), circuit_.width);
    for (int id = 0; id < MachineVocabularySize(); ++id) {
      QGPU_ASSIGN_OR_RETURN(const Token token, TokenFromId(id));
      for (size_t i = 0; i < schedule_.constants.size(); ++i) rows.Add(id, static_cast<int>(i), schedule_.constants[i]);
      for (size_t s = 0; s < net_.signals().size(); ++s) {
        const auto& embedding = net_.signals()[s].embedding;
        if (embedding && embedding(token) != 0) rows.Add(id, schedule_.dimension[s], 1);
      }
    }
    QGPU_ASSIGN_OR_RETURN(circuit_.embedding, rows.Build("embedding"));
    circuit_.final_norm.assign(circuit_.width, -1);
    for (const auto* group : {&machine_.next_kind, &machine_.next_payload_on, &machine_.next_payload_off}) {
      for (Signal s : *group) circuit_.final_norm[schedule_.dimension[s.id]] = kFinalNorm;
    }
    return absl::OkStatus();
  }

  CellBank Bank(int head_index, int first_row, int rows, int first_cell, int cells) const {
    CellBank bank;
    bank.layer = net_.heads()[head_index].layer;
    for (int i = 0; i < head_index; ++i) bank.head += net_.heads()[i].layer == bank.layer;
    bank.first_row = first_row;
    bank.rows = rows;
    for (int i = 0; i < cells; ++i) bank.dims.push_back(first_cell + i);
    return bank;
  }

  void Cells() {
    auto& cells = circuit_.cells;
    cells["memory"] = Bank(machine_.memory_head, 0, circuit_.geometry.memory_words, 0, 32);
    for (int lane = 0; lane < kLanes; ++lane) {
      cells[fmt::format("register.{}", lane)] = Bank(machine_.register_heads[lane], 0, 128, 0, 32);
    }
    cells["warp"] = Bank(machine_.warp_head, 0, 1, 0, 3);
    cells["exec"] = Bank(machine_.exec_head, 0, 1, 0, 10);
    cells["cta.x"] = Bank(machine_.launch_head, 0, 1, 0, 8);
    cells["cta.y"] = Bank(machine_.launch_head, 1, 1, 8, 8);
    cells["cta.z"] = Bank(machine_.launch_head, 2, 1, 16, 6);
  }

  const Netlist& net_;
  const MachineNetlist& machine_;
  const Schedule& schedule_;
  Circuit circuit_;
};

int64_t NonZeros(const Circuit& circuit) {
  int64_t count = static_cast<int64_t>(circuit.embedding.nonzeros());
  for (const CircuitLayer& layer : circuit.layers) {
    for (const SparseMatrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.z, &layer.b, &layer.a, &layer.out,
                                       &layer.gate, &layer.up, &layer.down}) {
      count += static_cast<int64_t>(matrix->nonzeros());
    }
  }
  return count;
}

}  // namespace

absl::StatusOr<BuiltCircuit> BuildCircuit(int base_hidden, const CircuitLimits& limits) {
  if (base_hidden < 1 || base_hidden > 65536) {
    return absl::InvalidArgumentError(fmt::format("a base of hidden size {}; 1 to 65536 are supported", base_hidden));
  }
  QGPU_ASSIGN_OR_RETURN(const MachineNetlist machine, BuildMachineNetlist());
  QGPU_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(machine, base_hidden + kAddedDimensions, limits));
  BuiltCircuit built;
  QGPU_ASSIGN_OR_RETURN(built.circuit, CircuitBuilder(machine, schedule, base_hidden).Build());
  built.report = {schedule.figures,      schedule.width,         MachineVocabularySize(), NonZeros(built.circuit),
                  schedule.worst_margin, schedule.float32_error, schedule.noisiest_signal};
  return built;
}

}  // namespace qgpu
