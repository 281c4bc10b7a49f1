#include "coordinator/run/grpc_connection.h"
#include "coordinator/run/grpc_drift.h"
#include "coordinator/run/grpc_parties.h"
#include "coordinator/run/self.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/limits.h"
#include "qgpu/v1/worker.grpc.pb.h"
#include "reports/printable.h"

namespace qgpu {
namespace {

// Beyond the worker's own time limit: for waiting for a turn and for the way.
constexpr int64_t kLaunchSlackMs = 30'000;
constexpr size_t kMachineWords = MachineGeometry().memory_words;
// More than there are; a worker does not fill our memory with names.
constexpr int kMaxDriftProbes = 64;

class GrpcWorker final : public WorkerClient {
 public:
  GrpcWorker(const PartyAddress& party, std::shared_ptr<grpc::Channel> channel)
      : party_(party),
        what_("worker " + party.name),
        channel_(std::move(channel)),
        stub_(v1::Worker::NewStub(channel_)) {}

  absl::StatusOr<NodeRow> Describe() override {
    v1::DescribeWorkerReply reply;
    QGPU_RETURN_IF_ERROR(FirstCall(
        *channel_, what_, [&](grpc::ClientContext& context) { return stub_->Describe(&context, {}, &reply); }));
    NodeRow node = MakeNodeRow("worker", party_.name, party_.address.ToString(), FromMessage(reply.program()));
    node.circuit_hash = Printable(reply.circuit_hash());
    node.circuit_sha256 = Printable(reply.circuit_sha256());
    node.base = Printable(reply.base());
    node.form = reply.forms_size() > 0 ? Printable(reply.forms(0)) : "";
    node.base_hidden = static_cast<int>(reply.base_hidden());
    node.layers = static_cast<int>(reply.layers());
    node.added_width = static_cast<int>(reply.added_width());
    for (int i = 0; i < std::min(reply.drift_probes_size(), kMaxDriftProbes); ++i) {
      node.drift_probes.push_back(Printable(reply.drift_probes(i)));
    }
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
    QGPU_RETURN_IF_ERROR(PeerStatus(status, what_));
    if (!launch.state.has_value()) return absl::FailedPreconditionError(what_ + ": ended its launch without a result");
    return launch;
  }

  absl::StatusOr<DriftEnd> MeasureDrift(const DriftJob& job, DriftSink& sink, std::stop_token stop) override {
    grpc::ClientContext context;
    SetDeadline(context, job.time_limit_ms);
    const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    auto reader = stub_->MeasureDrift(&context, ToMessage(job));
    std::optional<DriftEnd> end;
    absl::Status refused;  // by the sink, or because the message is none
    for (v1::MeasureDriftReply reply; refused.ok() && reader->Read(&reply);) refused = TakeDriftReply(reply, sink, end);
    if (!refused.ok()) context.TryCancel();
    const grpc::Status status = reader->Finish();
    if (!refused.ok()) return absl::Status(refused.code(), what_ + ": " + std::string(refused.message()));
    QGPU_RETURN_IF_ERROR(PeerStatus(status, what_));
    if (!end.has_value()) return absl::FailedPreconditionError(what_ + ": ended its measurement without saying so");
    return *end;
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
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerClient>> MakeWorkerClient(const PartyAddress& party) {
  QGPU_ASSIGN_OR_RETURN(auto channel, OpenChannel(party.address, party.tls, party.insecure));
  return std::make_unique<GrpcWorker>(party, std::move(channel));
}

}  // namespace qgpu
