#include "tests/dense/suite_traces.h"

#include "kernels/suite.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

constexpr int64_t kTokenBudget = 20000;

absl::StatusOr<SuiteTrace> TraceOf(const KernelCase& kernel_case) {
  QGPU_ASSIGN_OR_RETURN(LoweredKernel lowered, CompileKernel(kernel_case.spec));
  const MachineRun run = Interpret(lowered.launch, kTokenBudget);
  if (run.end != LaunchEnd::kDone) return absl::AbortedError(kernel_case.Id() + " does not end");
  SuiteTrace trace = {kernel_case.kernel, kernel_case.case_name, std::move(lowered.launch), {}, run.tokens};
  trace.host = HostTokens(trace.launch);
  return trace;
}

}  // namespace

absl::StatusOr<std::vector<SuiteTrace>> FirstTraces() {
  QGPU_ASSIGN_OR_RETURN(const KernelSuite suite, LoadSuite("kernels"));
  std::vector<SuiteTrace> traces;
  for (const KernelCase& kernel_case : suite.cases) {
    const bool is_first = traces.empty() || traces.back().kernel != kernel_case.kernel;
    if (!is_first || kernel_case.expect != KernelCase::Expect::kResult) continue;
    QGPU_ASSIGN_OR_RETURN(SuiteTrace trace, TraceOf(kernel_case));
    traces.push_back(std::move(trace));
  }
  return traces;
}

absl::StatusOr<SuiteTrace> DotDemo() {
  QGPU_ASSIGN_OR_RETURN(const KernelSuite suite, LoadSuite("kernels"));
  for (const KernelCase& kernel_case : suite.cases) {
    if (kernel_case.Id() == "dot/demo") return TraceOf(kernel_case);
  }
  return absl::NotFoundError("the suite has no case dot/demo");
}

}  // namespace qgpu
