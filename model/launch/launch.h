// A launch on a model: the host's tokens go in, then the model alone writes until the launch ends, and the results are
// read from its recurrent state. Entry points: RunLaunch, CheckRun.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "machine/isa/machine_launch.h"
#include "model/forward/executor.h"
#include "model/weights/circuit.h"

namespace qgpu {

// What the cells hold after a launch, beside memory and registers.
struct PassContext {
  int warp = 0;                             // current machine warp
  int block = 0, mask = 0;                  // the last EXEC token's
  bool executed = false;                    // an EXEC token was seen
  std::array<uint32_t, 3> cta = {0, 0, 0};  // current thread block
};

struct ModelRun {
  LaunchEnd end = LaunchEnd::kDone;
  // Every id that the model wrote, DONE or TRAP included, as Executor::Feed gives them.
  std::vector<int32_t> ids;
  // The same as tokens; shorter than `ids` by the last one when that was no token of the model's to write.
  std::vector<Token> tokens;
  int64_t passes = 0;  // EXEC tokens among them
  // kDataLoss when the model wrote an id that only the host feeds, or text, or none (naming the position: the launch
  // stops there, `end` means nothing), or when a cell holds no clear bits (naming it: `state` is then incomplete).
  absl::Status fault;
  MachineState state;
  PassContext context;
  int64_t host_tokens = 0;
  int64_t prefill_ns = 0, decode_ns = 0, read_ns = 0;
};

// Called with every id as the model writes it. False stops the launch.
using OnToken = std::function<bool(int32_t id)>;

// Resets the executor, feeds `host_tokens` and lets the model write by argmax until DONE, TRAP, `token_budget` tokens
// (at least 1) or a fault. Executor and circuit belong together. kFailedPrecondition for a circuit whose vocabulary or
// cells are not the machine's, kInvalidArgument for no host tokens or no budget, kCancelled when `on_token` said so,
// otherwise the executor's own errors.
absl::StatusOr<ModelRun> RunLaunch(Executor& executor, const Circuit& circuit, const std::vector<Token>& host_tokens,
                                   int64_t token_budget, const OnToken& on_token = nullptr);

// The same after all that the executor was fed before, text or launches: nothing is reset but the machine, by the first
// of `host_tokens`, which has to be RESET (kInvalidArgument). Trace and state are those of RunLaunch. The last token
// written has not been fed.
absl::StatusOr<ModelRun> RunLaunchWithoutReset(Executor& executor, const Circuit& circuit,
                                               const std::vector<Token>& host_tokens, int64_t token_budget,
                                               const OnToken& on_token = nullptr);

// Memory, registers and context from the recurrent state as it is now. kDataLoss naming the cell, row and bit that is
// neither 0 nor 1 nor unwritten; kFailedPrecondition for missing or misshapen cells.
absl::Status ReadCells(Executor& executor, const Circuit& circuit, MachineState& state, PassContext& context);

// What trapped, from the launch's program and the state that the run left: the address is computed from the registers,
// memory and special words as the trapping pass found them, and from the predicates that the run's PRED tokens wrote.
// For runs that ended in kTrap without fault. kDataLoss when the trap token contradicts the program or the state.
absl::StatusOr<TrapReport> ExplainTrap(const MachineLaunch& launch, const ModelRun& run);

struct WordDifference {
  std::string where;  // "memory word 5", "register 3 of warp 1 lane 2"
  uint32_t expected = 0, got = 0;
};

struct CheckReport {
  int64_t positions_checked = 0;
  int64_t mismatches = 0;  // positions with another token, or with one too many or too few
  struct Mismatch {
    int64_t position = 0;       // from 0, the model's first token
    std::string expected, got;  // as FormatToken writes them; "nothing" past the end
  };
  std::optional<Mismatch> first;
  std::vector<WordDifference> words;  // memory and registers; not compared when the budget ended the run
  std::string trap;                   // what differs in the trap's report
  bool exact() const { return mismatches == 0 && words.empty() && trap.empty(); }
};

// Replays the run against the reference interpreter: every token, the final memory and registers, and the trap.
CheckReport CheckRun(const MachineLaunch& launch, const ModelRun& run);

// "1,234 positions, 0 mismatches", or the first difference, for people.
std::string FormatCheck(const CheckReport& report);

// Resets the executor, feeds all tokens as a prompt and returns the argmax at every position.
absl::StatusOr<std::vector<int32_t>> TeacherForced(Executor& executor, const std::vector<Token>& tokens);

// Compares the argmax at every position of a trace, host tokens in front, with the trace. As CheckRun, without state.
absl::StatusOr<CheckReport> CheckTeacherForced(Executor& executor, const std::vector<Token>& host_tokens,
                                               const std::vector<Token>& trace);

// An id as FormatToken writes it; "text id 5" and "id 99999" for what is no machine token.
std::string FormatId(int32_t id);

}  // namespace qgpu
