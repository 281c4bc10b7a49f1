#include "coordinator/run/grpc_connection.h"
#include "coordinator/run/grpc_parties.h"
#include "coordinator/run/self.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "qgpu/v1/oracle.grpc.pb.h"
#include "reports/printable.h"

namespace qgpu {
namespace {

// Beyond the oracle's own time limit: for compiling and for the way.
constexpr int64_t kOracleSlackMs = 60'000;
constexpr size_t kMachineWords = MachineGeometry().memory_words;

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
      : party_(party),
        what_("oracle " + party.name),
        channel_(std::move(channel)),
        stub_(v1::Oracle::NewStub(channel_)) {}

  absl::StatusOr<NodeRow> Describe() override {
    v1::DescribeOracleReply reply;
    QGPU_RETURN_IF_ERROR(FirstCall(
        *channel_, what_, [&](grpc::ClientContext& context) { return stub_->Describe(&context, {}, &reply); }));
    NodeRow node = MakeNodeRow("oracle", party_.name, party_.address.ToString(), qgpu::FromMessage(reply.program()));
    for (const v1::Engine& engine : reply.engines()) {
      if (engine.answers_native()) node.engines.push_back({"native engine", Printable(engine.witness())});
      if (!engine.not_run().empty())
        node.engines.push_back({Printable(engine.name()), "not run: " + Printable(engine.not_run())});
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
    QGPU_RETURN_IF_ERROR(PeerStatus(status, what_));
    if (!has_result) return absl::InternalError(what_ + ": ended its run without a result");
    return run;
  }

  static absl::Status TakeResult(const v1::OracleResult& result, OracleRun& run) {
    run.outcome = FromMessage(result.outcome());
    run.message = Printable(result.message());
    run.witness = Printable(result.witness());
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
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Oracle::Stub> stub_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OracleClient>> MakeOracleClient(const PartyAddress& party) {
  QGPU_ASSIGN_OR_RETURN(auto channel, OpenChannel(party.address, party.tls, party.insecure));
  return std::make_unique<GrpcOracle>(party, std::move(channel));
}

}  // namespace qgpu
