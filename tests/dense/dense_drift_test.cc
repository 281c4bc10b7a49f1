// The worker's drift probes of the dense form with the machine's circuit: text by itself and after a launch that the
// model writes, judged as the coordinator does.
#include <optional>

#include "evals/drift/judge.h"
#include "evals/drift/texts.h"
#include "gtest/gtest.h"
#include "model/base/random_base.h"
#include "model/weights/build_circuit.h"
#include "tests/dense/suite_traces.h"
#include "worker/model_text_host.h"

namespace qgpu {
namespace {

TEST(DenseDrift, IsWithinItsBoundAndTheLaunchBeforeItIsExact) {
  const ModelShape shape = EmbeddedBaseShape();
  const std::string base = testing::TempDir() + "/qgpu_dense_drift";
  ASSERT_TRUE(WriteRandomBase(base, shape, kEmbeddedBaseSeed).ok());
  TextHostOptions options;
  options.open_base = [&base] { return HostedBase::Open(base); };
  options.circuit = std::make_shared<const Circuit>(BuildCircuit(static_cast<int>(shape.hidden)).value().circuit);
  const auto host = MakeModelTextHost(std::move(options));
  const SuiteTrace demo = DotDemo().value();
  std::vector<int32_t> host_ids, trace;
  for (const Token token : demo.host) host_ids.push_back(TokenToId(token));
  for (const Token token : demo.trace) trace.push_back(TokenToId(token));

  // Those that share models beside each other.
  for (const char* name :
       {"dense-float32", "dense-float32-after-launch", "dense-bfloat16-after-launch", "dense-bfloat16"}) {
    SCOPED_TRACE(name);
    DriftRequest request;
    request.probe = DriftProbeFromName(name).value();
    request.text_name = "prose";
    request.text = DriftTextsNamed({"prose"}).value()[0].text;
    request.positions = 100;
    request.chunk = 64;
    if (request.probe.after_launch) {
      request.host_ids = host_ids;
      request.token_budget = static_cast<int64_t>(trace.size()) + 10;
    }
    DriftStatistics drift, noise;
    std::vector<int32_t> written;
    std::optional<LaunchEnd> end;
    DriftCallbacks callbacks;
    callbacks.on_start = [](const DriftBeginning&) { return absl::OkStatus(); };
    callbacks.on_tokens = [&written](std::span<const int32_t> ids) {
      written.insert(written.end(), ids.begin(), ids.end());
      return true;
    };
    callbacks.on_launch_end = [&end](std::optional<LaunchEnd> how) {
      end = how;
      return absl::OkStatus();
    };
    callbacks.on_rows = [&](const DriftPiece& piece) {
      for (size_t i = 0; i < piece.drift.size(); ++i) {
        const int64_t position = piece.first_position + static_cast<int64_t>(i);
        QGPU_RETURN_IF_ERROR(drift.Append("prose", position, piece.drift[i]));
        if (!piece.noise_floor.empty()) QGPU_RETURN_IF_ERROR(noise.Append("prose", position, piece.noise_floor[i]));
      }
      return absl::OkStatus();
    };
    callbacks.is_cancelled = [] { return false; };
    const auto measured = host->MeasureDrift(request, callbacks);
    ASSERT_TRUE(measured.ok()) << measured.status();
    EXPECT_EQ(drift.Rows("prose"), 100);
    const DriftVerdict verdict = JudgeDrift(drift, noise, BoundOf(request.probe));
    EXPECT_TRUE(verdict.within) << verdict.text;
    fmt::print("{}: {}; largest share of the machine's ids {:.1e}\n", name, verdict.text,
               drift.Summarize().machine_share_max);
    if (!request.probe.after_launch) continue;
    EXPECT_EQ(written, trace);
    EXPECT_EQ(end, LaunchEnd::kDone);
    EXPECT_GT(drift.Summarize().mean, 1e-6) << "a launch is in the context, which is more than rounding";
  }
}

}  // namespace
}  // namespace qgpu
