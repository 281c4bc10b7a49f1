// The server's side of a job: a child that runs it, confined as far as its engine allows.
#include <cstring>
#include <filesystem>

#include "common/exit_code.h"
#include "common/file.h"
#include "lowering/cuda_to_ptx/sandbox.h"
#include "oracle/serve/child_process.h"
#include "oracle/serve/engines.h"

namespace qgpu {
namespace {

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

// What became of a child, whichever way it was run.
struct Ended {
  enum class How { kExited, kSignal, kTooLong, kTooLarge };
  How how = How::kExited;
  int code = 0;
  std::string messages;
};

absl::StatusOr<Ended> RunConfined(const std::string& program, const std::vector<std::string>& arguments,
                                  const std::string& scratch, int wall_ms) {
  SandboxCommand command;
  command.program = program;
  command.arguments = arguments;
  command.readable = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"};
  command.scratch = scratch;
  command.wall_ms = wall_ms;
  command.cpu_seconds = wall_ms / 1000 + 1;
  command.address_space_bytes = uint64_t{4} << 30;
  command.file_bytes = uint64_t{256} << 20;
  QGPU_ASSIGN_OR_RETURN(SandboxOutcome outcome, RunSandboxed(command));
  const auto how = [&outcome] {
    switch (outcome.end) {
      case SandboxOutcome::End::kWallTime:
      case SandboxOutcome::End::kCpuTime:
        return Ended::How::kTooLong;
      case SandboxOutcome::End::kSignal:
        return Ended::How::kSignal;
      case SandboxOutcome::End::kFileSize:
        return Ended::How::kTooLarge;
      case SandboxOutcome::End::kExited:
        break;
    }
    return Ended::How::kExited;
  };
  return Ended{how(), outcome.code, std::move(outcome.messages)};
}

// For native-cuda. Its driver compiles at once, so that errors of the PTX appear where it is loaded, and leaves nothing
// in the user's folders.
absl::StatusOr<Ended> RunWithDevices(const std::string& program, const std::vector<std::string>& arguments,
                                     int wall_ms) {
  QGPU_ASSIGN_OR_RETURN(ChildOutcome outcome,
                        RunChild(program, arguments, {"CUDA_MODULE_LOADING=EAGER", "CUDA_CACHE_DISABLE=1"}, wall_ms));
  const Ended::How how = outcome.end == ChildOutcome::End::kWallTime ? Ended::How::kTooLong
                         : outcome.end == ChildOutcome::End::kSignal ? Ended::How::kSignal
                                                                     : Ended::How::kExited;
  return Ended{how, outcome.code, std::move(outcome.messages)};
}

v1::EngineJobReply Failure(v1::OracleOutcome outcome, const std::string& message) {
  v1::EngineJobReply reply;
  reply.mutable_result()->set_outcome(outcome);
  reply.mutable_result()->set_message(message);
  return reply;
}

}  // namespace

absl::StatusOr<v1::EngineJobReply> RunInChild(const std::string& program, const v1::EngineJob& job, int grace_ms) {
  QGPU_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Make());
  const std::string job_path = scratch.path() + "/job", reply_path = scratch.path() + "/reply";
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(job_path, job.SerializeAsString()));
  const std::vector<std::string> arguments = {"run-job", job_path, reply_path};
  const bool is_cuda = job.engine() == kEngineNativeCuda;
  if (grace_ms == 0) grace_ms = is_cuda ? kCudaGraceMs : kChildGraceMs;
  const int wall_ms = EngineTimeMs(job.request()) + grace_ms;
  QGPU_ASSIGN_OR_RETURN(const Ended ended, is_cuda ? RunWithDevices(program, arguments, wall_ms)
                                                   : RunConfined(program, arguments, scratch.path(), wall_ms));
  switch (ended.how) {
    case Ended::How::kTooLong:
      return Failure(v1::ORACLE_OUTCOME_TIMEOUT,
                     fmt::format("{}: its process was killed after {} ms", job.engine(), wall_ms));
    case Ended::How::kSignal:
      return Failure(v1::ORACLE_OUTCOME_CRASH, fmt::format("{}: its process died of signal {} ({})", job.engine(),
                                                           ended.code, strsignal(ended.code)));
    case Ended::How::kTooLarge:
      return Failure(v1::ORACLE_OUTCOME_CRASH, job.engine() + ": the reply is larger than 256 MiB");
    case Ended::How::kExited:
      break;
  }
  if (ended.code == kExitInfrastructure) return absl::UnavailableError(ended.messages);
  if (ended.code != 0) {
    return Failure(v1::ORACLE_OUTCOME_CRASH,
                   fmt::format("{}: its process ended with {}: {}", job.engine(), ended.code, ended.messages));
  }
  QGPU_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(reply_path));
  v1::EngineJobReply reply;
  if (!reply.ParseFromString(bytes)) return absl::InternalError(job.engine() + ": its process left no readable reply");
  return reply;
}

}  // namespace qgpu
