#include "oracle/serve/cuda_engine.h"

#include "oracle/native_cuda/native_cuda.h"
#include "oracle/serve/engines.h"

namespace qgpu {
namespace {

constexpr int kProbeMs = 20'000;  // of a driver that hangs, a server that starts waits no longer

v1::OracleOutcome OutcomeOf(CudaEnd end) {
  switch (end) {
    case CudaEnd::kDone:
      return v1::ORACLE_OUTCOME_DONE;
    case CudaEnd::kTimeout:
      return v1::ORACLE_OUTCOME_TIMEOUT;
    default:
      return v1::ORACLE_OUTCOME_TRAP;
  }
}

const char* EndName(CudaEnd end) {
  switch (end) {
    case CudaEnd::kDone:
      return "done";
    case CudaEnd::kOutOfRange:
      return "address out of range";
    case CudaEnd::kMisaligned:
      return "misaligned access";
    case CudaEnd::kTrap:
      return "trap";
    case CudaEnd::kTimeout:
      return "limit exceeded";
  }
  return "";
}

absl::Status Probe(v1::OracleResult& result) {
  QGPU_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Load());
  QGPU_ASSIGN_OR_RETURN(const CudaDevice device, driver.FirstDevice());
  *result.mutable_device() = ToMessage(device);
  result.set_outcome(v1::ORACLE_OUTCOME_DONE);
  return absl::OkStatus();
}

absl::Status Run(const v1::EngineJob& job, const LaunchSpec& spec, v1::OracleResult& result) {
  NativeCudaOptions options;
  options.wall_ms = EngineTimeMs(job.request());
  QGPU_ASSIGN_OR_RETURN(const NativeCudaRun run,
                        RunNativeCuda(job.ptx_name(), job.ptx(), job.entry(), spec,
                                      {job.parameter_names().begin(), job.parameter_names().end()}, options));
  result.set_outcome(OutcomeOf(run.end));
  if (run.end != CudaEnd::kDone) result.set_message(fmt::format("{}: {}", EndName(run.end), run.message));
  result.mutable_memory()->Add(run.memory.begin(), run.memory.end());
  *result.mutable_device() = ToMessage(run.device);
  result.mutable_device()->set_ptx_version(run.ptx_version);
  result.mutable_device()->set_ptx_target(run.target);
  result.set_witness(CudaWitness(result.device()));
  result.set_compile_ns(static_cast<uint64_t>(run.compile_ns));
  result.set_run_ns(static_cast<uint64_t>(run.run_ns));
  return absl::OkStatus();
}

}  // namespace

std::string CudaWitness(const v1::NativeDevice& device) {
  std::string text = fmt::format("{} ({}", kEngineNativeCuda, Describe(FromMessage(device)));
  if (!device.ptx_version().empty()) text += fmt::format("; PTX {} for {}", device.ptx_version(), device.ptx_target());
  return text + ")";
}

v1::NativeDevice ToMessage(const CudaDevice& device) {
  v1::NativeDevice message;
  message.set_name(device.name);
  message.set_compute_capability(device.compute_capability);
  message.set_cuda_version(device.cuda_version);
  message.set_driver_version(device.driver_version);
  message.set_multiprocessors(static_cast<uint32_t>(device.multiprocessors));
  message.set_sm_clock_khz(static_cast<uint32_t>(device.sm_clock_khz));
  message.set_memory_clock_khz(static_cast<uint32_t>(device.memory_clock_khz));
  return message;
}

CudaDevice FromMessage(const v1::NativeDevice& message) {
  return {message.name(),
          message.compute_capability(),
          message.cuda_version(),
          message.driver_version(),
          static_cast<int>(message.multiprocessors()),
          static_cast<int>(message.sm_clock_khz()),
          static_cast<int>(message.memory_clock_khz())};
}

absl::Status RunCudaJob(const v1::EngineJob& job, const LaunchSpec& spec, v1::OracleResult& result) {
  const absl::Status status = job.probe() ? Probe(result) : Run(job, spec, result);
  if (absl::IsUnavailable(status)) return status;
  if (absl::IsFailedPrecondition(status)) {
    result.set_outcome(v1::ORACLE_OUTCOME_NOT_RUN);
    result.set_message(std::string(status.message()));
  } else if (!status.ok()) {
    SetRefusal(status, result);
  }
  return absl::OkStatus();
}

CudaProbe ProbeCuda(const std::string& program) {
  CudaProbe probe;
  // Most machines have no such library; that is seen without a process.
  if (const auto driver = CudaDriver::Load(); !driver.ok()) {
    probe.reason = std::string(driver.status().message());
    return probe;
  }
  v1::EngineJob job;
  job.set_engine(kEngineNativeCuda);
  job.set_probe(true);
  const auto reply = RunInChild(program, job, kProbeMs);
  if (!reply.ok()) {
    probe.reason = std::string(reply.status().message());
  } else if (reply->result().outcome() != v1::ORACLE_OUTCOME_DONE) {
    probe.reason = reply->result().message();
  } else {
    probe.found = true;
    probe.device = reply->result().device();
  }
  return probe;
}

}  // namespace qgpu
