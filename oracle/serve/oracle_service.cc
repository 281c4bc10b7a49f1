#include "oracle/serve/oracle_service.h"

#include "oracle/serve/engine_set.h"
#include "oracle/serve/engines.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "qgpu/v1/oracle.grpc.pb.h"

namespace qgpu {
namespace {

using Writer = grpc::ServerWriter<v1::OracleRunReply>;

class OracleService final : public v1::Oracle::Service {
 public:
  explicit OracleService(EngineSet& engines) : engines_(engines) {}

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeOracleRequest*,
                        v1::DescribeOracleReply* reply) override {
    ProgramDescription program = ThisProgram("qgpu-oracle");
    for (const v1::Engine& engine : engines_.engines()) {
      *reply->add_engines() = engine;
      const bool is_device = engine.name() == kEngineNativeCuda && engine.answers_native();
      if (is_device) program.host.accelerator = engine.witness();
    }
    *reply->mutable_program() = ToMessage(program);
    return grpc::Status::OK;
  }

  grpc::Status RunNative(grpc::ServerContext*, const v1::OracleRunRequest* request, Writer* writer) override {
    return Run(engines_.native().name(), *request, *writer);
  }

  grpc::Status RunInterpreter(grpc::ServerContext*, const v1::OracleRunRequest* request, Writer* writer) override {
    return Run(kEngineInterpreter, *request, *writer);
  }

 private:
  grpc::Status Run(const std::string& engine, const v1::OracleRunRequest& request, Writer& writer) {
    const auto reply = engines_.Run(engine, request);
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

  EngineSet& engines_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeOracleService(EngineSet& engines) {
  return std::make_unique<OracleService>(engines);
}

}  // namespace qgpu
