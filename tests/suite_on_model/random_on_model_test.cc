// Random kernels in the circuit's weights: what the interpreter writes, the model writes. QGPU_RANDOM_SEED starts at
// another seed, QGPU_RANDOM_MODEL_KERNELS asks for more.
#include <cstdlib>
#include <memory>

#include "gtest/gtest.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"
#include "model/weights/build_circuit.h"
#include "tests/differential/random_kernels.h"

namespace qgpu {
namespace {

constexpr size_t kMostTokens = 400;  // of a trace; longer ones cost more than they tell

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomOnModel, WritesWhatTheInterpreterWrites) {
  constexpr uint64_t kPerFile = 10;
  const auto circuit = std::make_shared<const Circuit>(BuildCircuit(256).value().circuit);
  std::vector<std::unique_ptr<Executor>> executors;
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    executors.push_back(MakeSparseExecutor(circuit, type));
  }
  const uint64_t first = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const uint64_t wanted = NumberFromEnvironment("QGPU_RANDOM_MODEL_KERNELS", 20);
  PtxCache cache(1);
  uint64_t compared = 0;
  int64_t positions = 0;
  for (uint64_t seed = first; compared < wanted; ++seed) {
    ASSERT_LT(seed, first + wanted) << "hardly any kernel could be lowered";
    const RandomCudaFile file = RandomCuda(seed, kPerFile);
    for (uint64_t k = 0; k < kPerFile && compared < wanted; ++k) {
      const RandomKernel& kernel = file.kernels[k];
      SCOPED_TRACE(fmt::format("QGPU_RANDOM_SEED={} kernel {}", seed, kernel.name));
      const LaunchSpec spec = RandomCudaLaunch(seed * kPerFile + k, file.source, kernel.name);
      const absl::StatusOr<LoweredKernel> lowered = CompileKernel(spec, cache);
      if (!lowered.ok()) continue;
      const MachineRun expected = Interpret(lowered->launch, spec.token_budget);
      if (expected.tokens.size() > kMostTokens) continue;
      Executor& executor = *executors[compared++ % executors.size()];
      const absl::StatusOr<ModelRun> run =
          RunLaunch(executor, *circuit, HostTokens(lowered->launch), static_cast<int64_t>(kMostTokens) + 10);
      ASSERT_TRUE(run.ok()) << run.status();
      ASSERT_TRUE(run->fault.ok()) << run->fault << kernel.text;
      const CheckReport check = CheckRun(lowered->launch, *run);
      ASSERT_TRUE(check.exact()) << FormatCheck(check) << kernel.text;
      positions += check.positions_checked;
    }
  }
  std::printf("%d kernels, %lld positions\n", static_cast<int>(compared), static_cast<long long>(positions));
}

}  // namespace
}  // namespace qgpu
