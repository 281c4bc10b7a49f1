// Conversations and drift over the wire, with a stand-in for the models: what is checked, streamed, queued and stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/limits.h"
#include "proto/server.h"
#include "qgpu/v1/worker.grpc.pb.h"
#include "worker/text_messages.h"
#include "worker/worker_service.h"

namespace qgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NoLaunches : public LaunchRunner {
 public:
  HostedModel Describe() const override { return {}; }
  absl::StatusOr<RunnerOutcome> Run(std::span<const int32_t> host_ids, int64_t, const TokenSink&) override {
    launched += std::ssize(host_ids);
    return RunnerOutcome();
  }
  int64_t launched = 0;
};

// Says back what it is told, a character a token; launches write as many tokens as they may; rows hold their position.
class EchoHost : public TextHost {
 public:
  class EchoConversation : public TextConversation {
   public:
    explicit EchoConversation(EchoHost& host) : host_(host) {}
    ~EchoConversation() override { ++host_.ended; }

    absl::StatusOr<GenerateResult> Text(const TextTurn& turn, const GenerateCallbacks& callbacks) override {
      host_.turns.push_back(turn);
      if (host_.no_memory) throw std::bad_alloc();
      GenerateResult result;
      const auto* text = std::get_if<std::string>(&turn.input);
      context_ += text ? *text : "?";
      for (; result.written_tokens < turn.max_tokens; ++result.written_tokens) {
        if (callbacks.is_cancelled()) {
          result.end = GenerateEnd::kCancelled;
          return result;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(host_.pause_ms));
        const auto at = static_cast<size_t>(result.written_tokens) % context_.size();
        const int32_t id = context_[at];
        QGPU_RETURN_IF_ERROR(callbacks.on_text(context_.substr(at, 1), {&id, 1}));
      }
      result.end = turn.max_tokens == 0 ? GenerateEnd::kFed : GenerateEnd::kMaxTokens;
      result.fed_tokens = static_cast<int64_t>(context_.size());
      return result;
    }

    absl::StatusOr<RunnerOutcome> Launch(std::span<const int32_t> host_ids, int64_t token_budget,
                                         const TokenSink& sink) override {
      for (int32_t i = 0; i < token_budget; ++i) {
        if (!sink({&i, 1})) return absl::CancelledError("stopped");
      }
      context_ += fmt::format("<{}>", host_ids.size());
      RunnerOutcome outcome;
      outcome.end = LaunchEnd::kBudget;
      outcome.state.memory.assign(126, 7);
      return outcome;
    }

   private:
    EchoHost& host_;
    std::string context_;
  };

  std::vector<std::string> DriftProbes() const override { return {"split-float32", "dense-bfloat16"}; }

  absl::StatusOr<std::unique_ptr<TextConversation>> StartConversation() override {
    if (!start_error.ok()) return start_error;
    return std::make_unique<EchoConversation>(*this);
  }

  absl::StatusOr<int64_t> MeasureDrift(const DriftRequest& request, const DriftCallbacks& callbacks) override {
    requests.push_back(request);
    const int64_t positions = static_cast<int64_t>(request.text.size()) - 1;
    QGPU_RETURN_IF_ERROR(callbacks.on_start({positions, "hash", "bytes", "base, float32", "dense bfloat16", true}));
    if (request.probe.after_launch) {
      for (int32_t i = 0; i < request.token_budget; ++i) {
        if (!callbacks.on_tokens({&i, 1})) return absl::CancelledError("stopped");
      }
      QGPU_RETURN_IF_ERROR(callbacks.on_launch_end(launch_end));
    }
    for (int64_t at = request.first_position; at < positions; at += request.chunk) {
      if (callbacks.is_cancelled()) return absl::CancelledError("stopped");
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      DriftPiece piece;
      piece.first_position = at;
      for (int64_t i = at; i < std::min(at + request.chunk, positions); ++i) {
        piece.drift.push_back({0.5 * static_cast<double>(i), 1e-12, 2, 3, true, 4});
        piece.noise_floor.push_back({0.25 * static_cast<double>(i), 0, 6, 5, false, 1});
        piece.predicted.push_back(request.text.substr(static_cast<size_t>(i) + 1, 1));
      }
      QGPU_RETURN_IF_ERROR(callbacks.on_rows(piece));
    }
    return 77;
  }

  std::vector<TextTurn> turns;
  std::vector<DriftRequest> requests;
  absl::Status start_error;
  std::optional<LaunchEnd> launch_end = LaunchEnd::kDone;
  int pause_ms = 0, ended = 0;
  bool no_memory = false;
};

class TextServiceTest : public ::testing::Test {
 protected:
  void SetUp() override { Serve(&host_, ""); }
  void Serve(TextHost* host, const std::string& no_text) {
    server_.reset();
    service_ = MakeWorkerService(launches_, "qgpu-worker", host, no_text);
    auto server = RpcServer::Start({}, {service_.get()});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Worker::NewStub(*OpenChannel(server_->address(), {}, false));
  }

  struct Conversed {
    grpc::Status status;
    std::vector<v1::ConverseReply> replies;
    std::string text;  // of all turns
    std::vector<int32_t> tokens;
  };
  Conversed Converse(const std::vector<v1::ConverseRequest>& turns, int64_t deadline_ms = 10'000) {
    grpc::ClientContext context;
    SetDeadline(context, deadline_ms);
    auto stream = stub_->Converse(&context);
    for (const v1::ConverseRequest& turn : turns) stream->Write(turn);
    stream->WritesDone();
    Conversed conversed;
    for (v1::ConverseReply reply; stream->Read(&reply);) {
      conversed.text += reply.text().text();
      EXPECT_TRUE(AppendTokens(reply.tokens(), true, 1 << 24, conversed.tokens).ok());
      if (reply.has_text_end() || reply.has_launch_end()) conversed.replies.push_back(reply);
    }
    conversed.status = stream->Finish();
    return conversed;
  }
  struct Measured {
    grpc::Status status;
    std::vector<v1::MeasureDriftReply> replies;
  };
  Measured Measure(const v1::MeasureDriftRequest& request, int64_t deadline_ms = 10'000) {
    grpc::ClientContext context;
    SetDeadline(context, deadline_ms);
    auto reader = stub_->MeasureDrift(&context, request);
    Measured measured;
    for (v1::MeasureDriftReply reply; reader->Read(&reply);) measured.replies.push_back(reply);
    measured.status = reader->Finish();
    return measured;
  }
  static v1::ConverseRequest Text(const std::string& text, uint32_t max_tokens) {
    v1::ConverseRequest request;
    request.mutable_text()->set_text(text);
    request.mutable_text()->set_max_tokens(max_tokens);
    return request;
  }
  static v1::ConverseRequest Launch(const std::vector<int32_t>& host_ids, uint64_t budget) {
    v1::ConverseRequest request;
    *request.mutable_launch()->mutable_host_tokens() = ToMessage(host_ids);
    request.mutable_launch()->set_token_budget(budget);
    return request;
  }
  static v1::MeasureDriftRequest Drift(const std::string& probe, const std::string& text, uint32_t chunk) {
    v1::MeasureDriftRequest request;
    request.set_probe(probe);
    request.set_text_name("prose");
    request.set_text(text);
    request.set_chunk(chunk);
    return request;
  }
  template <typename Result>
  static void ExpectError(const Result& result, grpc::StatusCode code, const std::string& part) {
    EXPECT_EQ(result.status.error_code(), code) << result.status.error_message();
    EXPECT_THAT(result.status.error_message(), HasSubstr(part));
  }

  NoLaunches launches_;
  EchoHost host_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

TEST_F(TextServiceTest, TurnsOfBothKindsShareOneContextAndAreTakenInOrder) {
  const Conversed conversed = Converse({Text("ab", 0), Launch({5, 6, 7}, 1500), Text("c", 6)});
  ASSERT_TRUE(conversed.status.ok()) << conversed.status.error_message();
  ASSERT_EQ(conversed.replies.size(), 3u);
  EXPECT_EQ(conversed.replies[0].text_end().end(), v1::TextTurnResult::END_FED);
  EXPECT_EQ(conversed.replies[1].launch_end().end(), v1::LAUNCH_END_BUDGET);
  EXPECT_EQ(conversed.replies[1].launch_end().image().memory(0), 7u);
  EXPECT_EQ(conversed.replies[1].launch_end().counters().host_tokens(), 3u);
  EXPECT_EQ(conversed.replies[1].launch_end().counters().tokens(), 1500u);
  ASSERT_EQ(conversed.tokens.size(), 1500u);
  for (int32_t i = 0; i < 1500; ++i) ASSERT_EQ(conversed.tokens[i], i);
  EXPECT_EQ(conversed.text, "ab<3>c");
  EXPECT_EQ(conversed.replies[2].text_end().end(), v1::TextTurnResult::END_MAX_TOKENS);
  EXPECT_EQ(conversed.replies[2].text_end().written_tokens(), 6u);
  EXPECT_EQ(Converse({Text("d", 2)}).text, "dd") << "a conversation of its own";
  EXPECT_TRUE(Converse({}).status.ok());
  EXPECT_EQ(host_.ended, 2);
}

TEST_F(TextServiceTest, TheHostGetsTurnsAsTheyWereSent) {
  v1::ConverseRequest chat;
  v1::TextTurn& turn = *chat.mutable_text();
  turn.mutable_chat()->set_enable_thinking(true);
  v1::Message& message = *turn.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("hi");
  turn.add_stop("END");
  turn.set_ignore_stop_tokens(true);
  turn.mutable_sampling()->set_temperature(0.5);
  turn.mutable_sampling()->set_seed(9);
  v1::ConverseRequest ids;
  ids.mutable_text()->mutable_ids()->add_ids(3);
  ids.mutable_text()->mutable_ids()->add_ids(200'000);
  ASSERT_TRUE(Converse({chat, ids}).status.ok());
  ASSERT_EQ(host_.turns.size(), 2u);
  const auto& got = std::get<ChatInput>(host_.turns[0].input);
  ASSERT_EQ(got.messages.size(), 1u);
  EXPECT_EQ(got.messages[0].role + got.messages[0].content, "userhi");
  EXPECT_TRUE(got.enable_thinking);
  EXPECT_THAT(host_.turns[0].stop, ElementsAre("END"));
  EXPECT_TRUE(host_.turns[0].ignore_stop_tokens);
  EXPECT_EQ(host_.turns[0].sampling->temperature, 0.5);
  EXPECT_EQ(host_.turns[0].sampling->top_p, 1) << "0 stands for the default";
  EXPECT_EQ(host_.turns[0].sampling->repetition_penalty, 1);
  EXPECT_EQ(host_.turns[0].sampling->seed, 9u);
  EXPECT_THAT(std::get<std::vector<int32_t>>(host_.turns[1].input), ElementsAre(3, 200'000));
  EXPECT_FALSE(host_.turns[1].sampling.has_value());
}

TEST_F(TextServiceTest, RefusesTurnsOutsideTheLimits) {
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  ExpectError(Converse({v1::ConverseRequest()}), kInvalid, "neither text nor a launch");
  v1::ConverseRequest nothing;
  nothing.mutable_text();
  ExpectError(Converse({nothing}), kInvalid, "without text, ids or chat");
  ExpectError(Converse({Text(std::string(kMaxRequestText + 1, 'a'), 1)}), kInvalid, "1048577 bytes");
  ASSERT_TRUE(Converse({Text(std::string(kMaxRequestText, 'a'), 1)}).status.ok());
  v1::ConverseRequest chat;
  chat.mutable_text()->mutable_chat();
  ExpectError(Converse({chat}), kInvalid, "without messages");
  chat.mutable_text()->mutable_chat()->add_messages()->set_content(std::string(kMaxRequestText + 1, 'a'));
  ExpectError(Converse({chat}), kInvalid, "1048577 bytes");
  v1::ConverseRequest hot = Text("a", 1);
  hot.mutable_text()->mutable_sampling()->set_temperature(-1);
  ExpectError(Converse({hot}), kInvalid, "temperature");
  v1::ConverseRequest stop = Text("a", 1);
  stop.mutable_text()->add_stop("");
  ExpectError(Converse({stop}), kInvalid, "stop text is empty");
  v1::ConverseRequest id;
  id.mutable_text()->mutable_ids()->add_ids(4'000'000'000u);
  ExpectError(Converse({id}), kInvalid, "id 4000000000 (number 1)");
  ExpectError(Converse({Launch({}, 5)}), kInvalid, "without host tokens");
  ExpectError(Converse({Launch({1}, 0)}), kInvalid, "token budget of 0");
  ExpectError(Converse({Launch({-3}, 5)}), kInvalid, "no machine id");
  EXPECT_EQ(host_.turns.size(), 1u) << "none of them reached the host";
}

TEST_F(TextServiceTest, DriftIsStreamedChunkByChunk) {
  v1::MeasureDriftRequest request = Drift("dense-bfloat16-after-launch", "abcdefgh", 3);
  *request.mutable_host_tokens() = ToMessage(std::vector<int32_t>{1, 2});
  request.set_token_budget(4);
  request.set_first_position(3);
  request.set_measurement("hash");
  request.set_positions(6);
  const Measured measured = Measure(request);
  ASSERT_TRUE(measured.status.ok()) << measured.status.error_message();
  ASSERT_EQ(measured.replies.size(), 6u);
  EXPECT_EQ(measured.replies[0].start().positions(), 7u);
  EXPECT_EQ(measured.replies[0].start().measurement(), "hash");
  EXPECT_EQ(measured.replies[0].start().reference(), "base, float32");
  EXPECT_TRUE(measured.replies[0].start().has_noise_floor());
  EXPECT_THAT(measured.replies[1].tokens().ids(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(measured.replies[2].launch_end(), v1::LAUNCH_END_DONE);
  const v1::DriftRows& rows = measured.replies[3].rows();
  EXPECT_EQ(rows.first_position(), 3u);
  EXPECT_THAT(rows.kl(), ElementsAre(1.5, 2, 2.5));
  EXPECT_THAT(rows.machine_share(), ElementsAre(1e-12, 1e-12, 1e-12));
  EXPECT_THAT(rows.base_surprise(), ElementsAre(2, 2, 2));
  EXPECT_THAT(rows.merged_surprise(), ElementsAre(3, 3, 3));
  EXPECT_THAT(rows.same_top(), ElementsAre(true, true, true));
  EXPECT_THAT(rows.top_overlap(), ElementsAre(4, 4, 4));
  EXPECT_THAT(rows.predicted(), ElementsAre("e", "f", "g"));
  EXPECT_THAT(rows.noise_kl(), ElementsAre(0.75, 1, 1.25));
  EXPECT_THAT(rows.noise_base_surprise(), ElementsAre(6, 6, 6));
  EXPECT_THAT(rows.noise_surprise(), ElementsAre(5, 5, 5));
  EXPECT_THAT(rows.noise_same_top(), ElementsAre(false, false, false));
  EXPECT_THAT(rows.noise_top_overlap(), ElementsAre(1, 1, 1));
  EXPECT_EQ(measured.replies[4].rows().kl_size(), 1);
  EXPECT_EQ(measured.replies[5].end().feed_ns(), 77u);
  ASSERT_EQ(host_.requests.size(), 1u);
  EXPECT_EQ(host_.requests[0].probe.Name(), "dense-bfloat16-after-launch");
  EXPECT_EQ(host_.requests[0].text_name, "prose");
  EXPECT_EQ(host_.requests[0].positions, 6);
  EXPECT_EQ(host_.requests[0].measurement, "hash");
  EXPECT_THAT(host_.requests[0].host_ids, ElementsAre(1, 2));

  host_.launch_end = std::nullopt;
  EXPECT_EQ(Measure(request).replies[2].launch_end(), v1::LAUNCH_END_UNSPECIFIED);
}

TEST_F(TextServiceTest, RefusesMeasurementsOutsideTheLimits) {
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  ExpectError(Measure(Drift("dense-float16", "ab", 8)), kInvalid, "there are split-float32, ");
  ExpectError(Measure(Drift("dense-float32", "ab", 0)), kInvalid, "a chunk of 0");
  ExpectError(Measure(Drift("dense-float32", "ab", 2049)), kInvalid, "takes 1 to 2048");
  ExpectError(Measure(Drift("dense-float32", std::string(kMaxRequestText + 1, 'a'), 8)), kInvalid, "1048577 bytes");
  ExpectError(Measure(Drift("dense-float32-after-launch", "ab", 8)), kInvalid, "token budget of 0");
  v1::MeasureDriftRequest request = Drift("dense-float32", "abc", 2);
  request.set_first_position(3);
  ExpectError(Measure(request), kInvalid, "first_position 3");
  request.set_first_position(uint64_t{1} << 63);
  ExpectError(Measure(request), kInvalid, "first_position 9223372036854775808");
  request.set_first_position(0);
  *request.mutable_host_tokens() = ToMessage(std::vector<int32_t>{1});
  ExpectError(Measure(request), kInvalid, "has no launch");
  EXPECT_TRUE(host_.requests.empty());
}

TEST_F(TextServiceTest, TheEndOfTheCallersTimeStopsTheWork) {
  host_.pause_ms = 5;
  ExpectError(Converse({Text("ab", 100'000)}, 200), grpc::StatusCode::DEADLINE_EXCEEDED, "");
  ExpectError(Measure(Drift("split-float32", std::string(100'000, 'a'), 1), 200), grpc::StatusCode::DEADLINE_EXCEEDED,
              "");
  host_.pause_ms = 0;
  EXPECT_TRUE(Converse({Text("ab", 2)}).status.ok()) << "the worker is free again";
  EXPECT_EQ(host_.ended, 2);
}

// Those who are gone leave their places to others, long before their deadlines.
TEST_F(TextServiceTest, ACancelledCallDoesNotKeepItsPlaceInTheQueue) {
  grpc::ClientContext holder_context;
  SetDeadline(holder_context, 60'000);
  auto holder = stub_->Converse(&holder_context);
  v1::ConverseReply reply;
  ASSERT_TRUE(holder->Write(Text("a", 1)));
  while (holder->Read(&reply) && !reply.has_text_end()) {
  }
  for (int i = 0; i < kMaxWaitingLaunches; ++i) {
    grpc::ClientContext context;
    SetDeadline(context, 60'000);
    auto stream = stub_->Converse(&context);
    ASSERT_TRUE(stream->Write(Text("b", 1)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_EQ(Converse({Text("c", 1)}, 300).status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << "it could wait";
  holder->WritesDone();
  EXPECT_TRUE(holder->Finish().ok());
  EXPECT_TRUE(Converse({Text("d", 1)}).status.ok());
}

TEST_F(TextServiceTest, AConversationHasTheWorkerForItself) {
  grpc::ClientContext context;
  SetDeadline(context, 10'000);
  auto stream = stub_->Converse(&context);
  ASSERT_TRUE(stream->Write(Text("ab", 1)));
  v1::ConverseReply reply;
  while (stream->Read(&reply) && !reply.has_text_end()) {
  }
  // Between two turns: whoever else comes waits.
  ExpectError(Converse({Text("c", 1)}, 100), grpc::StatusCode::DEADLINE_EXCEEDED, "");
  ExpectError(Measure(Drift("split-float32", "ab", 1), 100), grpc::StatusCode::DEADLINE_EXCEEDED, "");
  v1::RunLaunchRequest launch;
  *launch.mutable_host_tokens() = ToMessage(std::vector<int32_t>{1});
  launch.set_token_budget(1);
  grpc::ClientContext other;
  SetDeadline(other, 100);
  auto reader = stub_->RunLaunch(&other, launch);
  v1::RunLaunchReply piece;
  EXPECT_FALSE(reader->Read(&piece));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  ASSERT_TRUE(stream->Write(Text("c", 3)));
  stream->WritesDone();
  std::string text;
  while (stream->Read(&reply)) text += reply.text().text();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(launches_.launched, 0);
  EXPECT_TRUE(Measure(Drift("split-float32", "ab", 1)).status.ok());
}

TEST_F(TextServiceTest, WhatCannotBeDoneIsSaid) {
  host_.no_memory = true;
  ExpectError(Converse({Text("ab", 1)}), grpc::StatusCode::RESOURCE_EXHAUSTED, "memory");
  host_.no_memory = false;
  host_.start_error = absl::ResourceExhaustedError("the base does not fit");
  ExpectError(Converse({Text("ab", 1)}), grpc::StatusCode::RESOURCE_EXHAUSTED, "does not fit");
  host_.start_error = absl::OkStatus();
  EXPECT_TRUE(Converse({Text("ab", 1)}).status.ok());
  Serve(nullptr, "built without libtorch");
  ExpectError(Converse({Text("ab", 1)}), grpc::StatusCode::FAILED_PRECONDITION, "built without libtorch");
  ExpectError(Measure(Drift("split-float32", "ab", 1)), grpc::StatusCode::FAILED_PRECONDITION, "without libtorch");
}

TEST_F(TextServiceTest, DescribeListsTheProbes) {
  grpc::ClientContext context, other;
  SetDeadline(context, 5000);
  v1::DescribeWorkerReply reply;
  ASSERT_TRUE(stub_->Describe(&context, {}, &reply).ok());
  EXPECT_THAT(reply.drift_probes(), ElementsAre("split-float32", "dense-bfloat16"));
  Serve(nullptr, "");
  SetDeadline(other, 5000);
  ASSERT_TRUE(stub_->Describe(&other, {}, &reply).ok());
  EXPECT_EQ(reply.drift_probes_size(), 0);
}

}  // namespace
}  // namespace qgpu
