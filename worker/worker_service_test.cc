#include "worker/worker_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/limits.h"
#include "proto/server.h"
#include "qgpu/v1/worker.grpc.pb.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

// Writes the ids 0, 1, 2, ... one at a time, and leaves the number of host tokens in word 1.
class CountingRunner : public LaunchRunner {
 public:
  HostedModel Describe() const override {
    HostedModel model;
    model.circuit_hash = "0123456789abcdef";
    model.layers = 30;
    model.forms = {"counting"};
    return model;
  }
  absl::StatusOr<RunnerOutcome> Run(std::span<const int32_t> host_ids, int64_t token_budget,
                                    const TokenSink& sink) override {
    if (fails) return absl::InternalError("the executor failed");
    for (int32_t i = 0; i < token_budget; ++i) {
      if (pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      const int32_t id = i % 1000;
      if (!sink({&id, 1})) return absl::CancelledError("stopped");
    }
    RunnerOutcome outcome;
    outcome.end = LaunchEnd::kBudget;
    outcome.state.memory.assign(126, 0);
    outcome.state.memory[1] = static_cast<uint32_t>(host_ids.size());
    outcome.forward_passes = 7;
    return outcome;
  }
  int pause_ms = 0;
  bool fails = false;
};

class WorkerServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    service_ = MakeWorkerService(runner_);
    auto server = RpcServer::Start({}, {service_.get()});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Worker::NewStub(*OpenChannel(server_->address(), {}, false));
  }

  struct Launched {
    grpc::Status status;
    std::vector<int32_t> ids;
    std::optional<v1::LaunchResult> result;
    int pieces = 0;
  };
  Launched Run(const v1::RunLaunchRequest& request, int64_t deadline_ms = 10'000) {
    grpc::ClientContext context;
    SetDeadline(context, deadline_ms);
    auto reader = stub_->RunLaunch(&context, request);
    Launched launched;
    for (v1::RunLaunchReply piece; reader->Read(&piece); ++launched.pieces) {
      if (piece.has_result()) launched.result = piece.result();
      EXPECT_TRUE(AppendTokens(piece.tokens(), true, 1 << 24, launched.ids).ok());
    }
    launched.status = reader->Finish();
    return launched;
  }
  static v1::RunLaunchRequest Request(std::vector<int32_t> host_ids, uint64_t budget) {
    v1::RunLaunchRequest request;
    *request.mutable_host_tokens() = ToMessage(host_ids);
    request.set_token_budget(budget);
    return request;
  }

  CountingRunner runner_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

TEST_F(WorkerServiceTest, DescribesTheModel) {
  grpc::ClientContext context;
  SetDeadline(context, 5000);
  v1::DescribeWorkerReply reply;
  ASSERT_TRUE(stub_->Describe(&context, {}, &reply).ok());
  EXPECT_EQ(reply.circuit_hash(), "0123456789abcdef");
  EXPECT_EQ(reply.layers(), 30u);
  EXPECT_EQ(reply.forms(0), "counting");
  EXPECT_EQ(reply.program().program(), "qgpu-worker");
  EXPECT_GT(reply.program().machine().logical_processors(), 0u);
}

TEST_F(WorkerServiceTest, StreamsEveryTokenInOrderAndThenTheResult) {
  const Launched launched = Run(Request({5, 6, 7}, 3000));
  ASSERT_TRUE(launched.status.ok()) << launched.status.error_message();
  ASSERT_EQ(launched.ids.size(), 3000u);
  for (size_t i = 0; i < launched.ids.size(); ++i) ASSERT_EQ(launched.ids[i], static_cast<int32_t>(i % 1000));
  EXPECT_GE(launched.pieces, 6);
  ASSERT_TRUE(launched.result.has_value());
  EXPECT_EQ(launched.result->end(), v1::LAUNCH_END_BUDGET);
  EXPECT_EQ(launched.result->image().memory(1), 3u);
  EXPECT_EQ(launched.result->counters().host_tokens(), 3u);
  EXPECT_EQ(launched.result->counters().tokens(), 3000u);
  EXPECT_EQ(launched.result->counters().forward_passes(), 7u);
}

TEST_F(WorkerServiceTest, RefusesRequestsOutsideTheLimits) {
  const std::vector<std::pair<v1::RunLaunchRequest, std::string>> refused = {
      {Request({1}, 0), "token budget of 0"},
      {Request({1}, kMaxTokenBudget + 1), "token budget of"},
      {Request({}, 10), "without host tokens"},
      {Request({MachineVocabularySize()}, 10), "no machine id"},
      {Request({-1}, 10), "no machine id"},
      {Request(std::vector<int32_t>(kMaxHostTokens + 1, 0), 10), "more than"}};
  for (const auto& [request, text] : refused) {
    const Launched launched = Run(request);
    EXPECT_EQ(launched.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << text;
    EXPECT_THAT(launched.status.error_message(), HasSubstr(text));
    EXPECT_FALSE(launched.result.has_value());
  }
}

TEST_F(WorkerServiceTest, ALaunchThatHangsIsStoppedAtItsTimeLimit) {
  runner_.pause_ms = 5;
  v1::RunLaunchRequest request = Request({1}, 100'000);
  request.set_time_limit_ms(100);
  Launched launched = Run(request);
  EXPECT_EQ(launched.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(launched.status.error_message(), HasSubstr("time limit of 100 ms"));
  // The deadline of the call ends it as well, and the worker is free again.
  EXPECT_EQ(Run(Request({1}, 100'000), 200).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  runner_.pause_ms = 0;
  EXPECT_TRUE(Run(Request({1}, 10)).status.ok());
}

TEST_F(WorkerServiceTest, LaunchesTakeTurns) {
  runner_.pause_ms = 1;
  std::vector<std::thread> threads;
  std::vector<Launched> launched(3);
  for (Launched& one : launched) threads.emplace_back([this, &one] { one = Run(Request({1}, 50)); });
  for (std::thread& thread : threads) thread.join();
  int64_t longest_wait_ns = 0;
  for (const Launched& one : launched) {
    ASSERT_TRUE(one.status.ok());
    EXPECT_EQ(one.ids.size(), 50u);
    longest_wait_ns = std::max(longest_wait_ns, static_cast<int64_t>(one.result->counters().wait_ns()));
  }
  EXPECT_GT(longest_wait_ns, 50'000'000);
}

TEST_F(WorkerServiceTest, AnExecutorThatFailsIsNoResult) {
  runner_.fails = true;
  const Launched launched = Run(Request({1}, 10));
  EXPECT_EQ(launched.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_FALSE(launched.result.has_value());
}

}  // namespace
}  // namespace qgpu
