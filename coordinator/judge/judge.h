// The judge: from what every party left behind to a verdict. Pure functions; nothing that a worker says about itself
// (how its launch ended, how many tokens it wrote) is taken from anywhere but its tokens and its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/launch_spec.h"
#include "machine/isa/machine_launch.h"
#include "reports/rows.h"

namespace qgpu {

// What the model left behind. Ids are machine ids, or -1 - t for text id t.
struct ModelEvidence {
  std::span<const int32_t> tokens;
  std::optional<MachineState> state;  // none: the launch was stopped before its end, or the worker sent none
  std::string fault;                  // what the worker could not read from the model's state; else empty
};

// What an interpreter run on the oracle's side left behind; checked against the reference, so that two builds which
// mean different things by a program are noticed.
struct InterpreterEvidence {
  std::span<const int32_t> tokens;
  MachineState state;
};

struct NativeEvidence {
  MemoryImage memory;   // the arena, word 0 included
  std::string engine;   // "native-cpu"
  std::string witness;  // "native-cpu (x86-64, AMD EPYC 7B13)"
};

struct JudgeInput {
  MachineLaunch launch;
  int64_t token_budget = 0;
  MachineRun reference;    // Interpret(launch, token_budget), by the judge's own side
  size_t arena_words = 0;  // words of memory that native engines have too; what follows is the machine's own
  bool expects_trap = false;
  std::string expect_text;  // must occur in the trap's text
  std::string source_name;  // for messages
  bool replay = true;       // compare every position, not only the outcome

  ModelEvidence model;
  std::optional<InterpreterEvidence> interpreter;
  std::optional<NativeEvidence> native;  // none for a case that expects a trap
  std::string native_failure;            // what the native engine said where it did not run to its end; else empty
};

struct Verdict {
  CaseStatus status = CaseStatus::kFail;  // kPass or kFail
  std::string message;                    // one line for each finding; empty when passed
  LaunchRow launch;
};

// Compares, in this order: every token of the model with the reference, how the launch ended, the whole memory of the
// machine and its registers between model and interpreter, the arena between model, interpreter and native, and the
// oracle's interpreter with the reference. Passed means that no comparison found anything.
Verdict Judge(const JudgeInput& input);

// The tokens of a launch against the reference's, and nothing else: a row with `tokens`, `passes`, `end`,
// `positions_checked`, `mismatches` and the first difference. Positions that only one of the two has are mismatches.
LaunchRow CompareTokens(std::span<const int32_t> expected, std::span<const int32_t> got);
// "position 3: expected DONE, the model wrote EXEC(1, 0b1111) (2 of 30 positions differ)". Needs a mismatch.
std::string DescribeTokenDifference(const LaunchRow& launch);

// "EXEC(3, 0b1111)", "text token 17", "end of trace" for a position that has none.
std::string FormatTracePosition(std::span<const int32_t> ids, int64_t position);

// Machine ids of reference tokens.
std::vector<int32_t> TokenIds(const std::vector<Token>& tokens);

}  // namespace qgpu
