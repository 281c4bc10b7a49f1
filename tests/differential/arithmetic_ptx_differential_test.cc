// Every integer instruction, with every type and modifier, against native-cpu, on extreme and on random operands. A
// failure prints its seed; QGPU_RANDOM_SEED starts at another one, QGPU_RANDOM_LAUNCHES asks for more of each.
#include <gtest/gtest.h>

#include <cstdlib>

#include "fmt/format.h"
#include "kernels/installed_tools.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "oracle/native_cpu/native_cpu.h"
#include "tests/differential/instruction_forms.h"

namespace qgpu {
namespace {

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Few enough to leave memory for registers that are spilled.
int ThreadsFor(const FormKernel& kernel) { return std::min(8, 60 / (kernel.sources + kernel.results)); }

// "" where both engines agree on `launches` sets of operands.
std::string Difference(const FormKernel& kernel, int launches, SplitMix64& random) {
  LaunchSpec spec = LaunchOfForm(kernel, ThreadsFor(kernel), random);
  absl::StatusOr<LoweredKernel> lowered = CompilePtxKernel("form.ptx", kernel.ptx, spec);
  if (!lowered.ok()) return lowered.status().ToString();
  absl::StatusOr<NativeCpuKernel> native = NativeCpuKernel::Compile("form.ptx", kernel.ptx, "k");
  if (!native.ok()) return native.status().ToString();
  for (int i = 0; i < launches; ++i) {
    spec = LaunchOfForm(kernel, ThreadsFor(kernel), random);  // the program is the same for other words
    const absl::StatusOr<NativeRun> expected = native->Run(spec);
    if (!expected.ok()) return expected.status().ToString();
    MachineLaunch launch = lowered->launch;
    for (size_t a = 0; a < spec.arguments.size(); ++a) {
      const std::vector<uint32_t>& words = spec.arguments[a].words;
      std::copy(words.begin(), words.end(), launch.memory.begin() + lowered->byte_address[a] / 4);
    }
    const MachineRun run = Interpret(launch, spec.token_budget);
    if (run.end != LaunchEnd::kDone || expected->end != NativeEnd::kDone) {
      return fmt::format("interpreter: {}, native-cpu: {}", EndName(run.end), NativeEndName(expected->end));
    }
    for (size_t word = 0; word < lowered->arena_words; ++word) {
      if (run.state.memory[word] == expected->memory[word]) continue;
      std::string inputs;
      for (uint32_t input : spec.arguments[1].words) inputs += fmt::format(" {:#x}", input);
      return fmt::format("word {}: interpreter {:#x}, native-cpu {:#x}; inputs{}\n{}", word, run.state.memory[word],
                         expected->memory[word], inputs, Disassemble(lowered->launch.program));
    }
  }
  return "";
}

TEST(ArithmeticPtxDifferential, EveryFormAgreesWithNativeCpu) {
  const uint64_t seed = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const int launches = static_cast<int>(NumberFromEnvironment("QGPU_RANDOM_LAUNCHES", 3));
  printf("QGPU_RANDOM_SEED=%d\n", static_cast<int>(seed));
  const char* only = std::getenv("QGPU_FORM");  // those that contain it
  uint64_t index = 0;
  for (const std::string& form : AllInstructionForms()) {
    ++index;
    if (only != nullptr && form.find(only) == std::string::npos) continue;
    SplitMix64 random(seed * 100000 + index);
    const bool immediate = index % 3 == 1, guarded = index % 4 == 2;
    const FormKernel kernel = KernelOfForm(form, immediate, guarded, random);
    EXPECT_EQ(Difference(kernel, launches, random), "") << form << "\n" << kernel.ptx;
  }
  printf("%d forms\n", static_cast<int>(index));
}

// What is compared above is what a T4 has.
TEST(ArithmeticPtxDifferential, PtxasTakesEveryForm) {
  if (!Installed("ptxas")) GTEST_SKIP() << "ptxas is not installed";
  std::string text = ".version 7.6\n.target sm_75\n.address_size 64\n";
  std::vector<std::string> forms = AllInstructionForms();
  for (size_t i = 0; i < forms.size(); ++i) {
    SplitMix64 random(i);
    const std::string ptx = KernelOfForm(forms[i], i % 3 == 0, i % 4 == 1, random).ptx;
    const size_t entry = ptx.find(".visible .entry k(");
    text += fmt::format("// {}\n.visible .entry k{}({}", forms[i], i, ptx.substr(entry + 18));
  }
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder.File("forms.ptx"), text).ok());
  EXPECT_EQ(
      Failure(fmt::format("ptxas -O0 -arch=sm_75 '{}' -o '{}'", folder.File("forms.ptx"), folder.File("forms.cubin")),
              folder),
      "");
}

}  // namespace
}  // namespace qgpu
