#include "machine/isa/machine_launch.h"

namespace qgpu {
namespace {

// The host assembles 64-bit words from bytes, sending only those that differ from the word before.
class HostWriter {
 public:
  std::vector<Token> tokens;

  void Word(uint64_t word) {
    for (int i = 0; i < 8; ++i) {
      const int byte = static_cast<int>(word >> 8 * i & 255);
      if (previous_[i] == byte) continue;
      tokens.push_back(Token::Val0(i / 4, i % 4, byte));
      previous_[i] = byte;
    }
  }

  // The current value, as VAL tokens; as few as its size allows. They pass through assembly row 0 as well.
  void Value(uint32_t value) {
    const auto fits = [value](int bits) {
      return (static_cast<int32_t>(value << (32 - bits)) >> (32 - bits)) == static_cast<int32_t>(value);
    };
    tokens.push_back(Token::Val0(0, 0, static_cast<int>(value & 255)));
    previous_[0] = static_cast<int>(value & 255);
    if (!fits(8)) tokens.push_back(Token::Val1(static_cast<int>(value >> 8 & 4095)));
    if (!fits(20)) tokens.push_back(Token::Val2(static_cast<int>(value >> 20)));
  }

 private:
  int previous_[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
};

// Thread indices of the four lanes of a warp in the high half of a special row, 6 bits a lane.
uint64_t ThreadIndexRow(const MachineLaunch& launch, int warp, int axis) {
  const uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  uint64_t row = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t thread = warp * kLanes + lane;
    if (thread >= threads) continue;
    const uint32_t index[4] = {thread, thread % launch.block[0], thread / launch.block[0] % launch.block[1],
                               thread / (launch.block[0] * launch.block[1])};
    row |= uint64_t{index[axis]} << (32 + 6 * lane);
  }
  return row;
}

}  // namespace

const char* EndName(LaunchEnd end) {
  switch (end) {
    case LaunchEnd::kDone:
      return "done";
    case LaunchEnd::kTrap:
      return "trap";
    case LaunchEnd::kBudget:
      return "budget";
  }
  return "?";
}

absl::Status ValidateLaunch(const MachineLaunch& launch, const MachineGeometry& geometry) {
  QGPU_RETURN_IF_ERROR(ValidateProgram(launch.program, geometry));
  uint64_t threads = 1;
  for (uint32_t n : launch.block) threads *= n;
  if (threads == 0 || threads > static_cast<uint64_t>(geometry.max_threads())) {
    return absl::InvalidArgumentError(
        fmt::format("a thread block of {} threads; the machine runs 1 to {}", threads, geometry.max_threads()));
  }
  const uint32_t grid_limits[3] = {kMaxGridX, kMaxGridY, kMaxGridZ};
  for (int axis = 0; axis < 3; ++axis) {
    if (launch.grid[axis] == 0 || launch.grid[axis] > grid_limits[axis]) {
      return absl::InvalidArgumentError(
          fmt::format("grid.{} is {}; the machine runs 1 to {}", "xyz"[axis], launch.grid[axis], grid_limits[axis]));
    }
  }
  if (launch.parameters.size() > static_cast<size_t>(geometry.parameter_words)) {
    return absl::InvalidArgumentError(fmt::format("needs {} parameter words, the machine has {}",
                                                  launch.parameters.size(), geometry.parameter_words));
  }
  if (launch.memory.size() > static_cast<size_t>(geometry.memory_words)) {
    return absl::InvalidArgumentError(
        fmt::format("needs {} words of memory, the machine has {}", launch.memory.size(), geometry.memory_words));
  }
  return absl::OkStatus();
}

std::vector<Token> HostTokens(const MachineLaunch& launch) {
  HostWriter host;
  host.tokens.push_back(Token::Reset());
  for (size_t block = 0; block < launch.program.blocks.size(); ++block) {
    const MachineBlock& code = launch.program.blocks[block];
    for (int slot = 0; slot < kSlots; ++slot) {
      if (code.slots[slot].op == Op::kNop) continue;  // an unwritten row reads as nop
      host.Word(EncodeInstruction(code.slots[slot]));
      host.tokens.push_back(Token::Row(static_cast<int>(block), slot));
    }
    host.Word(EncodeControl(code.control));
    host.tokens.push_back(Token::Row(static_cast<int>(block), 4));
  }
  for (size_t i = 0; i < launch.parameters.size(); ++i) {
    host.Word(launch.parameters[i]);
    host.tokens.push_back(Token::SpecialRow(kSpecialFirstParameter + static_cast<int>(i)));
  }
  // Rows 32 + 8 axis + warp: tid.x, tid.y, tid.z and (axis 3) the lane id, which here is the thread's number.
  constexpr int kRowAxis[4] = {3, 0, 1, 2};
  for (int axis = 0; axis < 4; ++axis) {
    for (int warp = 0; warp < kWarps; ++warp) {
      const uint64_t row = ThreadIndexRow(launch, warp, axis);
      if (row == 0) continue;
      host.Word(row);
      host.tokens.push_back(Token::SpecialRow(32 + 8 * kRowAxis[axis] + warp));
    }
  }
  for (size_t address = 0; address < launch.memory.size(); ++address) {
    if (launch.memory[address] == 0) continue;
    host.Value(launch.memory[address]);
    host.tokens.push_back(Token::MemWord(static_cast<int>(address)));
  }
  host.Word(uint64_t{launch.grid[0] - 1} | uint64_t{launch.grid[1] - 1} << 8 | uint64_t{launch.grid[2] - 1} << 16);
  host.tokens.push_back(Token::Grid());
  for (int axis = 0; axis < 3; ++axis) host.tokens.push_back(Token::Cta(axis, 0));
  host.tokens.push_back(Token::Bar(0));
  host.tokens.push_back(Token::SwitchWarp(0));
  const uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  for (int warp = 0; warp < kWarps; ++warp) {
    int mask = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) mask |= (warp * kLanes + lane < threads ? 1 : 0) << lane;
    host.tokens.push_back(Token::Warp(warp, mask));
  }
  return host.tokens;
}

}  // namespace qgpu
