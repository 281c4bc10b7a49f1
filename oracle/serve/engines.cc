#include "oracle/serve/engines.h"

#include <chrono>
#include <fstream>

#include "common/file.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "machine/isa/trap_report.h"
#include "oracle/native_cpu/native_cpu.h"
#include "oracle/serve/child_process.h"
#include "oracle/serve/cuda_engine.h"
#include "proto/convert.h"

namespace qgpu {
namespace {

class Stopwatch {
 public:
  // Since construction or the last call.
  int64_t LapNs() {
    const auto now = std::chrono::steady_clock::now();
    const auto lap = std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count();
    last_ = now;
    return lap;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

v1::OracleOutcome OutcomeOf(NativeEnd end) {
  switch (end) {
    case NativeEnd::kDone:
      return v1::ORACLE_OUTCOME_DONE;
    case NativeEnd::kTimeout:
      return v1::ORACLE_OUTCOME_TIMEOUT;
    default:
      return v1::ORACLE_OUTCOME_TRAP;
  }
}

void RunNativeCpuJob(const v1::EngineJob& job, const LaunchSpec& spec, v1::EngineJobReply& reply) {
  v1::OracleResult& result = *reply.mutable_result();
  Stopwatch watch;
  auto kernel = NativeCpuKernel::Compile(job.ptx_name(), job.ptx(), job.entry());
  result.set_compile_ns(watch.LapNs());
  if (!kernel.ok()) return SetRefusal(kernel.status(), result);
  NativeCpuLimits limits;
  limits.wall_ms = EngineTimeMs(job.request());
  const auto run = kernel->Run(spec, {job.parameter_names().begin(), job.parameter_names().end()}, limits);
  result.set_run_ns(watch.LapNs());
  if (!run.ok()) return SetRefusal(run.status(), result);
  result.set_outcome(OutcomeOf(run->end));
  if (run->end == NativeEnd::kDone) {
    result.mutable_memory()->Add(run->memory.begin(), run->memory.end());
  } else {
    result.set_message(fmt::format("{}: {}", NativeEndName(run->end), run->message));
  }
}

v1::OracleOutcome OutcomeOf(LaunchEnd end) {
  switch (end) {
    case LaunchEnd::kDone:
      return v1::ORACLE_OUTCOME_DONE;
    case LaunchEnd::kTrap:
      return v1::ORACLE_OUTCOME_TRAP;
    case LaunchEnd::kBudget:
      return v1::ORACLE_OUTCOME_BUDGET;
  }
  return v1::ORACLE_OUTCOME_UNSPECIFIED;
}

// "k.cu" of the PTX "k.cu.ptx".
std::string SourceName(const std::string& ptx_name) {
  const bool from_cuda = ptx_name.ends_with(".cu.ptx");
  return from_cuda ? ptx_name.substr(0, ptx_name.size() - std::string(".ptx").size()) : ptx_name;
}

void RunInterpreterJob(const v1::EngineJob& job, LaunchSpec spec, v1::EngineJobReply& reply) {
  v1::OracleResult& result = *reply.mutable_result();
  Stopwatch watch;
  spec.kernel = job.entry();
  const auto lowered =
      CompilePtxKernel(job.ptx_name(), job.ptx(), spec, {job.parameter_names().begin(), job.parameter_names().end()});
  result.set_compile_ns(watch.LapNs());
  if (!lowered.ok()) return SetRefusal(lowered.status(), result);
  const MachineRun run = Interpret(lowered->launch, spec.token_budget);
  result.set_run_ns(watch.LapNs());
  result.set_outcome(OutcomeOf(run.end));
  if (run.end == LaunchEnd::kBudget)
    result.set_message(fmt::format("the token budget of {} is used up", spec.token_budget));
  if (run.trap) result.set_message(DescribeTrap(*run.trap, lowered->launch.program, SourceName(job.ptx_name())));
  const size_t arena = std::min(lowered->arena_words, run.state.memory.size());
  result.mutable_memory()->Add(run.state.memory.begin(), run.state.memory.begin() + static_cast<std::ptrdiff_t>(arena));
  *result.mutable_machine_image() = ToMessage(run.state);
  reply.mutable_tokens()->mutable_ids()->Reserve(static_cast<int>(run.tokens.size()));
  for (Token token : run.tokens) reply.mutable_tokens()->add_ids(TokenToId(token));
}

}  // namespace

int EngineTimeMs(const v1::OracleRunRequest& request) {
  if (request.time_limit_ms() == 0) return kDefaultEngineTimeMs;
  return static_cast<int>(std::min<uint32_t>(request.time_limit_ms(), kMaxEngineTimeMs));
}

void SetRefusal(const absl::Status& status, v1::OracleResult& result) {
  result.set_outcome(absl::IsUnimplemented(status) ? v1::ORACLE_OUTCOME_UNSUPPORTED : v1::ORACLE_OUTCOME_REFUSED);
  result.set_message(std::string(status.message()));
}

v1::EngineJob MakeJob(const std::string& engine, const v1::OracleRunRequest& request, const PtxSource& source) {
  v1::EngineJob job;
  job.set_engine(engine);
  *job.mutable_request() = request;
  job.set_ptx_name(source.ptx_name);
  job.set_ptx(source.ptx);
  job.set_entry(source.entry);
  for (const std::string& name : source.parameter_names) job.add_parameter_names(name);
  return job;
}

absl::StatusOr<v1::EngineJobReply> RunJob(const v1::EngineJob& job) {
  v1::EngineJobReply reply;
  v1::OracleResult& result = *reply.mutable_result();
  const auto spec = job.probe() ? LaunchSpec() : FromMessage(job.request());
  if (!spec.ok()) {
    SetRefusal(spec.status(), result);
  } else if (job.engine() == kEngineNativeCuda) {
    QGPU_RETURN_IF_ERROR(RunCudaJob(job, *spec, result));
  } else if (job.engine() == kEngineNativeCpu) {
    RunNativeCpuJob(job, *spec, reply);
  } else if (job.engine() == kEngineInterpreter) {
    RunInterpreterJob(job, *spec, reply);
  } else {
    SetRefusal(absl::InvalidArgumentError("no engine is called " + job.engine()), result);
  }
  return reply;
}

absl::Status RunJobFile(const std::string& job_path, const std::string& reply_path) {
  QGPU_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(job_path));
  v1::EngineJob job;
  if (!job.ParseFromString(bytes)) return absl::InvalidArgumentError(job_path + " is no engine job");
  if (job.engine() == kEngineNativeCuda) EndWithParent();
  QGPU_ASSIGN_OR_RETURN(const v1::EngineJobReply reply, RunJob(job));
  std::ofstream file(reply_path, std::ios::binary);
  if (!reply.SerializeToOstream(&file) || !file.flush()) return absl::UnavailableError("cannot write " + reply_path);
  return absl::OkStatus();
}

}  // namespace qgpu
