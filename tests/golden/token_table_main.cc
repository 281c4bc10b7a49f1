// Prints what every case of every suite costs, for tests/golden/tokens.txt: tokens and passes, "trap" behind those that
// end in one, or that it is refused and why.
#include <algorithm>
#include <cstdio>

#include "common/exit_code.h"
#include "kernels/expected.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

// The refusal without the place: "k.cu.ptx:12 (CUDA line 3): what" and "k.cu.ptx: kernel k: what" to "what".
std::string Reason(const absl::Status& status) {
  std::string message(status.message());
  for (const char* before : {"): ", ": kernel "}) {
    const size_t place = message.find(before);
    if (place == std::string::npos) continue;
    const size_t end = before[0] == ')' ? place + 3 : message.find(": ", place + 2) + 2;
    message = message.substr(end);
    break;
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

absl::Status PrintTable() {
  QGPU_ASSIGN_OR_RETURN(const std::vector<KernelCase> cases, EmbeddedCases());
  PtxCache cache;
  std::printf("%-48s %7s %6s\n", "suite/kernel/case", "tokens", "passes");
  for (const KernelCase& kernel_case : cases) {
    const std::string name = fmt::format("{}/{}", kernel_case.suite, kernel_case.Id());
    const absl::StatusOr<LoweredKernel> lowered = CompileKernel(kernel_case.spec, cache);
    if (!lowered.ok()) {
      std::printf("%-48s refused: %s\n", name.c_str(), Reason(lowered.status()).c_str());
      continue;
    }
    const MachineRun run = Interpret(lowered->launch, kernel_case.spec.token_budget);
    std::printf("%-48s %7zu %6ld%s%s\n", name.c_str(), run.tokens.size(), static_cast<long>(run.passes),
                run.end == LaunchEnd::kDone ? "" : " ", run.end == LaunchEnd::kDone ? "" : EndName(run.end));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace qgpu

int main() {
  const absl::Status status = qgpu::PrintTable();
  if (status.ok()) return qgpu::kExitGood;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return qgpu::kExitWrong;
}
