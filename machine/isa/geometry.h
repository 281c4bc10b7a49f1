// The machine's shape: a value that the interpreter, the circuit and the lowering are derived from.
#pragma once

#include <cstdint>

namespace qgpu {

struct MachineGeometry {
  int lanes = 4;             // per machine warp
  int registers = 16;        // rows a warp and lane; register 0 is the forwarding row and reads as "none"
  int warps = 8;             // resident machine warps: a thread block of up to lanes * warps threads
  int slots = 4;             // instructions a machine block, run in order in one forward pass
  int blocks = 32;           // program ROM
  int predicates = 16;       // rows a warp and lane; predicate 0 means "always"
  int memory_words = 126;    // 32-bit words; addresses from here on are out of range, and so is word 0 (null)
  int parameter_words = 25;  // special words that a launch fills with parameters and launch constants

  int max_threads() const { return lanes * warps; }
  bool operator==(const MachineGeometry&) const = default;
};

// Grids a CTA token can name (8, 8 and 6 bits).
inline constexpr uint32_t kMaxGridX = 256, kMaxGridY = 256, kMaxGridZ = 64;

}  // namespace qgpu
