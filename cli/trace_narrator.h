// A trace in words: what every token that the machine wrote did, and for which line of the kernel.
#pragma once

#include <cstdint>
#include <string>

#include "machine/isa/machine_launch.h"

namespace qgpu {

class TraceNarrator {
 public:
  struct Line {
    std::string what;        // "thread 2: r3 = -5"
    SlotOrigin origin = {};  // of the slot or block it is about; empty: of none
  };

  // The launch must outlive the narrator.
  explicit TraceNarrator(const MachineLaunch& launch) : launch_(launch) {}

  // The tokens of a trace, one after the other from the first. Any sequence is narrated, also one that a broken model
  // wrote: what refers to nothing says so.
  Line Narrate(Token token);

 private:
  Line NarrateExec(Token token);
  Line NarrateValue(Token token, int chunk);
  Line NarratePredicates(Token token);
  Line OfSlot(int slot, std::string what) const;
  std::string Threads(int mask) const;

  const MachineLaunch& launch_;
  int warp_ = 0, block_ = -1, mask_ = 0;
  int store_base_ = -1;
  // The value that VAL1 and VAL2 continue.
  int slot_ = 0, lane_mask_ = 0;
  uint32_t value_ = 0;
};

}  // namespace qgpu
