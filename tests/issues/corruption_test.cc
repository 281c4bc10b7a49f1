// The model is what computes: in every layer there is a weight whose sign a launch depends on. Each is negated with
// `qgpu corrupt`, which reseals the file, and run-suite must then fail and name kernel, position and token.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "common/exit_code.h"
#include "common/file.h"
#include "common/prng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/suite.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"
#include "model/weights/circuit.h"
#include "tests/issues/program.h"

namespace qgpu {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr uint64_t kSeed = 20;
constexpr int kTriesPerLayer = 200;
constexpr char kCase[] = "dot/demo";

class Corruption : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto bytes = ReadFile(BuiltCircuit());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    auto circuit = ParseCircuit(*bytes);
    ASSERT_TRUE(circuit.ok()) << circuit.status();
    circuit_ = new Circuit(*std::move(circuit));
    const auto suite = LoadSuite("kernels");
    ASSERT_TRUE(suite.ok()) << suite.status();
    for (const KernelCase& kernel_case : suite->cases) {
      if (kernel_case.Id() != kCase) continue;
      const auto lowered = CompileKernel(kernel_case.spec);
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      launch_ = new MachineLaunch(lowered->launch);
    }
    ASSERT_NE(launch_, nullptr);
  }
  static void TearDownTestSuite() {
    delete circuit_;
    delete launch_;
  }

  // Whether the model of `circuit` writes another token somewhere in the launch.
  static bool GoesWrong(const Circuit& circuit) {
    const auto executor = MakeSparseExecutor(std::make_shared<const Circuit>(circuit), DataType::kFloat32);
    const auto check = CheckTeacherForced(*executor, HostTokens(*launch_), Interpret(*launch_, 1000).tokens);
    return !check.ok() || check->mismatches > 0;
  }

  // The first of the layer's weights, tried in the seed's order, that makes the launch go wrong.
  static std::optional<int64_t> FindUsedWeight(int layer) {
    const CircuitLayer& weights = circuit_->layers[layer];
    uint32_t count = 0;
    for (const SparseMatrix* matrix : {&weights.q, &weights.k, &weights.v, &weights.z, &weights.b, &weights.a,
                                       &weights.out, &weights.gate, &weights.up, &weights.down}) {
      count += static_cast<uint32_t>(matrix->nonzeros());
    }
    SplitMix64 random(kSeed + layer);
    for (int attempt = 0; attempt < kTriesPerLayer; ++attempt) {
      const int64_t index = random.Below(count);
      Circuit corrupted = *circuit_;
      if (!CorruptCircuit(corrupted, layer, index).ok()) return std::nullopt;
      if (GoesWrong(corrupted)) return index;
    }
    return std::nullopt;
  }

  static Circuit* circuit_;
  static MachineLaunch* launch_;
};
Circuit* Corruption::circuit_ = nullptr;
MachineLaunch* Corruption::launch_ = nullptr;

TEST_F(Corruption, TheSoundCircuitIsRight) { EXPECT_FALSE(GoesWrong(*circuit_)); }

TEST_F(Corruption, EveryLayersWeightsMatter) {
  const std::string directory = fmt::format("{}/corruption.{}", testing::TempDir(), getpid());
  std::filesystem::create_directories(directory);
  for (int layer = 0; layer < static_cast<int>(circuit_->layers.size()); ++layer) {
    SCOPED_TRACE(fmt::format("layer {}, seed {}", layer, kSeed + layer));
    const std::optional<int64_t> index = FindUsedWeight(layer);
    ASSERT_TRUE(index.has_value()) << "no weight of " << kTriesPerLayer << " tried is used";
    const std::string file = directory + "/corrupted.bin";
    const ProgramRun corrupt = RunProgram(
        "qgpu", {"corrupt", "--layer", std::to_string(layer), "--index", std::to_string(*index), "--out", file},
        directory);
    ASSERT_EQ(corrupt.exit_code, kExitGood) << corrupt.err;
    EXPECT_THAT(corrupt.out, HasSubstr(fmt::format("layers.{}.", layer)));

    const ProgramRun suite =
        RunProgram("qgpu-coordinator", {"run-suite", "--filter", kCase, "--circuit", file}, directory);
    EXPECT_EQ(suite.exit_code, kExitWrong) << suite.err;
    const std::string said = suite.out + suite.err;
    EXPECT_THAT(said, HasSubstr(kCase));
    EXPECT_THAT(said, ContainsRegex("position [0-9]+"));
    EXPECT_THAT(said, ContainsRegex("(EXEC|VAL0U?|VAL1|VAL2|PRED|MEM|SW|WARP|CTA.|BAR|TRAP|DONE)"));
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace qgpu
