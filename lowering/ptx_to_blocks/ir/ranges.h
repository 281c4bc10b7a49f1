// Which numbers a value can be, as signed intervals. The bounds come from the launch: its shape, its arguments, and its
// token budget, since every turn of a loop costs at least one token. They serve proofs only: no argument's value ever
// reaches the code.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kernels/launch_spec.h"
#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

// low > high: no value (unreachable). 32-bit values are taken as signed.
struct Range {
  int64_t low = 1, high = 0;
  bool empty() const { return low > high; }
  bool Within(int64_t from, int64_t to) const { return low >= from && high <= to; }
  bool operator==(const Range&) const = default;
};

struct LaunchFacts {
  Dim3 grid, block;
  std::vector<uint64_t> words;  // value of each parameter word, with the following word above it where there is one
  int64_t token_budget = 0;
  // Of each parameter word: it is the low half of a buffer's address, a multiple of this power of two; 0: it is not.
  std::vector<uint32_t> alignment;
};

// A value modulo a power of two, or -1 where that is not known.
int LowBits(const IrFunction& function, const LaunchFacts& facts, int value, uint32_t modulus = 4);

// The analysis, which can also say what a value is at one place, where the branches on the way there tell more.
class Ranges {
 public:
  // All three must outlive it; instructions may be added to the function meanwhile, and nothing is known of these.
  Ranges(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts);

  const std::vector<Range>& values() const { return ranges_; }
  Range Of(int value) const {
    return static_cast<size_t>(value) < ranges_.size() ? ranges_[value] : Everything(f_.at(value).type);
  }
  // In `block`, and where `guard` is true (or false, with `negate`) unless it is -1.
  Range At(int block, int value, int guard = -1, bool negate = false) const;

 private:
  struct Condition {  // compare(value, other) holds
    int value;
    Compare compare;
    int other;
  };
  // A phi to which turns of a loop add something.
  struct Walk {
    bool steps = false;
    bool counts = false;  // each turn steps, all in one direction, and nothing else comes from inside of the loop
    Range start, step;
  };

  static Range Everything(Type type);
  Range Placeless(const IrInstruction& in) const;
  void Collect(int predicate, bool truth, int terms, std::vector<Condition>& conditions) const;
  std::vector<Condition> OnEdge(int from, int to) const;
  void FindConditions();
  Range Under(const std::vector<Condition>& conditions, int value, Range range) const;
  Range In(int block, int value) const;
  Range LookedThrough(int block, int value, const std::vector<Condition>& extra, int depth) const;
  Range Transfer(int block, const IrInstruction& in) const;
  Range Joined(int value) const;
  bool StepFrom(int phi, int value, int terms, Range added, Range* step) const;
  Walk WalkOf(int phi) const;
  static Range Reach(const Walk& walk, Type type, int64_t turns);
  int64_t Turns(int block) const;
  void Grow();
  void Shrink();

  const IrFunction& f_;
  const FlowGraph& flow_;
  const LaunchFacts& facts_;
  std::vector<Range> ranges_;
  std::vector<std::vector<Condition>> conditions_;               // [block]: of its only way in
  std::map<std::pair<int, int>, std::vector<Condition>> edges_;  // into blocks with phis
  std::set<std::pair<int, int>> back_edges_;                     // of these
};

std::vector<Range> AnalyzeRanges(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts);

// A phi that a constant is added to in every turn: args that are not `phi + constant` are where it starts.
struct Induction {
  std::vector<int> starts;
  int64_t step_low = 0, step_high = 0;  // smallest and greatest constant that a turn adds
};
// False where `phi` is none.
bool IsInduction(const IrFunction& function, int phi, Induction* induction);

}  // namespace qgpu::lower
