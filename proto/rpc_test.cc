#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/exit_code.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/limits.h"
#include "proto/server.h"
#include "qgpu/v1/oracle.grpc.pb.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

TEST(AddressTest, ParsesHostAndPort) {
  EXPECT_EQ(*ParseAddress("127.0.0.1:50051"), (Address{"127.0.0.1", 50051}));
  EXPECT_EQ(*ParseAddress("[::1]:0"), (Address{"::1", 0}));
  EXPECT_EQ(ParseAddress("[::1]:7")->ToString(), "[::1]:7");
  for (const char* bad :
       {"", "host", "host:", ":5", "host:70000", "host:-1", "host:5x", "::1:5", "[host]:5", "a b:5"}) {
    EXPECT_EQ(ParseAddress(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(AddressTest, OnlyLoopbackNeedsNoProtection) {
  for (const char* host : {"localhost", "127.0.0.1", "127.9.8.7", "::1"}) {
    EXPECT_TRUE(CheckProtection(host, {}, false).ok()) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.example.org"}) {
    const absl::Status refused = CheckProtection(host, {}, false);
    EXPECT_EQ(ExitCodeFor(refused), kExitUsage) << host;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("--tls-ca"));
    EXPECT_TRUE(CheckProtection(host, {}, true).ok()) << host;
    EXPECT_TRUE(CheckProtection(host, {"ca", "cert", "key"}, false).ok()) << host;
  }
  EXPECT_FALSE(CheckProtection("127.0.0.1", {"ca", "", ""}, false).ok());
}

TEST(ConvertTest, MachineStateSurvivesTheWire) {
  MachineState state;
  state.memory.assign(126, 0);
  state.memory[125] = 0x80000000u;
  state.registers[7][3][15] = 42;
  state.registers[0][1][2] = 0xffffffffu;
  const auto back = FromMessage(ToMessage(state), 126);
  ASSERT_TRUE(back.ok());
  EXPECT_TRUE(*back == state);
  v1::MachineImage truncated = ToMessage(state);
  truncated.mutable_registers()->RemoveLast();
  EXPECT_FALSE(FromMessage(truncated, 126).ok());
  EXPECT_FALSE(FromMessage(ToMessage(state), 127).ok());
}

TEST(ConvertTest, TokensAreChecked) {
  std::vector<int32_t> ids;
  EXPECT_TRUE(AppendTokens(ToMessage(std::vector<int32_t>{0, 5, -3}), true, 10, ids).ok());
  EXPECT_THAT(ids, testing::ElementsAre(0, 5, -3));
  EXPECT_FALSE(AppendTokens(ToMessage(std::vector<int32_t>{-3}), false, 10, ids).ok());
  EXPECT_FALSE(AppendTokens(ToMessage(std::vector<int32_t>{MachineVocabularySize()}), true, 10, ids).ok());
  EXPECT_FALSE(AppendTokens(ToMessage(std::vector<int32_t>(8, 1)), true, 10, ids).ok());
}

TEST(ConvertTest, LaunchSpecSurvivesTheWireAndLimitsHold) {
  LaunchSpec spec;
  spec.source = {"k.cu", "__global__ void k(int* a) {}", SourceLanguage::kCuda};
  spec.kernel = "k";
  spec.block = {4, 2, 1};
  spec.arguments.push_back({"a", KernelArgument::Kind::kBuffer, {1, 0xffffffffu}, true, 0});
  const auto back = FromMessage(ToMessage(spec, 1000));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->source.text, spec.source.text);
  EXPECT_EQ(LaunchSpecToJson(*back), LaunchSpecToJson(spec));
  spec.source.text.assign(kMaxSourceBytes + 1, ' ');
  EXPECT_EQ(FromMessage(ToMessage(spec, 0)).status().code(), absl::StatusCode::kInvalidArgument);
  v1::OracleRunRequest no_language = ToMessage(*back, 0);
  no_language.set_language(v1::SOURCE_LANGUAGE_UNSPECIFIED);
  EXPECT_FALSE(FromMessage(no_language).ok());
}

TEST(ConvertTest, ChunksKeepOrderAndStop) {
  std::vector<int32_t> ids(kChunkTokens * 2 + 1);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::vector<int32_t> seen;
  int pieces = 0;
  ForEachChunk(ids, [&](std::span<const int32_t> piece) {
    EXPECT_LE(ToMessage(piece).ByteSizeLong(), kChunkBytes + 16);
    seen.insert(seen.end(), piece.begin(), piece.end());
    return ++pieces < 10;
  });
  EXPECT_EQ(pieces, 3);
  EXPECT_EQ(seen, ids);
  pieces = 0;
  ForEachChunk(ids, [&](std::span<const int32_t>) { return ++pieces < 2; });
  EXPECT_EQ(pieces, 2);
}

class EmptyOracle : public v1::Oracle::Service {
 public:
  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeOracleRequest*,
                        v1::DescribeOracleReply* reply) override {
    reply->mutable_program()->set_program("empty");
    return grpc::Status::OK;
  }
};

TEST(ServerTest, AnOccupiedPortIsAnErrorThatNamesIt) {
  EmptyOracle service;
  const auto first = RpcServer::Start({}, {&service});
  ASSERT_TRUE(first.ok()) << first.status();
  ServerOptions same;
  same.listen = (*first)->address().ToString();
  EmptyOracle other;
  const auto second = RpcServer::Start(same, {&other});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(ExitCodeFor(second.status()), kExitUsage);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(same.listen));
}

TEST(ServerTest, AnOpenAddressIsRefusedUnlessAskedFor) {
  EmptyOracle service;
  ServerOptions open;
  open.listen = "0.0.0.0:0";
  EXPECT_EQ(ExitCodeFor(RpcServer::Start(open, {&service}).status()), kExitUsage);
  open.insecure = true;
  EXPECT_TRUE(RpcServer::Start(open, {&service}).ok());
}

TEST(ServerTest, ServesAndRefusesOversizedMessages) {
  EmptyOracle service;
  auto server = RpcServer::Start({}, {&service});
  ASSERT_TRUE(server.ok());
  auto channel = OpenChannel((*server)->address(), {}, false);
  ASSERT_TRUE(channel.ok());
  auto stub = v1::Oracle::NewStub(*channel);
  grpc::ClientContext context;
  SetDeadline(context, 5000);
  v1::DescribeOracleReply reply;
  ASSERT_TRUE(stub->Describe(&context, {}, &reply).ok());
  EXPECT_EQ(reply.program().program(), "empty");

  v1::OracleRunRequest huge;
  huge.set_source(std::string(kMaxMessageBytes + 1, ' '));
  grpc::ClientContext huge_context;
  SetDeadline(huge_context, 5000);
  auto stream = stub->RunNative(&huge_context, huge);
  v1::OracleRunReply piece;
  EXPECT_FALSE(stream->Read(&piece));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace qgpu
