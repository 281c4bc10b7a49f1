// Every integer instruction, with every type and modifier, against native-cpu, on extreme and on random operands. A
// failure prints its seed; QGPU_RANDOM_SEED starts at another one, QGPU_RANDOM_LAUNCHES asks for more of each.
#include <gtest/gtest.h>

#include <cstdlib>

#include "fmt/format.h"
#include "kernels/installed_tools.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "oracle/native_cpu/native_cpu.h"
#include "tests/differential/compare_engines.h"
#include "tests/differential/instruction_forms.h"
#include "tests/differential/mixed_forms.h"

namespace qgpu {
namespace {

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Few enough to leave memory for registers that are spilled.
int ThreadsFor(const FormKernel& kernel) { return std::min(8, 75 / (kernel.sources + kernel.results)); }

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

TEST(ArithmeticPtxDifferential, MixturesAgreeWithNativeCpu) {
  const uint64_t first = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const uint64_t count = NumberFromEnvironment("QGPU_RANDOM_KERNELS", 250);
  const std::vector<std::string> forms = AllInstructionForms();
  int agreed = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("QGPU_RANDOM_SEED={}", seed));
    SplitMix64 random(seed);
    const FormKernel kernel = MixedKernel(forms, 2 + static_cast<int>(seed % 7), random);
    const std::string difference = Difference(kernel, 2, random);
    const auto says = [&](const char* text) { return difference.find(text) != std::string::npos; };
    if (says("INVALID_ARGUMENT") && (says(" usable") || says("the ROM holds"))) continue;  // does not fit
    EXPECT_EQ(difference, "") << kernel.ptx;
    if (HasFailure()) return;
    ++agreed;
  }
  printf("%d of %d fit\n", agreed, static_cast<int>(count));
  EXPECT_GT(agreed, static_cast<int>(count / 3));
}

// What is compared above is what a T4 has.
TEST(ArithmeticPtxDifferential, PtxasTakesEveryForm) {
  if (!Installed("ptxas")) GTEST_SKIP() << "ptxas is not installed";
  std::string text = ".version 8.2\n.target sm_75\n.address_size 64\n";
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

// An index of 64 bits from memory: an address traps unless all of its bits say a word of the buffer.
TEST(ArithmeticPtxDifferential, AddressesOfSixtyFourBitsTrapWhereTheyMust) {
  constexpr const char* kText =
      ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 in)\n{\n"
      "  .reg .b32 %r<3>;\n  .reg .b64 %d<4>;\n  ld.param.u64 %d0, [out];\n  ld.param.u64 %d1, [in];\n"
      "  ld.global.u32 %r0, [%d1];\n  ld.global.u32 %r1, [%d1+4];\n  mov.b64 %d2, {%r0, %r1};\n"
      "  shl.b64 %d2, %d2, 2;\n  add.s64 %d3, %d0, %d2;\n  st.global.u32 [%d3+4], 7;\n  ret;\n}\n";
  const std::pair<uint64_t, bool> indices[] = {{0, false},
                                               {3, false},
                                               {~uint64_t{0}, false},       // -1
                                               {uint64_t{1} << 62, false},  // times 4 is 0
                                               {(uint64_t{1} << 62) + 2, false},
                                               {uint64_t{1} << 30, true},  // times 4 is 2^32
                                               {(uint64_t{1} << 30) + 1, true},
                                               {uint64_t{1} << 61, true},
                                               {0 - (uint64_t{1} << 30), true},
                                               {1000, true},
                                               {0xffffffffu, true},
                                               {0x7fffffffu, true}};
  for (const auto& [index, traps] : indices) {
    LaunchSpec spec;
    spec.source = {"address.ptx", kText, SourceLanguage::kPtx};
    spec.kernel = std::string("k");
    for (const char* name : {"out", "in"}) {
      KernelArgument argument;
      argument.name = name;
      argument.kind = KernelArgument::Kind::kBuffer;
      argument.words = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 1, 2, 3};
      spec.arguments.push_back(argument);
    }
    const Comparison comparison = CompareEngines(spec);
    EXPECT_EQ(comparison.difference, "") << index;
    EXPECT_EQ(comparison.machine_trapped, traps) << index;
  }
}

// What device code calls, compiled from CUDA: each expression on words a, b and c and 64-bit values x, y.
constexpr const char* kCudaExpressions[] = {
    "min((int)a, (int)b)",
    "max((int)a, (int)b)",
    "min(a, b)",
    "max(a, b)",
    "min(x, y)",
    "max(x, y)",
    "min((long long)x, (long long)y)",
    "max((long long)x, (long long)y)",
    "min((int)a, b)",
    "max(x, (long long)y)",
    "umin(a, b)",
    "llmin(x, y)",
    "ullmax(x, y)",
    "abs((int)a)",
    "abs((long long)x)",
    "labs((long)x)",
    "llabs((long long)x)",
    "__popc(a)",
    "__popcll(x)",
    "__clz((int)a)",
    "__clzll((long long)x)",
    "__ffs((int)a)",
    "__ffsll((long long)x)",
    "__brev(a)",
    "__brevll(x)",
    "__mulhi((int)a, (int)b)",
    "__umulhi(a, b)",
    "__mul64hi((long long)x, (long long)y)",
    "__umul64hi(x, y)",
    "__mul24((int)a, (int)b)",
    "__umul24(a, b)",
    "__funnelshift_l(a, b, c)",
    "__funnelshift_r(a, b, c)",
    "__funnelshift_lc(a, b, c)",
    "__funnelshift_rc(a, b, c)",
    "__byte_perm(a, b, 0x1470)",
    "__byte_perm(a, b, c)",
    "__sad((int)a, (int)b, c)",
    "__usad(a, b, c)",
    "__hadd((int)a, (int)b)",
    "__rhadd((int)a, (int)b)",
    "__uhadd(a, b)",
    "__urhadd(a, b)",
    "__dp4a((int)a, (int)b, (int)c)",
    "__dp4a(a, b, c)",
    "__dp2a_lo((int)a, (int)b, (int)c)",
    "__dp2a_lo(a, b, c)",
    "__dp2a_hi((int)a, (int)b, (int)c)",
    "__dp2a_hi(a, b, c)",
    "__fns(a, b & 31, (int)c % 8)",
    "__dp4a(make_char4(a, a >> 8, 3, -4), make_char4(b, b >> 8, b >> 16, 5), (int)c)",
    "__dp4a(make_uchar4(a, a >> 8, 3, 200), make_uchar4(b, b >> 8, b >> 16, 5), c)",
    "__dp2a_lo(make_short2(a, a >> 16), make_char4(b, b >> 8, 7, 9), (int)c)",
    "__dp2a_hi(make_ushort2(a, a >> 16), make_uchar4(7, 9, b, b >> 8), c)",
    "(int)a / (int)b",
    "(int)a % (int)b",
    "a / b",
    "a % b",
    "x / y",
    "x % y",
    "(long long)x / (long long)y",
    "(long long)x % (long long)y",
    "x / 10",
    "(long long)x % 1000",
    "a / 7 + (int)b / -3",
    "x * y + c",
    "(long long)x >> (c & 63)",
    "x << (c & 63)",
    "(x > y) + 2 * ((long long)x < (long long)y) + 4 * (x == y)",
    "(short)a / (short)b",
    "(unsigned char)a * (char)b"};

TEST(ArithmeticPtxDifferential, DeviceFunctionsAgreeWithNativeCpu) {
  std::string text;
  for (size_t i = 0; i < std::size(kCudaExpressions); ++i) {
    text += fmt::format(
        "__global__ void k{}(unsigned* out, const unsigned* in) {{\n"
        "  const unsigned a = in[5 * threadIdx.x], b = in[5 * threadIdx.x + 1], c = in[5 * threadIdx.x + 2];\n"
        "  const unsigned long long x = (unsigned long long)in[5 * threadIdx.x + 3] << 32 | a;\n"
        "  const unsigned long long y = (unsigned long long)in[5 * threadIdx.x + 4] << 32 | b;\n"
        "  const unsigned long long result = (unsigned long long)({});\n"
        "  out[2 * threadIdx.x] = (unsigned)result; out[2 * threadIdx.x + 1] = (unsigned)(result >> 32);\n"
        "  (void)a, (void)b, (void)c, (void)x, (void)y;\n}}\n",
        i, kCudaExpressions[i]);
  }
  const uint64_t seed = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  for (size_t i = 0; i < std::size(kCudaExpressions); ++i) {
    SplitMix64 random(seed + 1000 * i);
    FormKernel kernel;
    kernel.sources = 5;
    kernel.results = 2;
    LaunchSpec spec = LaunchOfForm(kernel, 8, random);
    spec.source = {"functions.cu", text, SourceLanguage::kCuda};
    spec.kernel = fmt::format("k{}", i);
    EXPECT_EQ(CompareEngines(spec).difference, "") << kCudaExpressions[i];
  }
}

}  // namespace
}  // namespace qgpu
