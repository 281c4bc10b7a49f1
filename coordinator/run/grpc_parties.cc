#include "coordinator/run/grpc_parties.h"

#include "coordinator/run/self.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/limits.h"
#include "qgpu/v1/oracle.grpc.pb.h"
#include "qgpu/v1/worker.grpc.pb.h"

namespace qgpu {
namespace {

constexpr int64_t kDescribeMs = 20'000;
// Beyond the other side's own time limit: for compiling, for waiting for a turn and for the way.
constexpr int64_t kLaunchSlackMs = 30'000;
constexpr int64_t kOracleSlackMs = 60'000;
constexpr size_t kMachineWords = MachineGeometry().memory_words;

class GrpcWorker final : public WorkerClient {
 public:
  GrpcWorker(const PartyAddress& party, std::shared_ptr<grpc::Channel> channel)
      : party_(party), what_("worker " + party.name), stub_(v1::Worker::NewStub(channel)) {}

  absl::StatusOr<NodeRow> Describe() override {
    grpc::ClientContext context;
    SetDeadline(context, kDescribeMs);
    context.set_wait_for_ready(true);
    v1::DescribeWorkerReply reply;
    QGPU_RETURN_IF_ERROR(FromGrpcStatus(stub_->Describe(&context, {}, &reply), what_));
    NodeRow node = MakeNodeRow("worker", party_.name, party_.address.ToString(), FromMessage(reply.program()));
    node.circuit_hash = reply.circuit_hash();
    node.circuit_sha256 = reply.circuit_sha256();
    node.base = reply.base();
    node.form = reply.forms_size() > 0 ? reply.forms(0) : "";
    node.base_hidden = static_cast<int>(reply.base_hidden());
    node.layers = static_cast<int>(reply.layers());
    node.added_width = static_cast<int>(reply.added_width());
    return node;
  }

  absl::StatusOr<WorkerLaunch> RunLaunch(std::span<const int32_t> host_ids, const LaunchLimits& limits,
                                         const std::function<bool(std::span<const int32_t>)>& keep_going,
                                         std::stop_token stop) override {
    grpc::ClientContext context;
    SetDeadline(context, limits.time_limit_ms + kLaunchSlackMs);
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    v1::RunLaunchRequest request;
    *request.mutable_host_tokens() = ToMessage(host_ids);
    request.set_token_budget(static_cast<uint64_t>(limits.token_budget));
    request.set_time_limit_ms(static_cast<uint32_t>(limits.time_limit_ms));
    auto reader = stub_->RunLaunch(&context, request);
    WorkerLaunch launch;
    bool is_stopped = false;
    absl::Status bad_reply;
    for (v1::RunLaunchReply piece; reader->Read(&piece);) {
      bad_reply = piece.has_result() ? TakeResult(piece.result(), launch)
                                     : AppendTokens(piece.tokens(), /*text_allowed=*/true,
                                                    static_cast<size_t>(limits.token_budget), launch.ids);
      is_stopped = bad_reply.ok() && !launch.state.has_value() && !keep_going(launch.ids);
      if (bad_reply.ok() && !is_stopped) continue;
      context.TryCancel();
      break;
    }
    const grpc::Status status = reader->Finish();
    if (is_stopped) return launch;
    // A worker that breaks the protocol is no infrastructure that could be better next time.
    if (!bad_reply.ok()) return absl::FailedPreconditionError(what_ + ": " + std::string(bad_reply.message()));
    QGPU_RETURN_IF_ERROR(FromGrpcStatus(status, what_));
    if (!launch.state.has_value()) return absl::FailedPreconditionError(what_ + ": ended its launch without a result");
    return launch;
  }

 private:
  static absl::Status TakeResult(const v1::LaunchResult& result, WorkerLaunch& launch) {
    if (launch.state.has_value()) return absl::InvalidArgumentError("sent two results");
    QGPU_ASSIGN_OR_RETURN(launch.state, FromMessage(result.image(), kMachineWords));
    launch.fault = result.fault();
    const v1::LaunchCounters& counters = result.counters();
    launch.host_tokens = static_cast<int64_t>(counters.host_tokens());
    launch.forward_passes = static_cast<int64_t>(counters.forward_passes());
    launch.prefill_ns = static_cast<int64_t>(counters.prefill_ns());
    launch.decode_ns = static_cast<int64_t>(counters.decode_ns());
    launch.read_ns = static_cast<int64_t>(counters.read_ns());
    launch.wait_ns = static_cast<int64_t>(counters.wait_ns());
    return absl::OkStatus();
  }

  PartyAddress party_;
  std::string what_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

OracleOutcome FromMessage(v1::OracleOutcome outcome) {
  switch (outcome) {
    case v1::ORACLE_OUTCOME_DONE:
      return OracleOutcome::kDone;
    case v1::ORACLE_OUTCOME_TRAP:
      return OracleOutcome::kTrap;
    case v1::ORACLE_OUTCOME_BUDGET:
      return OracleOutcome::kBudget;
    case v1::ORACLE_OUTCOME_REFUSED:
      return OracleOutcome::kRefused;
    case v1::ORACLE_OUTCOME_UNSUPPORTED:
      return OracleOutcome::kUnsupported;
    case v1::ORACLE_OUTCOME_TIMEOUT:
      return OracleOutcome::kTimeout;
    case v1::ORACLE_OUTCOME_NOT_RUN:
      return OracleOutcome::kNotRun;
    default:
      return OracleOutcome::kCrash;
  }
}

class GrpcOracle final : public OracleClient {
 public:
  GrpcOracle(const PartyAddress& party, std::shared_ptr<grpc::Channel> channel)
      : party_(party), what_("oracle " + party.name), stub_(v1::Oracle::NewStub(channel)) {}

  absl::StatusOr<NodeRow> Describe() override {
    grpc::ClientContext context;
    SetDeadline(context, kDescribeMs);
    context.set_wait_for_ready(true);
    v1::DescribeOracleReply reply;
    QGPU_RETURN_IF_ERROR(FromGrpcStatus(stub_->Describe(&context, {}, &reply), what_));
    NodeRow node = MakeNodeRow("oracle", party_.name, party_.address.ToString(), qgpu::FromMessage(reply.program()));
    for (const v1::Engine& engine : reply.engines()) {
      if (engine.answers_native()) node.engines.push_back({"native engine", engine.witness()});
      if (!engine.not_run().empty()) node.engines.push_back({engine.name(), "not run: " + engine.not_run()});
    }
    return node;
  }

  absl::StatusOr<OracleRun> RunNative(const LaunchSpec& spec, int64_t time_limit_ms, std::stop_token stop) override {
    return Run(&v1::Oracle::Stub::RunNative, "native engine", spec, time_limit_ms, stop);
  }
  absl::StatusOr<OracleRun> RunInterpreter(const LaunchSpec& spec, int64_t time_limit_ms,
                                           std::stop_token stop) override {
    return Run(&v1::Oracle::Stub::RunInterpreter, "interpreter", spec, time_limit_ms, stop);
  }

 private:
  using Method = std::unique_ptr<grpc::ClientReader<v1::OracleRunReply>> (v1::Oracle::Stub::*)(
      grpc::ClientContext*, const v1::OracleRunRequest&);

  absl::StatusOr<OracleRun> Run(Method method, const std::string& engine, const LaunchSpec& spec, int64_t time_limit_ms,
                                std::stop_token stop) {
    grpc::ClientContext context;
    SetDeadline(context, time_limit_ms + kOracleSlackMs);
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    auto reader = (stub_.get()->*method)(&context, ToMessage(spec, time_limit_ms));
    OracleRun run;
    run.engine = engine;
    bool has_result = false;
    absl::Status bad_reply;
    for (v1::OracleRunReply piece; bad_reply.ok() && reader->Read(&piece);) {
      if (piece.has_result()) {
        has_result = true;
        bad_reply = TakeResult(piece.result(), run);
      } else {
        bad_reply =
            AppendTokens(piece.tokens(), /*text_allowed=*/false, static_cast<size_t>(spec.token_budget), run.ids);
      }
      if (!bad_reply.ok()) context.TryCancel();
    }
    const grpc::Status status = reader->Finish();
    if (!bad_reply.ok()) return absl::InternalError(what_ + ": " + std::string(bad_reply.message()));
    QGPU_RETURN_IF_ERROR(FromGrpcStatus(status, what_));
    if (!has_result) return absl::InternalError(what_ + ": ended its run without a result");
    return run;
  }

  static absl::Status TakeResult(const v1::OracleResult& result, OracleRun& run) {
    run.outcome = FromMessage(result.outcome());
    run.message = result.message();
    run.witness = result.witness();
    if (const size_t bracket = run.witness.find(" ("); bracket != std::string::npos) {
      run.engine = run.witness.substr(0, bracket);
    }
    run.memory.assign(result.memory().begin(), result.memory().end());
    run.compile_ns = static_cast<int64_t>(result.compile_ns());
    run.run_ns = static_cast<int64_t>(result.run_ns());
    if (!result.has_machine_image()) return absl::OkStatus();
    QGPU_ASSIGN_OR_RETURN(run.state, qgpu::FromMessage(result.machine_image(), kMachineWords));
    return absl::OkStatus();
  }

  PartyAddress party_;
  std::string what_;
  std::unique_ptr<v1::Oracle::Stub> stub_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerClient>> MakeWorkerClient(const PartyAddress& party) {
  QGPU_ASSIGN_OR_RETURN(auto channel, OpenChannel(party.address, party.tls, party.insecure));
  return std::make_unique<GrpcWorker>(party, std::move(channel));
}

absl::StatusOr<std::unique_ptr<OracleClient>> MakeOracleClient(const PartyAddress& party) {
  QGPU_ASSIGN_OR_RETURN(auto channel, OpenChannel(party.address, party.tls, party.insecure));
  return std::make_unique<GrpcOracle>(party, std::move(channel));
}

}  // namespace qgpu
