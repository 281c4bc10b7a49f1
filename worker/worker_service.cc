#include "worker/worker_service.h"

#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/limits.h"
#include "qgpu/v1/worker.grpc.pb.h"
#include "worker/text_calls.h"
#include "worker/text_messages.h"
#include "worker/token_stream.h"
#include "worker/turn_lock.h"

namespace qgpu {
namespace {

class WorkerService final : public v1::Worker::Service {
 public:
  WorkerService(LaunchRunner& runner, std::string program, TextHost* text, std::string no_text)
      : runner_(runner), program_(std::move(program)), text_(text), no_text_(std::move(no_text)) {}

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeWorkerRequest*,
                        v1::DescribeWorkerReply* reply) override {
    const HostedModel model = runner_.Describe();
    ProgramDescription program = ThisProgram(program_);
    program.host.accelerator = model.accelerator;
    *reply->mutable_program() = ToMessage(program);
    reply->set_circuit_hash(model.circuit_hash);
    reply->set_circuit_sha256(model.circuit_sha256);
    reply->set_base(model.base);
    reply->set_base_hidden(static_cast<uint32_t>(model.base_hidden));
    reply->set_layers(static_cast<uint32_t>(model.layers));
    reply->set_added_width(static_cast<uint32_t>(model.added_width));
    for (const std::string& form : model.forms) reply->add_forms(form);
    reply->set_max_token_budget(kMaxTokenBudget);
    if (text_ == nullptr) return grpc::Status::OK;
    for (const std::string& probe : text_->DriftProbes()) reply->add_drift_probes(probe);
    return grpc::Status::OK;
  }

  grpc::Status RunLaunch(grpc::ServerContext* context, const v1::RunLaunchRequest* request,
                         grpc::ServerWriter<v1::RunLaunchReply>* writer) override {
    return ToGrpcStatus(Launch(*context, *request, *writer));
  }

  grpc::Status Converse(grpc::ServerContext* context,
                        grpc::ServerReaderWriter<v1::ConverseReply, v1::ConverseRequest>* stream) override {
    if (text_ == nullptr) return ToGrpcStatus(absl::FailedPreconditionError(no_text_));
    return ToGrpcStatus(qgpu::Converse(*text_, turns_, *context, *stream));
  }

  grpc::Status MeasureDrift(grpc::ServerContext* context, const v1::MeasureDriftRequest* request,
                            grpc::ServerWriter<v1::MeasureDriftReply>* writer) override {
    if (text_ == nullptr) return ToGrpcStatus(absl::FailedPreconditionError(no_text_));
    return ToGrpcStatus(qgpu::MeasureDrift(*text_, turns_, *context, *request, *writer));
  }

 private:
  absl::Status Launch(grpc::ServerContext& context, const v1::RunLaunchRequest& request,
                      grpc::ServerWriter<v1::RunLaunchReply>& writer) {
    QGPU_ASSIGN_OR_RETURN(const std::vector<int32_t> host_ids,
                          CheckedHostTokens(request.host_tokens(), request.token_budget()));
    QGPU_ASSIGN_OR_RETURN(const TurnLock::Turn turn,
                          turns_.Take(context.deadline(), [&] { return context.IsCancelled(); }));
    TokenStream stream(
        context,
        [&writer](std::span<const int32_t> piece) {
          v1::RunLaunchReply reply;
          *reply.mutable_tokens() = ToMessage(piece);
          return writer.Write(reply);
        },
        request.time_limit_ms());
    const auto outcome = runner_.Run(host_ids, static_cast<int64_t>(request.token_budget()),
                                     [&stream](std::span<const int32_t> ids) { return stream.Add(ids); });
    if (stream.is_late()) {
      return absl::DeadlineExceededError(
          fmt::format("stopped at the time limit of {} ms after {} tokens", request.time_limit_ms(), stream.written()));
    }
    if (!outcome.ok()) return outcome.status();
    stream.Flush();
    v1::RunLaunchReply last;
    v1::LaunchResult& result = *last.mutable_result();
    result = ToMessage(*outcome);
    result.mutable_counters()->set_host_tokens(host_ids.size());
    result.mutable_counters()->set_tokens(static_cast<uint64_t>(stream.written()));
    result.mutable_counters()->set_wait_ns(static_cast<uint64_t>(turn.wait_ns));
    writer.Write(last);
    return absl::OkStatus();
  }

  LaunchRunner& runner_;
  std::string program_;
  TextHost* text_;
  std::string no_text_;
  TurnLock turns_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkerService(LaunchRunner& runner, const std::string& program, TextHost* text,
                                                 const std::string& no_text) {
  return std::make_unique<WorkerService>(runner, program, text, no_text);
}

}  // namespace qgpu
