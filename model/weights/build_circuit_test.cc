// The weights against the interpreter: random programs on the sparse executor, every token, memory and registers.
#include "model/weights/build_circuit.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "machine/interpreter/interpreter.h"
#include "machine/interpreter/random_launch.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"

namespace qgpu {
namespace {

constexpr int kBaseHidden = 256;

const BuiltCircuit& TheCircuit() {
  static const BuiltCircuit* built = [] {
    absl::StatusOr<BuiltCircuit> result = BuildCircuit(kBaseHidden);
    if (!result.ok()) {
      ADD_FAILURE() << result.status();
      std::abort();
    }
    return new BuiltCircuit(*std::move(result));
  }();
  return *built;
}

void RunRandomPrograms(DataType type, int first_seed, int count) {
  const auto circuit = std::make_shared<const Circuit>(TheCircuit().circuit);
  const std::unique_ptr<Executor> executor = MakeSparseExecutor(circuit, type);
  int64_t positions = 0;
  for (int seed = first_seed; seed < first_seed + count; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const MachineLaunch launch = RandomLaunch(seed);
    absl::StatusOr<ModelRun> run = RunLaunch(*executor, *circuit, HostTokens(launch), 200);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(run->fault.ok()) << run->fault;
    const CheckReport report = CheckRun(launch, *run);
    ASSERT_TRUE(report.exact()) << FormatCheck(report);
    positions += report.positions_checked;
  }
  EXPECT_GT(positions, 20 * count);
}

TEST(BuildCircuit, StaysWithinTheContract) {
  const CircuitReport& report = TheCircuit().report;
  EXPECT_LE(report.layers.size(), 30u);
  EXPECT_LE(report.dimensions, 1280);
  EXPECT_LE(report.machine_ids, 16384);
  for (const LayerFigures& layer : report.layers) {
    EXPECT_LE(layer.neurons, 6144);
    EXPECT_LE(layer.heads, 16);
  }
  EXPECT_GE(report.worst_margin, 60);
}

TEST(BuildCircuit, RunsRandomProgramsInFloat32) { RunRandomPrograms(DataType::kFloat32, 1, 60); }
TEST(BuildCircuit, RunsRandomProgramsInBFloat16) { RunRandomPrograms(DataType::kBFloat16, 1001, 60); }

TEST(BuildCircuit, IsTheSameEveryTime) {
  EXPECT_EQ(CircuitHash(TheCircuit().circuit), CircuitHash(BuildCircuit(kBaseHidden)->circuit));
}

TEST(BuildCircuit, FitsOtherBases) {
  for (int hidden : {2048, 1024, 257}) EXPECT_TRUE(BuildCircuit(hidden).ok()) << hidden;
  EXPECT_EQ(BuildCircuit(0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BuildCircuit, NamesWhatDoesNotFit) {
  CircuitLimits limits;
  limits.dimensions = 1000;
  EXPECT_THAT(std::string(BuildCircuit(kBaseHidden, limits).status().message()),
              testing::HasSubstr("residual dimensions, the limit is 1000"));
  limits = {};
  limits.neurons = 3000;
  EXPECT_EQ(BuildCircuit(kBaseHidden, limits).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace qgpu
