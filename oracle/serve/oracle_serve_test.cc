#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "oracle/serve/engine_set.h"
#include "oracle/serve/engines.h"
#include "oracle/serve/oracle_service.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/server.h"
#include "qgpu/v1/oracle.grpc.pb.h"

namespace qgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kProgram = std::string(QGPU_BIN) + "/qgpu-oracle";

constexpr const char* kCuda = R"(
__global__ void scale(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 3 * in[i] - 1;
}
__global__ void forever(int* out) {
  volatile int* p = out;
  while (p[0] == 0) p[1] = p[1] + 1;
}
)";

KernelArgument Buffer(const std::string& name, std::vector<uint32_t> words) {
  return {name, KernelArgument::Kind::kBuffer, std::move(words), false, 0};
}

LaunchSpec Scale() {
  LaunchSpec spec;
  spec.source = {"scale.cu", kCuda, SourceLanguage::kCuda};
  spec.kernel = "scale";
  spec.block.x = 4;
  spec.arguments = {
      Buffer("out", {0, 0, 0}), Buffer("in", {1, 0x80000000u, 5}), {"n", KernelArgument::Kind::kScalar, {}, false, 3}};
  return spec;
}

class OracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engines = EngineSet::Make(kProgram, {kEngineNativeCpu, ""});
    ASSERT_TRUE(engines.ok()) << engines.status();
    engines_ = *std::move(engines);
    service_ = MakeOracleService(*engines_);
    auto server = RpcServer::Start({}, {service_.get()});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Oracle::NewStub(*OpenChannel(server_->address(), {}, false));
  }
  struct Reply {
    grpc::Status status;
    std::vector<int32_t> ids;
    v1::OracleResult result;
  };
  Reply Run(const char* engine, const v1::OracleRunRequest& request) {
    grpc::ClientContext context;
    SetDeadline(context, 60'000);
    auto reader = engine == std::string(kEngineNativeCpu) ? stub_->RunNative(&context, request)
                                                          : stub_->RunInterpreter(&context, request);
    Reply reply;
    for (v1::OracleRunReply piece; reader->Read(&piece);) {
      if (piece.has_result()) reply.result = piece.result();
      EXPECT_TRUE(AppendTokens(piece.tokens(), false, 1 << 24, reply.ids).ok());
    }
    reply.status = reader->Finish();
    return reply;
  }

  std::unique_ptr<EngineSet> engines_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Oracle::Stub> stub_;
};

TEST_F(OracleTest, BothEnginesLeaveTheSameArena) {
  const v1::OracleRunRequest request = ToMessage(Scale(), 10'000);
  const Reply native = Run(kEngineNativeCpu, request), interpreter = Run(kEngineInterpreter, request);
  for (const Reply* reply : {&native, &interpreter}) {
    ASSERT_TRUE(reply->status.ok()) << reply->status.error_message();
    EXPECT_EQ(reply->result.outcome(), v1::ORACLE_OUTCOME_DONE) << reply->result.message();
    EXPECT_THAT(reply->result.memory(), ElementsAre(0, 2, 0x7fffffffu, 14, 1, 0x80000000u, 5));
  }
  EXPECT_THAT(native.result.witness(), HasSubstr("native-cpu ("));
  EXPECT_TRUE(native.ids.empty());
  EXPECT_EQ(interpreter.result.witness(), "interpreter of machine blocks");
  ASSERT_FALSE(interpreter.ids.empty());
  EXPECT_EQ(interpreter.ids.back(), TokenToId(Token::Done()));
  EXPECT_TRUE(FromMessage(interpreter.result.machine_image(), 126).ok());
}

TEST_F(OracleTest, RefusalsSayWhatIsWrong) {
  LaunchSpec broken = Scale();
  broken.source.text = "__global__ void scale(int* out) { out[0] = undeclared; }";
  LaunchSpec no_kernel = Scale();
  no_kernel.kernel = "missing";
  LaunchSpec no_argument = Scale();
  no_argument.arguments.pop_back();
  LaunchSpec floating = Scale();
  floating.source.text = "__global__ void scale(float* out, const float* in, int n) { out[0] = in[0] * in[1]; }";
  const std::pair<LaunchSpec, std::string> refused[] = {
      {broken, "undeclared"}, {no_kernel, "missing"}, {no_argument, "\"n\""}};
  for (const char* engine : {kEngineNativeCpu, kEngineInterpreter}) {
    for (const auto& [spec, text] : refused) {
      const Reply reply = Run(engine, ToMessage(spec, 10'000));
      ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
      EXPECT_EQ(reply.result.outcome(), v1::ORACLE_OUTCOME_REFUSED) << engine << reply.result.message();
      EXPECT_THAT(reply.result.message(), HasSubstr(text)) << engine;
    }
    const Reply unsupported = Run(engine, ToMessage(floating, 10'000));
    EXPECT_EQ(unsupported.result.outcome(), v1::ORACLE_OUTCOME_UNSUPPORTED) << engine << unsupported.result.message();
  }
  v1::OracleRunRequest garbage = ToMessage(Scale(), 10'000);
  garbage.set_launch_json("[");
  EXPECT_EQ(Run(kEngineNativeCpu, garbage).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(OracleTest, AKernelThatNeverEndsCostsItsTimeLimitOnly) {
  LaunchSpec spec = Scale();
  spec.kernel = "forever";
  spec.block.x = 1;
  spec.token_budget = 500;
  spec.arguments = {Buffer("out", {0, 0})};
  EXPECT_EQ(Run(kEngineNativeCpu, ToMessage(spec, 500)).result.outcome(), v1::ORACLE_OUTCOME_TIMEOUT);
  const Reply interpreter = Run(kEngineInterpreter, ToMessage(spec, 500));
  EXPECT_EQ(interpreter.result.outcome(), v1::ORACLE_OUTCOME_BUDGET);
  EXPECT_EQ(interpreter.ids.size(), 500u);
  EXPECT_EQ(Run(kEngineNativeCpu, ToMessage(Scale(), 10'000)).result.outcome(), v1::ORACLE_OUTCOME_DONE);
}

TEST_F(OracleTest, AccessesOutOfRangeTrapInBothEngines) {
  LaunchSpec spec = Scale();
  spec.arguments[0].words.assign(118, 0);
  spec.arguments[1].words.assign(7, 1);  // 126 words with word 0; thread 7 reads word 126
  spec.arguments[2].scalar = 8;
  spec.block.x = 8;
  for (const char* engine : {kEngineNativeCpu, kEngineInterpreter}) {
    const Reply reply = Run(engine, ToMessage(spec, 10'000));
    EXPECT_EQ(reply.result.outcome(), v1::ORACLE_OUTCOME_TRAP) << engine << reply.result.message();
    EXPECT_THAT(reply.result.message(), HasSubstr("thread (7, 0, 0)")) << engine;
  }
}

TEST(RunInChildTest, ACrashIsAnOutcome) {
  v1::EngineJob job;
  job.set_engine(kEngineNativeCpu);
  // A program that ends with an error, and one that cannot be started.
  const auto failed = RunInChild("/bin/false", job);
  ASSERT_TRUE(failed.ok()) << failed.status();
  EXPECT_EQ(failed->result().outcome(), v1::ORACLE_OUTCOME_CRASH);
  EXPECT_THAT(failed->result().message(), HasSubstr("ended with 1"));
  EXPECT_FALSE(RunInChild("/no/such/program", job).ok());
  // One that says it is done and leaves nothing.
  EXPECT_FALSE(RunInChild("/bin/true", job).ok());
}

TEST(RunJobTest, AnUnknownEngineIsRefused) {
  v1::EngineJob job;
  *job.mutable_request() = ToMessage(Scale(), 0);
  job.set_engine("abacus");
  EXPECT_THAT(RunJob(job)->result().message(), HasSubstr("no engine is called abacus"));
}

}  // namespace
}  // namespace qgpu
