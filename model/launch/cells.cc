// Reading results from the recurrent state: rows of heads, every bit on two rails.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "model/launch/launch.h"

namespace qgpu {
namespace {

// A rail that is on holds the magnitude of the row, one that is off holds 0, both within this part of it.
constexpr float kTolerance = 0.1f;
// A row below the first is unwritten; one between the two is neither written nor unwritten.
constexpr float kUnwrittenBelow = 0.01f, kWrittenFrom = 0.5f;

class CellReader {
 public:
  CellReader(Executor& executor, const Circuit& circuit) : executor_(executor), circuit_(circuit) {}

  // All rows of a bank, each a word of `bits` bits.
  absl::StatusOr<std::vector<uint32_t>> Read(const std::string& name, int rows, int bits) {
    const auto found = circuit_.cells.find(name);
    if (found == circuit_.cells.end()) {
      return absl::FailedPreconditionError(fmt::format("the circuit has no cells \"{}\"", name));
    }
    const CellBank& bank = found->second;
    if (bank.rows < rows || static_cast<int>(bank.dims.size()) != bits) {
      return absl::FailedPreconditionError(fmt::format("cells \"{}\" are {} rows of {} bits, expected {} of {}", name,
                                                       bank.rows, bank.dims.size(), rows, bits));
    }
    QGPU_ASSIGN_OR_RETURN(const std::vector<float>* state, State(bank.layer, bank.head));
    std::vector<uint32_t> words(rows);
    for (int row = 0; row < rows; ++row) {
      const float* values = state->data() + static_cast<size_t>(bank.first_row + row) * kHeadDim;
      const absl::StatusOr<uint32_t> word = Word(values, bank.dims);
      if (!word.ok()) {
        return absl::DataLossError(
            fmt::format("cell \"{}\" row {}: {}", name, row, std::string(word.status().message())));
      }
      words[row] = *word;
    }
    return words;
  }

 private:
  absl::StatusOr<const std::vector<float>*> State(int layer, int head) {
    const auto place = std::pair(layer, head);
    if (!states_.contains(place)) {
      QGPU_ASSIGN_OR_RETURN(states_[place], executor_.ReadState(layer, head));
    }
    return &states_[place];
  }

  static absl::StatusOr<uint32_t> Word(const float* values, const std::vector<int32_t>& dims) {
    constexpr int kComplement = kHeadDim / 2;
    float scale = 0;
    for (const int32_t dim : dims) {
      scale = std::max({scale, std::abs(values[dim]), std::abs(values[dim + kComplement])});
      if (std::isnan(values[dim]) || std::isnan(values[dim + kComplement])) scale = NAN;
    }
    if (scale < kUnwrittenBelow) return 0;
    uint32_t word = 0;
    for (size_t bit = 0; bit < dims.size(); ++bit) {
      const float on = values[dims[bit]], off = values[dims[bit] + kComplement];
      const float high = std::max(on, off), low = std::min(on, off);
      const bool clear =
          scale >= kWrittenFrom && high >= (1 - kTolerance) * scale && std::abs(low) <= kTolerance * scale;
      if (!clear) return absl::DataLossError(fmt::format("bit {} has its rails at {} and {}", bit, on, off));
      if (on > off) word |= uint32_t{1} << bit;
    }
    return word;
  }

  Executor& executor_;
  const Circuit& circuit_;
  std::map<std::pair<int, int>, std::vector<float>> states_;
};

}  // namespace

absl::Status ReadCells(Executor& executor, const Circuit& circuit, MachineState& state, PassContext& context) {
  CellReader reader(executor, circuit);
  QGPU_ASSIGN_OR_RETURN(state.memory, reader.Read("memory", circuit.geometry.memory_words, 32));
  for (int lane = 0; lane < kLanes; ++lane) {
    QGPU_ASSIGN_OR_RETURN(const std::vector<uint32_t> rows,
                          reader.Read(fmt::format("register.{}", lane), kHeadDim, 32));
    for (int warp = 0; warp < kWarps; ++warp) {
      for (int r = 1; r < 16; ++r) state.registers[warp][lane][r] = rows[warp * 16 + r];
    }
  }
  QGPU_ASSIGN_OR_RETURN(const std::vector<uint32_t> warp, reader.Read("warp", 1, 3));
  context.warp = static_cast<int>(warp[0]);
  QGPU_ASSIGN_OR_RETURN(const std::vector<uint32_t> exec, reader.Read("exec", 1, 10));
  context.block = static_cast<int>(exec[0] & 31);
  context.mask = static_cast<int>(exec[0] >> 5 & 15);
  context.executed = exec[0] >> 9 & 1;
  const std::pair<const char*, int> axes[] = {{"cta.x", 8}, {"cta.y", 8}, {"cta.z", 6}};
  for (int axis = 0; axis < 3; ++axis) {
    QGPU_ASSIGN_OR_RETURN(const std::vector<uint32_t> index, reader.Read(axes[axis].first, 1, axes[axis].second));
    context.cta[axis] = index[0];
  }
  return absl::OkStatus();
}

}  // namespace qgpu
