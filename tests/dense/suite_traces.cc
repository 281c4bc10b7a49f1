#include "tests/dense/suite_traces.h"

#include <cstdlib>

#include "kernels/expected.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

absl::StatusOr<SuiteTrace> TraceOf(const KernelCase& kernel_case, PtxCache& cache) {
  QGPU_ASSIGN_OR_RETURN(LoweredKernel lowered, CompileKernel(kernel_case.spec, cache));
  const MachineRun run = Interpret(lowered.launch, kernel_case.spec.token_budget);
  if (run.end == LaunchEnd::kBudget) return absl::AbortedError(kernel_case.Id() + " does not end");
  SuiteTrace trace = {kernel_case.kernel, kernel_case.case_name, std::move(lowered.launch), {}, run.tokens, run.end};
  trace.host = HostTokens(trace.launch);
  return trace;
}

void AddSlot(const Instruction& in, std::set<std::string>& operations) {
  if (in.op == Op::kNop) return;
  const std::string op = FindOp(in.op)->name;
  operations.insert(op);
  if (in.guard != kGuardAlways) {
    operations.insert(fmt::format("guard by {}{}", in.guard >= kGuardSlot ? "slot " : "predicate",
                                  in.guard >= kGuardSlot ? std::to_string(in.guard - kGuardSlot) : ""));
    if (in.negate) operations.insert("negated guard");
  }
  for (const int source : {in.a, in.b, in.c}) {
    if (source >= kSourcePrevious && source <= kSourceThreeBack) {
      operations.insert(fmt::format("operand of {} slots back", source - kSourcePrevious + 1));
    } else if (source >= kSourceSpecial) {
      const int word = source - kSourceSpecial;
      const bool is_parameter = word >= kSpecialFirstParameter && word < kSpecialLaneId;
      operations.insert(fmt::format("special word {}", is_parameter ? "of a parameter" : std::to_string(word)));
    }
  }
}

void AddControl(const ControlRow& control, std::set<std::string>& operations) {
  static constexpr const char* kKinds[] = {"goto", "exit", "barrier", "other"};
  const char* kind = kKinds[std::min<size_t>(static_cast<size_t>(control.kind), 3)];
  operations.insert(fmt::format("control {}{}", kind, control.condition == kGuardAlways ? "" : " on a condition"));
  if (control.serial) operations.insert("control serial");
  if (control.yield) operations.insert("control yield");
}

size_t Positions(const SuiteTrace& trace) { return trace.host.size() + trace.trace.size(); }

}  // namespace

absl::StatusOr<std::vector<SuiteTrace>> AllTraces() {
  QGPU_ASSIGN_OR_RETURN(const std::vector<KernelCase> cases, EmbeddedCases());
  PtxCache cache;
  std::vector<SuiteTrace> traces;
  for (const KernelCase& kernel_case : cases) {
    absl::StatusOr<SuiteTrace> trace = TraceOf(kernel_case, cache);
    if (absl::IsInvalidArgument(trace.status()) || absl::IsUnimplemented(trace.status())) continue;  // refused
    QGPU_RETURN_IF_ERROR(trace.status());
    traces.push_back(*std::move(trace));
  }
  return traces;
}

std::set<std::string> OperationsOf(const SuiteTrace& trace) {
  std::set<std::string> operations;
  std::set<int> blocks;
  for (const std::vector<Token>& tokens : {trace.host, trace.trace}) {
    for (const Token token : tokens) operations.insert(TokenKindName(token.kind));
  }
  for (const Token token : trace.trace) {
    if (token.kind == TokenKind::kExec) blocks.insert(token.block());
  }
  for (const int block : blocks) {
    const MachineBlock& code = trace.launch.program.blocks[block];
    for (const Instruction& in : code.slots) AddSlot(in, operations);
    AddControl(code.control, operations);
  }
  return operations;
}

std::vector<SuiteTrace> CoveringTraces(const std::vector<SuiteTrace>& traces) {
  std::vector<std::set<std::string>> of_trace;
  std::set<std::string> missing;
  for (const SuiteTrace& trace : traces) {
    of_trace.push_back(OperationsOf(trace));
    missing.insert(of_trace.back().begin(), of_trace.back().end());
  }
  // Greedy: the most that is missing, for the positions it takes.
  std::vector<SuiteTrace> chosen;
  while (!missing.empty()) {
    size_t best = 0;
    double best_value = -1;
    for (size_t i = 0; i < traces.size(); ++i) {
      double news = 0;
      for (const std::string& operation : of_trace[i]) news += missing.contains(operation);
      const double value = news / (300.0 + static_cast<double>(Positions(traces[i])));
      if (value > best_value) {
        best = i;
        best_value = value;
      }
    }
    for (const std::string& operation : of_trace[best]) missing.erase(operation);
    chosen.push_back(traces[best]);
  }
  return chosen;
}

absl::StatusOr<std::vector<SuiteTrace>> ChosenTraces() {
  QGPU_ASSIGN_OR_RETURN(std::vector<SuiteTrace> all, AllTraces());
  const char* wish = std::getenv("QGPU_ALL_TRACES");
  if (wish != nullptr && *wish != '\0' && std::string(wish) != "0") return all;
  return CoveringTraces(all);
}

absl::StatusOr<SuiteTrace> DotDemo() {
  QGPU_ASSIGN_OR_RETURN(const KernelSuite suite, LoadSuite("kernels"));
  PtxCache cache(1);
  for (const KernelCase& kernel_case : suite.cases) {
    if (kernel_case.Id() == "dot/demo") return TraceOf(kernel_case, cache);
  }
  return absl::NotFoundError("the suite has no case dot/demo");
}

}  // namespace qgpu
