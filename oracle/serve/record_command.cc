#include <chrono>
#include <cstdio>
#include <ctime>

#include "common/exit_code.h"
#include "common/file.h"
#include "common/version.h"
#include "oracle/serve/commands.h"
#include "oracle/serve/cuda_engine.h"
#include "oracle/serve/engines.h"
#include "proto/convert.h"

namespace qgpu {
namespace {

std::string Now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc = {};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

struct Recording {
  GoldenFile file;
  std::vector<std::string> left_out;
};

absl::Status RecordCase(EngineSet& engines, const KernelCase& kernel_case, int time_limit_s, Recording& recording) {
  const v1::OracleRunRequest request = ToMessage(kernel_case.spec, time_limit_s * 1000LL);
  QGPU_ASSIGN_OR_RETURN(const v1::EngineJobReply reply, engines.Run(kEngineNativeCuda, request));
  const v1::OracleResult& result = reply.result();
  if (result.outcome() != v1::ORACLE_OUTCOME_DONE) {
    recording.left_out.push_back(fmt::format("{}: {}", kernel_case.Id(), result.message()));
    return absl::OkStatus();
  }
  const CudaDevice device = FromMessage(result.device());
  if (recording.file.results.empty()) recording.file.device = device;
  if (!(recording.file.device == device)) {
    return absl::UnavailableError(fmt::format("{} ran on {}, what came before on {}", kernel_case.Id(),
                                              Describe(device), Describe(recording.file.device)));
  }
  // As whoever asks for it will have it: through the wire's form.
  QGPU_ASSIGN_OR_RETURN(const LaunchSpec spec, FromMessage(request));
  QGPU_ASSIGN_OR_RETURN(const PtxSource source, engines.Compile(spec));
  recording.file.results.push_back({kernel_case.Id(),
                                    source.entry,
                                    KeyOf(spec, source.ptx, source.entry),
                                    result.device().ptx_version(),
                                    result.device().ptx_target(),
                                    {result.memory().begin(), result.memory().end()}});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RecordCommand(EngineSet& engines, const KernelSuite& suite, const RecordCommandOptions& options) {
  Recording recording;
  recording.file.recorded = Now();
  recording.file.recorder = VersionText("qgpu-oracle", "");
  recording.file.suite = suite.name;
  recording.file.suite_hash = suite.hash;
  for (const KernelCase& kernel_case : suite.cases) {
    if (kernel_case.expect != KernelCase::Expect::kResult) continue;  // native engines take no part
    QGPU_RETURN_IF_ERROR(RecordCase(engines, kernel_case, options.time_limit_s, recording));
  }
  for (const std::string& what : recording.left_out) fmt::print(stderr, "qgpu-oracle: left out: {}\n", what);
  if (recording.file.results.empty()) return absl::AbortedError("no launch ran to its end, nothing is recorded");
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(options.out, GoldenToJson(recording.file)));
  fmt::print("recorded {} of {} launches of {} on {} into {}\n", recording.file.results.size(),
             recording.file.results.size() + recording.left_out.size(), suite.name, Describe(recording.file.device),
             options.out);
  return recording.left_out.empty() ? kExitGood : kExitWrong;
}

}  // namespace qgpu
