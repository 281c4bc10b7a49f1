// A launch as the machine sees it: a program, its special words, the memory image and the launch shape.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/isa/isa.h"
#include "machine/isa/token.h"

namespace qgpu {

struct MachineLaunch {
  Program program;
  std::array<uint32_t, 3> grid = {1, 1, 1};   // at most 256 x 256 x 64
  std::array<uint32_t, 3> block = {1, 1, 1};  // at most 32 threads in all
  std::vector<uint32_t> parameters;           // special words from kSpecialFirstParameter on; at most 25
  std::vector<uint32_t> memory;               // initial content from word 0 on; at most 126 words
};

// Limits of MachineLaunch, checked: kInvalidArgument saying by how much it does not fit.
absl::Status ValidateLaunch(const MachineLaunch& launch, const MachineGeometry& geometry);

// The tokens the host feeds, like a prompt: reset, program, special words, memory image, launch shape. The argmax of
// the model at the last of them is the first token of the launch's trace.
std::vector<Token> HostTokens(const MachineLaunch& launch);

// How a launch ended.
enum class LaunchEnd { kDone, kTrap, kBudget };

// "done", "trap", "budget".
const char* EndName(LaunchEnd end);

struct TrapReport {
  TrapKind kind = TrapKind::kOutOfRange;
  int slot = 0, lane = 0;
  int warp = 0, block = 0;                  // machine warp and machine block of the pass
  std::array<uint32_t, 3> cta = {0, 0, 0};  // thread block
  std::array<uint32_t, 3> thread = {0, 0, 0};
  uint32_t address = 0;  // byte address; not for barrier divergence
  // Barrier divergence: `thread` waits in `block`, another one of the same thread block here; -1 where not known.
  int other_block = -1;
  std::array<uint32_t, 3> other_thread = {0, 0, 0};
};

// What a run leaves behind, whichever engine ran it.
struct MachineState {
  std::vector<uint32_t> memory;  // 126 words
  // registers[warp][lane][register], register 0 unused; unwritten ones are 0
  std::array<std::array<std::array<uint32_t, 16>, kLanes>, kWarps> registers = {};
  bool operator==(const MachineState&) const = default;
};

struct MachineRun {
  LaunchEnd end = LaunchEnd::kDone;
  std::vector<Token> tokens;  // written by the machine, DONE or TRAP included
  int64_t passes = 0;         // EXEC tokens among them
  std::optional<TrapReport> trap;
  MachineState state;
};

}  // namespace qgpu
