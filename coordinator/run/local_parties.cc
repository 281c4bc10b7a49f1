#include "coordinator/run/local_parties.h"

#include <mutex>

#include "coordinator/run/grpc_parties.h"
#include "coordinator/run/local_program.h"

namespace qgpu {
namespace {

// A child and the client of it. Calls of several threads share the client; a restart waits for nobody.
template <typename Client>
class LocalParty {
 public:
  using MakeClient = absl::StatusOr<std::unique_ptr<Client>> (*)(const PartyAddress&);
  struct Running {
    std::unique_ptr<LocalProgram> program;
    std::unique_ptr<Client> client;
  };

  LocalParty(LocalCommand command, MakeClient make_client) : command_(std::move(command)), make_client_(make_client) {}

  // The running child, started again if it has died.
  absl::StatusOr<std::shared_ptr<Running>> Get() {
    std::lock_guard lock(mutex_);
    if (running_ != nullptr && running_->program->Ended(0).empty()) return running_;
    auto running = std::make_shared<Running>();
    QGPU_ASSIGN_OR_RETURN(running->program, LocalProgram::Start(command_.program, command_.arguments));
    QGPU_ASSIGN_OR_RETURN(running->client, make_client_({command_.name, running->program->address(), {}, false}));
    running_ = std::move(running);
    return running_;
  }

  // How the child ended, if it did: a connection can be lost a moment before the process is gone.
  std::string DeathNote(int64_t wait_ms) {
    std::lock_guard lock(mutex_);
    if (running_ == nullptr) return "";
    const std::string ended = running_->program->Ended(wait_ms);
    return ended.empty() ? "" : fmt::format("{} {}", command_.program, ended);
  }

 private:
  LocalCommand command_;
  MakeClient make_client_;
  std::mutex mutex_;
  std::shared_ptr<Running> running_;
};

class LocalWorker final : public WorkerClient {
 public:
  explicit LocalWorker(const LocalCommand& command) : party_(command, MakeWorkerClient) {}
  absl::Status Start() { return party_.Get().status(); }

  absl::StatusOr<NodeRow> Describe() override {
    QGPU_ASSIGN_OR_RETURN(auto running, party_.Get());
    return running->client->Describe();
  }
  absl::StatusOr<WorkerLaunch> RunLaunch(std::span<const int32_t> host_ids, const LaunchLimits& limits,
                                         const std::function<bool(std::span<const int32_t>)>& keep_going,
                                         std::stop_token stop) override {
    QGPU_ASSIGN_OR_RETURN(auto running, party_.Get());
    return running->client->RunLaunch(host_ids, limits, keep_going, stop);
  }
  absl::StatusOr<DriftEnd> MeasureDrift(const DriftJob& job, DriftSink& sink, std::stop_token stop) override {
    QGPU_ASSIGN_OR_RETURN(auto running, party_.Get());
    return running->client->MeasureDrift(job, sink, stop);
  }
  std::string DeathNote() override { return party_.DeathNote(500); }

 private:
  LocalParty<WorkerClient> party_;
};

class LocalOracle final : public OracleClient {
 public:
  explicit LocalOracle(const LocalCommand& command) : party_(command, MakeOracleClient) {}
  absl::Status Start() { return party_.Get().status(); }

  absl::StatusOr<NodeRow> Describe() override {
    QGPU_ASSIGN_OR_RETURN(auto running, party_.Get());
    return running->client->Describe();
  }
  absl::StatusOr<OracleRun> RunNative(const LaunchSpec& spec, int64_t time_limit_ms, std::stop_token stop) override {
    QGPU_ASSIGN_OR_RETURN(auto running, party_.Get());
    return running->client->RunNative(spec, time_limit_ms, stop);
  }
  absl::StatusOr<OracleRun> RunInterpreter(const LaunchSpec& spec, int64_t time_limit_ms,
                                           std::stop_token stop) override {
    QGPU_ASSIGN_OR_RETURN(auto running, party_.Get());
    return running->client->RunInterpreter(spec, time_limit_ms, stop);
  }

 private:
  LocalParty<OracleClient> party_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerClient>> StartLocalWorker(const LocalCommand& command) {
  auto worker = std::make_unique<LocalWorker>(command);
  QGPU_RETURN_IF_ERROR(worker->Start());
  return worker;
}

absl::StatusOr<std::unique_ptr<OracleClient>> StartLocalOracle(const LocalCommand& command) {
  auto oracle = std::make_unique<LocalOracle>(command);
  QGPU_RETURN_IF_ERROR(oracle->Start());
  return oracle;
}

}  // namespace qgpu
