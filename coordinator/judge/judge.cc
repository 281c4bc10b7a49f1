#include "coordinator/judge/judge.h"

#include <algorithm>

#include "fmt/format.h"
#include "machine/interpreter/interpreter.h"
#include "machine/isa/trap_report.h"

namespace qgpu {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kInterpreter = "interpreter";
constexpr const char* kOracleInterpreter = "oracle's interpreter";

// How a trace ended, from the trace alone.
LaunchEnd EndOf(std::span<const int32_t> ids) {
  if (!ids.empty() && ids.back() >= 0) {
    const auto last = TokenFromId(ids.back());
    if (last.ok() && last->kind == TokenKind::kDone) return LaunchEnd::kDone;
    if (last.ok() && last->kind == TokenKind::kTrap) return LaunchEnd::kTrap;
  }
  return LaunchEnd::kBudget;
}

int64_t CountPasses(std::span<const int32_t> ids) {
  return std::count_if(ids.begin(), ids.end(), [](int32_t id) {
    if (id < 0) return false;
    const auto token = TokenFromId(id);
    return token.ok() && token->kind == TokenKind::kExec;
  });
}

struct Replay {
  int64_t checked = 0, mismatches = 0, first = -1;
};

// Token for token; positions that only one of the two has are mismatches.
Replay CompareTraces(std::span<const int32_t> expected, std::span<const int32_t> got) {
  Replay replay;
  replay.checked = static_cast<int64_t>(std::max(expected.size(), got.size()));
  for (int64_t i = 0; i < replay.checked; ++i) {
    const bool in_both = i < std::ssize(expected) && i < std::ssize(got);
    if (in_both && expected[i] == got[i]) continue;
    ++replay.mismatches;
    if (replay.first < 0) replay.first = i;
  }
  return replay;
}

uint32_t WordAt(const std::vector<uint32_t>& memory, size_t word) { return word < memory.size() ? memory[word] : 0; }

// The position of the token whose pass gave `word` its final value in the reference trace: the longest prefix after
// which it is not there yet. -1 if it never changed.
int64_t WritePosition(const JudgeInput& input, size_t word) {
  const uint32_t final_value = WordAt(input.reference.state.memory, word);
  const auto has_final_value = [&](int64_t tokens) {
    return WordAt(Interpret(input.launch, tokens).state.memory, word) == final_value;
  };
  int64_t without = 0, with = std::ssize(input.reference.tokens);
  if (WordAt(input.launch.memory, word) == final_value) return -1;
  while (with - without > 1) {
    const int64_t middle = without + (with - without) / 2;
    (has_final_value(middle) ? with : without) = middle;
  }
  return with - 1;
}

// Who is alone against two that agree; "all three" where nobody agrees with anybody.
std::string OddOneOut(uint32_t model, uint32_t interpreter, std::optional<uint32_t> native, const std::string& engine) {
  if (!native.has_value()) return kModel;
  if (interpreter == *native) return kModel;
  if (model == *native) return kInterpreter;
  if (model == interpreter) return engine;
  return "all three";
}

class Findings {
 public:
  explicit Findings(const JudgeInput& input) : input_(input) {}

  void Add(const std::string& text) { message_ += (message_.empty() ? "" : "\n") + text; }
  void Blame(const std::string& party) {
    if (launch.odd_one_out.empty()) launch.odd_one_out = party;
  }

  void Trace();
  void End();
  void Native();
  void Memory();
  void Registers();
  void OracleInterpreter();

  Verdict Finish() {
    Verdict verdict;
    verdict.status = message_.empty() ? CaseStatus::kPass : CaseStatus::kFail;
    verdict.message = message_;
    verdict.launch = launch;
    return verdict;
  }

  LaunchRow launch;

 private:
  const JudgeInput& input_;
  std::string message_;
};

void Findings::Trace() {
  const std::vector<int32_t> expected = TokenIds(input_.reference.tokens);
  const LaunchRow compared = CompareTokens(expected, input_.model.tokens);
  launch.tokens = compared.tokens;
  launch.passes = compared.passes;
  launch.end = compared.end;
  if (!input_.replay) return;
  launch.positions_checked = compared.positions_checked;
  launch.mismatches = compared.mismatches;
  launch.token_difference = compared.token_difference;
  if (launch.mismatches == 0) return;
  Blame(kModel);
  Add(DescribeTokenDifference(launch));
}

void Findings::End() {
  const LaunchEnd end = EndOf(input_.model.tokens);
  const LaunchEnd expected_end = input_.expects_trap ? LaunchEnd::kTrap : LaunchEnd::kDone;
  if (end != input_.reference.end) {
    Blame(kModel);
    Add(fmt::format("the model's launch ended with {}, the reference with {}", EndName(end),
                    EndName(input_.reference.end)));
  }
  if (input_.reference.end == LaunchEnd::kBudget) {
    Add(fmt::format(
        "the token budget of {} is used up before the kernel ends: it does not end, or needs a larger budget",
        input_.token_budget));
  }
  std::string trap = "no trap is recorded";
  if (input_.reference.trap.has_value()) {
    trap = DescribeTrap(*input_.reference.trap, input_.launch.program, input_.source_name);
  }
  if (input_.reference.end == LaunchEnd::kTrap && expected_end != LaunchEnd::kTrap) Add("the kernel trapped: " + trap);
  if (input_.reference.end == LaunchEnd::kDone && expected_end == LaunchEnd::kTrap) {
    Add("the kernel ran to its end, the case expects a trap");
  }
  if (input_.expects_trap && input_.reference.end == LaunchEnd::kTrap &&
      trap.find(input_.expect_text) == std::string::npos) {
    Add(fmt::format("the trap is \"{}\", the case expects \"{}\" in it", trap, input_.expect_text));
  }
}

void Findings::Native() {
  if (input_.native_failure.empty()) return;
  if (input_.reference.end == LaunchEnd::kDone) Blame("native engine");
  Add("the native engine did not run to the kernel's end: " + input_.native_failure);
}

void Findings::Memory() {
  const std::vector<uint32_t>& model = input_.model.state->memory;
  const std::vector<uint32_t>& reference = input_.reference.state.memory;
  if (model.size() != reference.size()) {
    Blame(kModel);
    Add(fmt::format("the model has {} words of memory, the interpreter {}", model.size(), reference.size()));
  }
  const bool with_native = input_.native.has_value();
  if (with_native && input_.native->memory.size() != input_.arena_words) {
    Blame(input_.native->engine);
    Add(fmt::format("{} returned {} words, the arena has {}", input_.native->engine, input_.native->memory.size(),
                    input_.arena_words));
  }
  for (size_t word = 0; word < std::max(model.size(), reference.size()); ++word) {
    std::optional<uint32_t> native;
    if (with_native && word < input_.arena_words) native = WordAt(input_.native->memory, word);
    const uint32_t of_model = WordAt(model, word), of_reference = WordAt(reference, word);
    if (of_model == of_reference && (!native.has_value() || *native == of_reference)) continue;
    const std::string odd = OddOneOut(of_model, of_reference, native, with_native ? input_.native->engine : "");
    launch.word_difference = DifferingWord{fmt::format("word {} (byte {})", word, 4 * word),
                                           static_cast<int64_t>(word),
                                           of_model,
                                           of_reference,
                                           native,
                                           WritePosition(input_, word)};
    Blame(odd);
    const int64_t position = launch.word_difference->trace_position;
    Add(fmt::format(
        "{}: model {}, interpreter {}, native {}; {} is the odd one out; {}", launch.word_difference->place,
        static_cast<int32_t>(of_model), static_cast<int32_t>(of_reference),
        native.has_value() ? std::to_string(static_cast<int32_t>(*native)) : "has no part", odd,
        position < 0 ? "no pass of the reference trace changed it" : fmt::format("written at position {}", position)));
    return;
  }
}

void Findings::Registers() {
  for (int warp = 0; warp < kWarps; ++warp) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int row = 1; row < 16; ++row) {
        const uint32_t of_model = input_.model.state->registers[warp][lane][row];
        const uint32_t of_reference = input_.reference.state.registers[warp][lane][row];
        if (of_model == of_reference) continue;
        const std::string place = fmt::format("warp {} lane {} r{}", warp, lane, row);
        Blame(kModel);
        if (!launch.word_difference.has_value()) {
          launch.word_difference = DifferingWord{place, -1, of_model, of_reference, std::nullopt, -1};
        }
        Add(fmt::format("{}: model {}, interpreter {}", place, static_cast<int32_t>(of_model),
                        static_cast<int32_t>(of_reference)));
        return;
      }
    }
  }
}

void Findings::OracleInterpreter() {
  if (!input_.interpreter.has_value()) return;
  const std::vector<int32_t> expected = TokenIds(input_.reference.tokens);
  const Replay replay = CompareTraces(expected, input_.interpreter->tokens);
  if (replay.mismatches > 0) {
    Blame(kOracleInterpreter);
    Add(fmt::format(
        "the oracle's interpreter writes {} at position {}, this program's {}; are they of different builds?",
        FormatTracePosition(input_.interpreter->tokens, replay.first), replay.first,
        FormatTracePosition(expected, replay.first)));
  } else if (!(input_.interpreter->state == input_.reference.state)) {
    Blame(kOracleInterpreter);
    Add("the oracle's interpreter leaves another memory or other registers than this program's, after the same tokens");
  }
}

}  // namespace

Verdict Judge(const JudgeInput& input) {
  Findings findings(input);
  if (input.native.has_value()) findings.launch.native_witness = input.native->witness;
  findings.Trace();
  findings.End();
  findings.Native();
  if (!input.model.fault.empty()) {
    findings.Blame(kModel);
    findings.Add("the model's state is not readable: " + input.model.fault);
  } else if (input.reference.end == LaunchEnd::kBudget) {
    // Cut off somewhere: nothing to compare.
  } else if (input.model.state.has_value()) {
    findings.Memory();
    if (input.replay) findings.Registers();
  } else {
    findings.Blame(kModel);
    findings.Add("the launch was stopped before its end: the model's memory was not read");
  }
  findings.OracleInterpreter();
  return findings.Finish();
}

LaunchRow CompareTokens(std::span<const int32_t> expected, std::span<const int32_t> got) {
  LaunchRow launch;
  launch.tokens = std::ssize(got);
  launch.passes = CountPasses(got);
  launch.end = EndName(EndOf(got));
  const Replay replay = CompareTraces(expected, got);
  launch.positions_checked = replay.checked;
  launch.mismatches = replay.mismatches;
  if (replay.mismatches == 0) return launch;
  launch.odd_one_out = kModel;
  launch.token_difference = TokenDifference{replay.first, FormatTracePosition(expected, replay.first),
                                            FormatTracePosition(got, replay.first)};
  return launch;
}

std::string DescribeTokenDifference(const LaunchRow& launch) {
  const TokenDifference& first = *launch.token_difference;
  return fmt::format("position {}: expected {}, the model wrote {} ({} of {} positions differ)", first.position,
                     first.expected, first.got, launch.mismatches, launch.positions_checked);
}

std::string FormatTracePosition(std::span<const int32_t> ids, int64_t position) {
  if (position >= std::ssize(ids)) return "end of trace";
  const int32_t id = ids[position];
  if (id < 0) return fmt::format("text token {}", -1 - id);
  const auto token = TokenFromId(id);
  return token.ok() ? FormatToken(*token) : fmt::format("unknown id {}", id);
}

std::vector<int32_t> TokenIds(const std::vector<Token>& tokens) {
  std::vector<int32_t> ids;
  ids.reserve(tokens.size());
  for (Token token : tokens) ids.push_back(TokenToId(token));
  return ids;
}

}  // namespace qgpu
