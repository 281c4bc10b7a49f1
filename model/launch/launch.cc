#include "model/launch/launch.h"

#include <algorithm>

#include "common/stopwatch.h"

namespace qgpu {
namespace {

// True for tokens that a model may write.
bool IsMachineWritten(TokenKind kind) { return kind < TokenKind::kReset; }

std::vector<int32_t> Ids(const std::vector<Token>& tokens) {
  std::vector<int32_t> ids;
  ids.reserve(tokens.size());
  for (const Token token : tokens) ids.push_back(TokenToId(token));
  return ids;
}

// Takes the id that the model wrote into the run. False when the launch is over.
bool Accept(int32_t id, int64_t token_budget, ModelRun& run) {
  run.ids.push_back(id);
  const absl::StatusOr<Token> token = id < 0 ? absl::StatusOr<Token>(absl::OutOfRangeError("text")) : TokenFromId(id);
  if (!token.ok() || !IsMachineWritten(token->kind)) {
    run.fault = absl::DataLossError(
        fmt::format("position {}: the model wrote {}, which is not its to write", run.ids.size() - 1, FormatId(id)));
    return false;
  }
  run.tokens.push_back(*token);
  if (token->kind == TokenKind::kExec) ++run.passes;
  if (token->kind == TokenKind::kDone || token->kind == TokenKind::kTrap) {
    run.end = token->kind == TokenKind::kDone ? LaunchEnd::kDone : LaunchEnd::kTrap;
    return false;
  }
  run.end = LaunchEnd::kBudget;
  return static_cast<int64_t>(run.tokens.size()) < token_budget;
}

absl::Status Decode(Executor& executor, int32_t next, int64_t token_budget, const OnToken& on_token, ModelRun& run) {
  while (true) {
    const bool more = Accept(next, token_budget, run);
    if (on_token && !on_token(next)) {
      return absl::CancelledError(fmt::format("the launch was stopped after {} tokens", run.ids.size()));
    }
    if (!more) return absl::OkStatus();
    QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> fed, executor.Feed(std::span<const int32_t>(&next, 1)));
    next = fed.back();
  }
}

absl::Status CheckLaunch(const Circuit& circuit, const std::vector<Token>& host_tokens, int64_t token_budget) {
  if (circuit.embedding.rows != MachineVocabularySize()) {
    return absl::FailedPreconditionError(fmt::format("the circuit has {} machine ids, this program's machine {}",
                                                     circuit.embedding.rows, MachineVocabularySize()));
  }
  if (host_tokens.empty()) return absl::InvalidArgumentError("a launch needs host tokens");
  if (token_budget >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("a token budget of {}; at least 1 is needed", token_budget));
}

absl::StatusOr<ModelRun> Run(Executor& executor, const Circuit& circuit, const std::vector<Token>& host_tokens,
                             int64_t token_budget, const OnToken& on_token) {
  ModelRun run;
  run.host_tokens = static_cast<int64_t>(host_tokens.size());
  Stopwatch watch;
  QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, executor.Feed(Ids(host_tokens)));
  run.prefill_ns = watch.ns();
  watch = {};
  QGPU_RETURN_IF_ERROR(Decode(executor, prompt.back(), token_budget, on_token, run));
  run.decode_ns = watch.ns();
  watch = {};
  const absl::Status read = ReadCells(executor, circuit, run.state, run.context);
  run.read_ns = watch.ns();
  if (!read.ok() && !absl::IsDataLoss(read)) return read;
  run.fault.Update(read);
  return run;
}

}  // namespace

std::string FormatId(int32_t id) {
  if (id < 0) return fmt::format("text id {}", -1 - static_cast<int64_t>(id));
  const absl::StatusOr<Token> token = TokenFromId(id);
  return token.ok() ? FormatToken(*token) : fmt::format("id {}", id);
}

absl::StatusOr<ModelRun> RunLaunch(Executor& executor, const Circuit& circuit, const std::vector<Token>& host_tokens,
                                   int64_t token_budget, const OnToken& on_token) {
  QGPU_RETURN_IF_ERROR(CheckLaunch(circuit, host_tokens, token_budget));
  executor.Reset();
  return Run(executor, circuit, host_tokens, token_budget, on_token);
}

absl::StatusOr<ModelRun> RunLaunchWithoutReset(Executor& executor, const Circuit& circuit,
                                               const std::vector<Token>& host_tokens, int64_t token_budget,
                                               const OnToken& on_token) {
  QGPU_RETURN_IF_ERROR(CheckLaunch(circuit, host_tokens, token_budget));
  if (host_tokens[0].kind != TokenKind::kReset) {
    return absl::InvalidArgumentError(
        fmt::format("the launch begins with {}; after other tokens it has to begin with {}, which clears the machine",
                    FormatToken(host_tokens[0]), TokenKindName(TokenKind::kReset)));
  }
  return Run(executor, circuit, host_tokens, token_budget, on_token);
}

absl::StatusOr<std::vector<int32_t>> TeacherForced(Executor& executor, const std::vector<Token>& tokens) {
  executor.Reset();
  return executor.Feed(Ids(tokens));
}

absl::StatusOr<CheckReport> CheckTeacherForced(Executor& executor, const std::vector<Token>& host_tokens,
                                               const std::vector<Token>& trace) {
  if (host_tokens.empty() || trace.empty()) return absl::InvalidArgumentError("an empty prompt or trace");
  std::vector<Token> tokens = host_tokens;
  tokens.insert(tokens.end(), trace.begin(), trace.end() - 1);
  QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> next, TeacherForced(executor, tokens));
  CheckReport report;
  for (size_t i = 0; i < trace.size(); ++i) {
    const int32_t got = next[host_tokens.size() - 1 + i];
    ++report.positions_checked;
    if (got == TokenToId(trace[i])) continue;
    ++report.mismatches;
    if (!report.first) {
      report.first = CheckReport::Mismatch{static_cast<int64_t>(i), FormatToken(trace[i]), FormatId(got)};
    }
  }
  return report;
}

}  // namespace qgpu
