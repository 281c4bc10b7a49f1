// The worker with libtorch's models, over the wire: conversations in the split form with the machine's circuit, and
// drift with a small circuit on a base of the embedded one's shape.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "common/file.h"
#include "evals/drift/judge.h"
#include "evals/drift/measure.h"
#include "machine/interpreter/interpreter.h"
#include "machine/interpreter/random_launch.h"
#include "model/base/random_base.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/forward/torch/torch_executor.h"
#include "model/launch/launch.h"
#include "model/merge/test_circuit.h"
#include "model/weights/build_circuit.h"
#include "model/weights/synthetic_circuit.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/server.h"
#include "qgpu/v1/worker.grpc.pb.h"
#include "worker/model_runner.h"
#include "worker/model_text_host.h"
#include "worker/worker_service.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

[[maybe_unused]] const bool kOneThread = (SetTorchThreads(1), true);

constexpr int64_t kDeadlineMs = 100'000;
constexpr uint32_t kChunk = 72;  // a chunk of the linear layers' rule and a bit

MachineLaunch LaunchThatEnds(uint64_t seed) {
  for (;; seed += 1000) {
    MachineLaunch launch = RandomLaunch(seed);
    if (Interpret(launch, 300).end == LaunchEnd::kDone) return launch;
  }
}

class NoLaunches : public LaunchRunner {
 public:
  HostedModel Describe() const override { return {}; }
  absl::StatusOr<RunnerOutcome> Run(std::span<const int32_t>, int64_t, const TokenSink&) override {
    return absl::UnimplementedError("");
  }
};

class HostedTextTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fmt::format("{}/text_host.{}", testing::TempDir(), getpid());
    ASSERT_TRUE(WriteRandomBase(folder_ + "/base", EmbeddedBaseShape(), kEmbeddedBaseSeed).ok());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  void Serve(LaunchRunner& launches, TextHost* text) {
    service_ = MakeWorkerService(launches, "qgpu-worker", text);
    auto server = RpcServer::Start({}, {service_.get()});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::Worker::NewStub(*OpenChannel(server_->address(), {}, false));
  }

  static std::string folder_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};
std::string HostedTextTest::folder_;

// ---- Conversations

class Conversations : public HostedTextTest {
 protected:
  void SetUp() override {
    const Circuit circuit = BuildCircuit(static_cast<int>(EmbeddedBaseShape().hidden)).value().circuit;
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/circuit.bin", SerializeCircuit(circuit)).ok());
    auto host =
        MakeModelHost({.circuit = folder_ + "/circuit.bin", .circuit_is_given = true, .base = folder_ + "/base"});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    Serve(*host_.launches, host_.text.get());
  }
  static v1::ConverseRequest Text(const std::string& text, uint32_t max_tokens) {
    v1::ConverseRequest request;
    request.mutable_text()->set_text(text);
    request.mutable_text()->set_max_tokens(max_tokens);
    return request;
  }
  static v1::ConverseRequest Launch(const MachineLaunch& launch) {
    std::vector<int32_t> ids;
    for (const Token token : HostTokens(launch)) ids.push_back(TokenToId(token));
    v1::ConverseRequest request;
    *request.mutable_launch()->mutable_host_tokens() = ToMessage(ids);
    request.mutable_launch()->set_token_budget(300);
    return request;
  }

  struct Conversed {
    grpc::Status status;
    std::vector<std::vector<int32_t>> ids;  // of each turn
    std::vector<std::string> texts;
    std::vector<v1::ConverseReply> ends;
  };
  Conversed Converse(const std::vector<v1::ConverseRequest>& turns) {
    grpc::ClientContext context;
    SetDeadline(context, kDeadlineMs);
    auto stream = stub_->Converse(&context);
    for (const v1::ConverseRequest& turn : turns) stream->Write(turn);
    stream->WritesDone();
    Conversed conversed;
    std::vector<int32_t> ids;
    std::string text;
    for (v1::ConverseReply reply; stream->Read(&reply);) {
      ids.insert(ids.end(), reply.text().ids().begin(), reply.text().ids().end());
      EXPECT_TRUE(AppendTokens(reply.tokens(), true, 1 << 24, ids).ok());
      text += reply.text().text();
      if (!reply.has_text_end() && !reply.has_launch_end()) continue;
      conversed.ends.push_back(reply);
      conversed.ids.push_back(std::exchange(ids, {}));
      conversed.texts.push_back(std::exchange(text, ""));
    }
    conversed.status = stream->Finish();
    return conversed;
  }

  ModelHost host_;
};

TEST_F(Conversations, LaunchesInBetweenChangeNothingOfTheSplitFormsText) {
  const MachineLaunch launch = LaunchThatEnds(21);
  const MachineRun expected = Interpret(launch, 300);
  const Conversed without = Converse({Text("Once upon", 20), Text(" a time", 30)});
  const Conversed with = Converse({Launch(launch), Text("Once upon", 20), Launch(launch), Text(" a time", 30)});
  ASSERT_TRUE(without.status.ok()) << without.status.error_message();
  ASSERT_TRUE(with.status.ok()) << with.status.error_message();
  ASSERT_EQ(without.ids.size(), 2u);
  ASSERT_EQ(with.ids.size(), 4u);
  EXPECT_EQ(with.ids[1], without.ids[0]);
  EXPECT_EQ(with.ids[3], without.ids[1]);
  EXPECT_EQ(with.texts[1], without.texts[0]);
  EXPECT_EQ(without.ids[0].size(), 20u) << "the random base has no reason to stop";
  EXPECT_NE(without.ids[1], Converse({Text(" a time", 30)}).ids[0]) << "the first turn is in the second one's context";

  std::vector<int32_t> trace;
  for (const Token token : expected.tokens) trace.push_back(TokenToId(token));
  for (const int turn : {0, 2}) {
    EXPECT_EQ(with.ids[turn], trace);
    const v1::MachineImage& image = with.ends[turn].launch_end().image();
    EXPECT_EQ(std::vector<uint32_t>(image.memory().begin(), image.memory().end()), expected.state.memory);
    EXPECT_EQ(with.ends[turn].launch_end().fault(), "");
  }
}

TEST_F(Conversations, WhatTheBaseCannotTakeIsSaid) {
  v1::ConverseRequest ids;
  ids.mutable_text()->mutable_ids()->add_ids(512);
  EXPECT_THAT(Converse({ids}).status.error_message(), HasSubstr("id 512"));
  EXPECT_EQ(Converse({ids}).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::ConverseRequest chat;
  v1::Message& message = *chat.mutable_text()->mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("hi");
  if (!std::filesystem::exists(folder_ + "/base/chat_template.jinja")) {
    EXPECT_EQ(Converse({chat}).status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(Converse({chat}).status.error_message(), HasSubstr("chat template"));
  }
  EXPECT_THAT(Converse({Text(std::string(40'000, 'a'), 1)}).status.error_message(),
              HasSubstr("max_position_embeddings"));
  EXPECT_TRUE(Converse({Text("still there", 1)}).status.ok());
}

TEST_F(Conversations, AFolderThatIsNoBaseIsRefusedAtStart) {
  const auto error = [](const ModelOptions& options) {
    const auto host = MakeModelHost(options);
    return host.ok() ? std::string("made") : std::string(host.status().message());
  };
  const std::string circuit = folder_ + "/circuit.bin", bad = folder_ + "/bad";
  EXPECT_THAT(error({.circuit = circuit, .base = folder_}), HasSubstr("config.json"));
  const auto copy = [&] {
    std::filesystem::remove_all(bad);
    std::filesystem::copy(folder_ + "/base", bad);
  };
  copy();
  ASSERT_TRUE(WriteFileAtomically(bad + "/tokenizer.json", "{").ok());
  EXPECT_THAT(error({.circuit = circuit, .base = bad}), HasSubstr("tokenizer.json"));
  copy();
  ASSERT_TRUE(WriteFileAtomically(bad + "/qgpu_manifest.json", "{}").ok());
  EXPECT_THAT(error({.circuit = circuit, .base = bad}), HasSubstr("merged model already"));
  ModelShape shape = EmbeddedBaseShape();
  shape.hidden = 128;
  std::filesystem::remove_all(bad);
  ASSERT_TRUE(WriteRandomBase(bad, shape, 1).ok());
  EXPECT_THAT(error({.circuit = circuit, .circuit_is_given = true, .base = bad}), HasSubstr("leave --circuit out"));
  shape.hidden = 256;
  shape.linear_key_dim = shape.linear_value_dim = 64;
  std::filesystem::remove_all(bad);
  ASSERT_TRUE(WriteRandomBase(bad, shape, 1).ok());
  EXPECT_THAT(error({.circuit = circuit, .base = bad}), HasSubstr("128"));
}

TEST_F(Conversations, DriftOfTextAfterALaunchIsExactlyZeroInTheSplitForm) {
  const MachineLaunch launch = LaunchThatEnds(22);
  const MachineRun expected = Interpret(launch, 300);
  for (const char* probe : {"split-float32-after-launch", "split-bfloat16-after-launch"}) {
    SCOPED_TRACE(probe);
    v1::MeasureDriftRequest request;
    request.set_probe(probe);
    request.set_text_name("prose");
    request.set_text("It was a dark and stormy night; the rain fell in torrents.");
    request.set_chunk(16);
    *request.mutable_host_tokens() = Launch(launch).launch().host_tokens();
    request.set_token_budget(300);
    grpc::ClientContext context;
    SetDeadline(context, kDeadlineMs);
    auto reader = stub_->MeasureDrift(&context, request);
    std::vector<int32_t> tokens;
    std::vector<double> kl;
    v1::LaunchEnd end = v1::LAUNCH_END_UNSPECIFIED;
    for (v1::MeasureDriftReply reply; reader->Read(&reply);) {
      EXPECT_TRUE(AppendTokens(reply.tokens(), true, 1 << 24, tokens).ok());
      if (reply.part_case() == v1::MeasureDriftReply::kLaunchEnd) end = reply.launch_end();
      kl.insert(kl.end(), reply.rows().kl().begin(), reply.rows().kl().end());
    }
    const grpc::Status status = reader->Finish();
    ASSERT_TRUE(status.ok()) << status.error_message();
    std::vector<int32_t> trace;
    for (const Token token : expected.tokens) trace.push_back(TokenToId(token));
    EXPECT_EQ(tokens, trace);
    EXPECT_EQ(end, v1::LAUNCH_END_DONE);
    EXPECT_EQ(kl, std::vector<double>(request.text().size() - 1, 0.0));
  }
}

// ---- Drift

class DriftOverTheWire : public HostedTextTest {
 protected:
  void SetUp() override {
    const ModelShape shape = EmbeddedBaseShape();
    Circuit circuit =
        WithFreeTextFlag(MakeDigitalCircuit({.layers = 2, .heads = 1, .base_hidden = 257, .bits = 14}, 5));
    circuit = WithUnusedDimensions(circuit, 768 - circuit.width);
    circuit.base_hidden = static_cast<int32_t>(shape.hidden);
    circuit_ = std::make_shared<const Circuit>(std::move(circuit));
    TextHostOptions options;
    options.open_base = [] { return HostedBase::Open(folder_ + "/base"); };
    options.circuit = circuit_;
    options.split_executor = MakeSparseExecutor(circuit_, DataType::kFloat32);
    host_ = MakeModelTextHost(std::move(options));
    Serve(launches_, host_.get());
    text_ = DriftTextsNamed({"trigger"}).value()[0];
  }

  struct Measured {
    grpc::Status status;
    v1::DriftStart start;
    DriftStatistics drift, noise;
    std::string predicted;
    int pieces = 0;
  };
  Measured Measure(v1::MeasureDriftRequest request) {
    request.set_text_name("trigger");
    request.set_text(text_.text);
    request.set_chunk(kChunk);
    request.set_positions(200);
    grpc::ClientContext context;
    SetDeadline(context, kDeadlineMs);
    auto reader = stub_->MeasureDrift(&context, request);
    Measured measured;
    for (v1::MeasureDriftReply reply; reader->Read(&reply);) {
      if (reply.has_start()) measured.start = reply.start();
      if (!reply.has_rows()) continue;
      ++measured.pieces;
      const v1::DriftRows& rows = reply.rows();
      for (int i = 0; i < rows.kl_size(); ++i) {
        const int64_t position = static_cast<int64_t>(rows.first_position()) + i;
        const RowDrift row = {rows.kl(i),
                              rows.machine_share(i),
                              rows.base_surprise(i),
                              rows.merged_surprise(i),
                              rows.same_top(i),
                              static_cast<int>(rows.top_overlap(i))};
        EXPECT_TRUE(measured.drift.Append("trigger", position, row).ok());
        measured.predicted += rows.predicted(i);
        if (rows.noise_kl_size() == 0) continue;
        RowDrift noise;
        noise.kl = rows.noise_kl(i);
        noise.base_surprise = rows.noise_base_surprise(i);
        noise.merged_surprise = rows.noise_surprise(i);
        EXPECT_TRUE(measured.noise.Append("trigger", position, noise).ok());
      }
    }
    measured.status = reader->Finish();
    return measured;
  }
  static v1::MeasureDriftRequest Probe(const std::string& name) {
    v1::MeasureDriftRequest request;
    request.set_probe(name);
    return request;
  }
  // The same by the library, without a worker.
  DriftMeasurement Expected(const DriftProbe& probe) {
    const std::string base = folder_ + "/base";
    const DataType type = probe.bfloat16 ? DataType::kBFloat16 : DataType::kFloat32;
    const bool split = probe.form == DriftProbe::Form::kSplit;
    const auto fine = LoadTextModel(base, DataType::kFloat32).value();
    const auto coarse = LoadTextModel(base, DataType::kBFloat16).value();
    const auto merged = split ? LoadTextModel(base, type).value() : LoadMergedTextModel(*circuit_, base, type).value();
    const auto encoder = DriftEncoder::Open(base, fine->vocabulary()).value();
    DriftMeasurement measurement({}, {encoder.Encode(text_, 200).value()}, kChunk);
    DriftModels models = {fine.get(), merged.get(), nullptr, nullptr};
    if (probe.bfloat16) models = {split ? coarse.get() : fine.get(), merged.get(), fine.get(), coarse.get()};
    while (!measurement.complete()) {
      const absl::Status status = measurement.RunChunk(models);
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) break;
    }
    return measurement;
  }

  std::shared_ptr<const Circuit> circuit_;
  std::unique_ptr<TextHost> host_;
  NoLaunches launches_;
  DriftText text_;
};

TEST_F(DriftOverTheWire, IsThatOfTheLibraryAlsoWhenTakenUp) {
  for (const char* name : {"split-float32", "split-bfloat16", "dense-float32", "dense-bfloat16"}) {
    SCOPED_TRACE(name);
    const DriftProbe probe = DriftProbeFromName(name).value();
    const DriftMeasurement expected = Expected(probe);
    const Measured whole = Measure(Probe(name));
    ASSERT_TRUE(whole.status.ok()) << whole.status.error_message();
    EXPECT_EQ(whole.start.positions(), 200u);
    EXPECT_EQ(whole.pieces, 3);
    EXPECT_EQ(whole.start.has_noise_floor(), probe.bfloat16);
    EXPECT_EQ(whole.drift.ToJson().dump(), expected.drift().ToJson().dump());
    ASSERT_EQ(whole.noise.Rows("trigger"), probe.bfloat16 ? 200 : 0);
    for (int i = 0; i < whole.noise.Rows("trigger"); ++i) {
      const RowDrift& row = whole.noise.texts()[0].rows[i];
      const RowDrift& wanted = expected.noise_floor().texts()[0].rows[i];
      ASSERT_EQ(row.kl, wanted.kl);
      ASSERT_EQ(row.base_surprise, wanted.base_surprise);
      ASSERT_EQ(row.merged_surprise, wanted.merged_surprise);
    }
    const DriftVerdict verdict = JudgeDrift(whole.drift, whole.noise, BoundOf(probe));
    EXPECT_TRUE(verdict.within) << verdict.text;
    EXPECT_EQ(whole.predicted.substr(0, 20), text_.text.substr(1, 20)) << "a byte is a token of this base";

    v1::MeasureDriftRequest rest = Probe(name);
    rest.set_first_position(2 * kChunk);
    rest.set_measurement(whole.start.measurement());
    const Measured taken_up = Measure(rest);
    ASSERT_TRUE(taken_up.status.ok()) << taken_up.status.error_message();
    EXPECT_EQ(taken_up.start.measurement(), whole.start.measurement());
    ASSERT_EQ(taken_up.drift.Rows("trigger"), 200 - 2 * kChunk);
    for (int64_t i = 0; i < taken_up.drift.Rows("trigger"); ++i) {
      const RowDrift &got = taken_up.drift.texts()[0].rows[i], &want = whole.drift.texts()[0].rows[2 * kChunk + i];
      ASSERT_EQ(got.kl, want.kl);
      ASSERT_EQ(got.merged_surprise, want.merged_surprise);
    }
  }
}

TEST_F(DriftOverTheWire, RowsOfAnotherMeasurementAreNotTakenUp) {
  v1::MeasureDriftRequest request = Probe("split-float32");
  request.set_first_position(kChunk);
  request.set_measurement(Measure(Probe("split-bfloat16")).start.measurement());
  EXPECT_EQ(Measure(request).status.error_code(), grpc::StatusCode::ABORTED);
  request = Probe("split-float32");
  request.set_first_position(3 * kChunk);
  const Measured behind = Measure(request);
  EXPECT_EQ(behind.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(behind.status.error_message(), HasSubstr("200 positions"));
}

}  // namespace
}  // namespace qgpu
