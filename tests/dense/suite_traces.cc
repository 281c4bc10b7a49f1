#include "tests/dense/suite_traces.h"

#include <map>

#include "kernels/suite.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

constexpr int64_t kTokenBudget = 20000;

absl::StatusOr<SuiteTrace> TraceOf(const LaunchSpec& spec, const std::string& kernel, const std::string& case_name) {
  QGPU_ASSIGN_OR_RETURN(LoweredKernel lowered, CompileKernel(spec));
  const MachineRun run = Interpret(lowered.launch, kTokenBudget);
  if (run.end != LaunchEnd::kDone) return absl::AbortedError(fmt::format("{}/{} does not end", kernel, case_name));
  SuiteTrace trace = {kernel, case_name, std::move(lowered.launch), {}, run.tokens};
  trace.host = HostTokens(trace.launch);
  return trace;
}

}  // namespace

absl::StatusOr<std::vector<SuiteTrace>> ShortestTraces() {
  QGPU_ASSIGN_OR_RETURN(const KernelSuite suite, LoadSuite("kernels"));
  std::map<std::string, SuiteTrace> shortest;
  for (const KernelCase& kernel_case : suite.cases) {
    if (kernel_case.expect != KernelCase::Expect::kResult) continue;
    QGPU_ASSIGN_OR_RETURN(SuiteTrace trace, TraceOf(kernel_case.spec, kernel_case.kernel, kernel_case.case_name));
    const auto it = shortest.find(trace.kernel);
    // An empty launch shows nothing: zero-length cases count only where a kernel has no other.
    const auto cost = [](const SuiteTrace& t) { return t.trace.size() + (t.trace.size() < 10 ? 100000 : 0); };
    if (it == shortest.end() || cost(trace) < cost(it->second))
      shortest.insert_or_assign(trace.kernel, std::move(trace));
  }
  std::vector<SuiteTrace> traces;
  for (auto& [kernel, trace] : shortest) traces.push_back(std::move(trace));
  return traces;
}

absl::StatusOr<SuiteTrace> DotDemo() {
  QGPU_ASSIGN_OR_RETURN(const KernelSuite suite, LoadSuite("kernels"));
  for (const KernelCase& kernel_case : suite.cases) {
    if (kernel_case.kernel == "dot" && kernel_case.case_name == "demo") {
      return TraceOf(kernel_case.spec, kernel_case.kernel, kernel_case.case_name);
    }
  }
  return absl::NotFoundError("the suite has no case dot/demo");
}

}  // namespace qgpu
