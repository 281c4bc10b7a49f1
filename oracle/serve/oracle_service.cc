#include "oracle/serve/oracle_service.h"

#include <semaphore>

#include "lowering/ptx_cache/ptx_cache.h"
#include "oracle/serve/engines.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/limits.h"
#include "qgpu/v1/oracle.grpc.pb.h"

namespace qgpu {
namespace {

using Writer = grpc::ServerWriter<v1::OracleRunReply>;

class OracleService final : public v1::Oracle::Service {
 public:
  explicit OracleService(std::string program) : program_(std::move(program)) {}

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeOracleRequest*,
                        v1::DescribeOracleReply* reply) override {
    *reply->mutable_program() = ToMessage(ThisProgram("qgpu-oracle"));
    for (const v1::Engine& engine : Engines()) *reply->add_engines() = engine;
    return grpc::Status::OK;
  }

  grpc::Status RunNative(grpc::ServerContext*, const v1::OracleRunRequest* request, Writer* writer) override {
    return Run(kEngineNativeCpu, *request, *writer);
  }

  grpc::Status RunInterpreter(grpc::ServerContext*, const v1::OracleRunRequest* request, Writer* writer) override {
    return Run(kEngineInterpreter, *request, *writer);
  }

 private:
  grpc::Status Run(const char* engine, const v1::OracleRunRequest& request, Writer& writer) {
    const auto reply = RunEngine(engine, request);
    if (!reply.ok()) return ToGrpcStatus(reply.status());
    ForEachChunk(std::span(reply->tokens().ids().data(), static_cast<size_t>(reply->tokens().ids_size())),
                 [&writer](std::span<const int32_t> ids) {
                   v1::OracleRunReply piece;
                   *piece.mutable_tokens() = ToMessage(ids);
                   return writer.Write(piece);
                 });
    v1::OracleRunReply last;
    *last.mutable_result() = reply->result();
    writer.Write(last);
    return grpc::Status::OK;
  }

  absl::StatusOr<v1::EngineJobReply> RunEngine(const char* engine, const v1::OracleRunRequest& request) {
    QGPU_ASSIGN_OR_RETURN(const LaunchSpec spec, FromMessage(request));
    const auto source = cache_.Get(spec);
    if (absl::IsInvalidArgument(source.status()) || absl::IsUnimplemented(source.status())) {
      v1::EngineJobReply refusal;
      refusal.mutable_result()->set_outcome(v1::ORACLE_OUTCOME_REFUSED);
      refusal.mutable_result()->set_message(std::string(source.status().message()));
      return refusal;
    }
    QGPU_RETURN_IF_ERROR(source.status());
    processes_.acquire();
    auto reply = RunInChild(program_, MakeJob(engine, request, *source));
    processes_.release();
    return reply;
  }

  std::string program_;
  PtxCache cache_;
  std::counting_semaphore<kMaxOracleProcesses> processes_{kMaxOracleProcesses};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeOracleService(const std::string& program) {
  return std::make_unique<OracleService>(program);
}

}  // namespace qgpu
