#include "oracle/serve/engines.h"

#include <sys/utsname.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/file.h"
#include "lowering/compile.h"
#include "lowering/cuda_to_ptx/sandbox.h"
#include "machine/interpreter/interpreter.h"
#include "oracle/native_cpu/native_cpu.h"
#include "proto/convert.h"
#include "proto/host_info.h"

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

std::string NativeCpuWitness() {
  const HostInfo host = ThisHost();
  utsname names;
  const std::string architecture = uname(&names) == 0 ? names.machine : "unknown architecture";
  return fmt::format("{} ({}, {})", kEngineNativeCpu, architecture == "x86_64" ? "x86-64" : architecture,
                     host.processor);
}

int TimeLimitMs(const v1::OracleRunRequest& request) {
  if (request.time_limit_ms() == 0) return kDefaultEngineTimeMs;
  return static_cast<int>(std::min<uint32_t>(request.time_limit_ms(), kMaxEngineTimeMs));
}

void SetRefusal(const absl::Status& status, v1::OracleResult& result) {
  result.set_outcome(absl::IsUnimplemented(status) ? v1::ORACLE_OUTCOME_UNSUPPORTED : v1::ORACLE_OUTCOME_REFUSED);
  result.set_message(std::string(status.message()));
}

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
  limits.wall_ms = TimeLimitMs(job.request());
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
  const size_t arena = std::min(lowered->arena_words, run.state.memory.size());
  result.mutable_memory()->Add(run.state.memory.begin(), run.state.memory.begin() + static_cast<std::ptrdiff_t>(arena));
  *result.mutable_machine_image() = ToMessage(run.state);
  reply.mutable_tokens()->mutable_ids()->Reserve(static_cast<int>(run.tokens.size()));
  for (Token token : run.tokens) reply.mutable_tokens()->add_ids(TokenToId(token));
}

// A folder that is removed with everything in it.
class ScratchFolder {
 public:
  static absl::StatusOr<ScratchFolder> Make() {
    std::string path = (std::filesystem::temp_directory_path() / "qgpu-oracle-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) return absl::UnavailableError("cannot make a scratch folder " + path);
    return ScratchFolder(path);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

v1::EngineJobReply Failure(v1::OracleOutcome outcome, const std::string& message) {
  v1::EngineJobReply reply;
  reply.mutable_result()->set_outcome(outcome);
  reply.mutable_result()->set_message(message);
  return reply;
}

// Beyond the engine's own limit the child gets this much for starting and compiling.
constexpr int kChildGraceMs = 10'000;

}  // namespace

std::vector<v1::Engine> Engines() {
  v1::Engine native, interpreter;
  native.set_name(kEngineNativeCpu);
  native.set_witness(NativeCpuWitness());
  native.set_is_native(true);
  interpreter.set_name(kEngineInterpreter);
  interpreter.set_witness("interpreter of machine blocks");
  return {native, interpreter};
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

v1::EngineJobReply RunJob(const v1::EngineJob& job) {
  v1::EngineJobReply reply;
  const auto spec = FromMessage(job.request());
  if (!spec.ok()) {
    SetRefusal(spec.status(), *reply.mutable_result());
  } else if (job.engine() == kEngineNativeCpu) {
    RunNativeCpuJob(job, *spec, reply);
  } else if (job.engine() == kEngineInterpreter) {
    RunInterpreterJob(job, *spec, reply);
  } else {
    SetRefusal(absl::InvalidArgumentError("no engine is called " + job.engine()), *reply.mutable_result());
  }
  return reply;
}

absl::Status RunJobFile(const std::string& job_path, const std::string& reply_path) {
  QGPU_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(job_path));
  v1::EngineJob job;
  if (!job.ParseFromString(bytes)) return absl::InvalidArgumentError(job_path + " is no engine job");
  std::ofstream reply(reply_path, std::ios::binary);
  if (!RunJob(job).SerializeToOstream(&reply) || !reply.flush())
    return absl::UnavailableError("cannot write " + reply_path);
  return absl::OkStatus();
}

absl::StatusOr<v1::EngineJobReply> RunInChild(const std::string& program, const v1::EngineJob& job) {
  QGPU_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Make());
  const std::string job_path = scratch.path() + "/job", reply_path = scratch.path() + "/reply";
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(job_path, job.SerializeAsString()));
  const int limit_ms = TimeLimitMs(job.request());
  SandboxCommand command;
  command.program = program;
  command.arguments = {"run-job", job_path, reply_path};
  command.readable = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"};
  command.scratch = scratch.path();
  command.wall_ms = limit_ms + kChildGraceMs;
  command.cpu_seconds = (limit_ms + kChildGraceMs) / 1000;
  command.address_space_bytes = uint64_t{4} << 30;
  command.file_bytes = uint64_t{256} << 20;
  QGPU_ASSIGN_OR_RETURN(const SandboxOutcome outcome, RunSandboxed(command));
  switch (outcome.end) {
    case SandboxOutcome::End::kWallTime:
    case SandboxOutcome::End::kCpuTime:
      return Failure(v1::ORACLE_OUTCOME_TIMEOUT, fmt::format("{}: stopped after {} ms", job.engine(), command.wall_ms));
    case SandboxOutcome::End::kSignal:
      return Failure(v1::ORACLE_OUTCOME_CRASH, fmt::format("{}: its process died of signal {} ({})", job.engine(),
                                                           outcome.code, strsignal(outcome.code)));
    case SandboxOutcome::End::kFileSize:
      return Failure(v1::ORACLE_OUTCOME_CRASH, job.engine() + ": the reply is larger than 256 MiB");
    case SandboxOutcome::End::kExited:
      break;
  }
  if (outcome.code != 0) {
    return Failure(v1::ORACLE_OUTCOME_CRASH,
                   fmt::format("{}: its process ended with {}: {}", job.engine(), outcome.code, outcome.messages));
  }
  QGPU_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(reply_path));
  v1::EngineJobReply reply;
  if (!reply.ParseFromString(bytes)) return absl::InternalError(job.engine() + ": its process left no readable reply");
  for (const v1::Engine& engine : Engines()) {
    if (engine.name() == job.engine()) reply.mutable_result()->set_witness(engine.witness());
  }
  return reply;
}

}  // namespace qgpu
