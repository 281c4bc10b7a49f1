// Accesses to shared, constant and local memory at places that random arithmetic, branches and loops make: whether one
// leaves its memory or not, the interpreter and native-cpu agree. It is what the proofs of ranges rest on.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/prng.h"
#include "fmt/format.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {
namespace {

constexpr int kWords = 12;  // of shared and constant memory; native-cpu rounds shared and local memory up to 16 bytes

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), threads_(1 + static_cast<uint32_t>(random_.Below(6))) {}

  LaunchSpec Launch() {
    LaunchSpec spec;
    spec.source = {"indices.ptx", Text(), SourceLanguage::kPtx};
    spec.block.x = threads_;
    spec.token_budget = 3000;
    spec.arguments.resize(4);
    spec.arguments[0].kind = spec.arguments[1].kind = KernelArgument::Kind::kBuffer;
    for (int i = 0; i < 12; ++i) {
      const auto small = static_cast<uint32_t>(random_.Below(14)) - 2;
      spec.arguments[0].words.push_back(random_.Below(9) == 0 ? static_cast<uint32_t>(random_.Next()) : small);
    }
    spec.arguments[1].words.resize(8);
    spec.arguments[2].scalar = random_.Below(12);
    spec.arguments[3].scalar = static_cast<uint32_t>(random_.Below(9)) - 2u;
    return spec;
  }

 private:
  // %r1 to %r6 hold numbers; %t the thread, %n and %m arguments, %v something loaded.
  std::string Number() {
    static constexpr const char* kNumbers[] = {"%t", "%n", "%m", "%v", "%r1", "%r2", "%r3", "%i"};
    return random_.Below(5) == 0 ? fmt::format("{}", static_cast<int>(random_.Below(12)) - 2)
                                 : kNumbers[random_.Below(8)];
  }

  std::string Compare() {
    static constexpr const char* kCompares[] = {"lt.s32", "le.s32", "gt.s32", "ge.s32", "lt.u32",
                                                "le.u32", "gt.u32", "ge.u32", "eq.s32", "ne.s32"};
    return fmt::format("setp.{} %p1, {}, {};", kCompares[random_.Below(10)], Number(), Number());
  }

  std::string Arithmetic() {
    static constexpr const char* kOps[] = {"add.s32", "sub.s32", "mul.lo.s32", "and.b32", "or.b32",
                                           "xor.b32", "min.s32", "max.s32",    "min.u32", "max.u32",
                                           "shr.u32", "shr.s32", "shl.b32",    "rem.u32", "div.s32"};
    return fmt::format("{} %r{}, {}, {};\n", kOps[random_.Below(15)], 1 + random_.Below(3), Number(), Number());
  }

  std::string Access() {
    static constexpr const char* kSpaces[] = {"shared", "const", "local"};
    const char* space = kSpaces[random_.Below(3)];
    const char* extend = random_.Below(2) == 0 ? "s32" : "u32";
    const int offset = 4 * (static_cast<int>(random_.Below(5)) - 2);
    const std::string index = random_.Below(4) == 0 ? "%i" : fmt::format("%r{}", 1 + random_.Below(3));
    std::string text = fmt::format("mul.wide.{} %d5, {}, 4; add.u64 %d6, %{}, %d5;\n", extend, index, space);
    const std::string place = fmt::format("[%d6{}]", offset == 0 ? "" : fmt::format("+{}", offset));
    const std::string guard = random_.Below(4) == 0 ? "@%p1 " : "";
    const bool may_store = space == kSpaces[2] || (space == kSpaces[0] && threads_ == 1);  // threads never race
    if (random_.Below(3) == 0 && may_store) {
      return text + fmt::format("{}st.{}.u32 {}, %sum;\n", guard, space, place);
    }
    const char* width = random_.Below(6) == 0 ? "u8" : "u32";
    return text + fmt::format("mov.u32 %r9, 1; {}ld.volatile.{}.{} %r9, {}; mad.lo.u32 %sum, %sum, 31, %r9;\n", guard,
                              space, width, place);
  }

  // Loads are volatile: others that nothing uses do not happen.
  // Statements, some under a condition, some in a loop.
  std::string Statements(int depth) {
    std::string text;
    for (uint64_t left = 1 + random_.Below(3); left > 0; --left) {
      const int label = labels_++;
      switch (depth == 0 ? random_.Below(2) : random_.Below(4)) {
        case 0:
          text += Arithmetic();
          break;
        case 1:
          text += Access();
          break;
        case 2:
          text += fmt::format("{} @%p1 bra L{};\n{}L{}:\n", Compare(), label, Statements(depth - 1), label);
          break;
        default:
          text += fmt::format(
              "mov.u32 %i, {};\nL{}:\n{}add.s32 %i, %i, {};\n{} @%p1 bra L{};\n", Number(), label,
              Statements(depth - 1),
              random_.Below(3) == 0   ? "%m"
              : random_.Below(3) == 0 ? "-1"
                                      : "1",
              random_.Below(3) == 0
                  ? Compare()
                  : fmt::format("setp.{} %p1, %i, {};", random_.Below(2) == 0 ? "lt.s32" : "ne.s32", Number()),
              label);
      }
    }
    return text;
  }

  std::string Text() {
    std::string text = fmt::format(
        ".version 6.4\n.target sm_75\n.address_size 64\n.const .align 4 .u32 c[{0}] = {{9, 8, 7, 6, 5, 4, 3, 2, 1, "
        "77}};\n"
        ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n, .param .u32 m) {{\n.shared .align 4 .b8 "
        "s[{1}];\n.local .align 16 .b8 l[{2}];\n.reg .pred %p<3>; .reg .b32 %r<10>, %t, %n, %m, %v, %i, %sum;\n.reg "
        ".b64 "
        "%d<9>, %in, %out, %shared, %const, %local;\nld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 "
        "%n, [n]; "
        "ld.param.u32 %m, [m];\nmov.u32 %t, %tid.x; mov.u64 %shared, s; mov.u64 %const, c; mov.u64 %local, "
        "l;\nmul.wide.u32 "
        "%d1, %t, 4; add.u64 %d2, %in, %d1; ld.global.u32 %v, [%d2]; mov.u32 %sum, 1; mov.u32 %i, 0;\nmov.u32 %r1, %t; "
        "mov.u32 %r2, %n; mov.u32 %r3, 2; setp.eq.u32 %p1, %t, 1;\nadd.u64 %d3, %shared, %d1; st.shared.u32 [%d3], %v; "
        "bar.sync 0;\n",
        kWords, 4 * kWords, 16);
    return text + Statements(2) + Access() + "add.u64 %d4, %out, %d1; st.global.u32 [%d4], %sum;\nret;\n}\n";
  }

  SplitMix64 random_;
  const uint32_t threads_;
  int labels_ = 0;
};

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(RandomIndices, LeaveTheirMemoryInBothOrInNeither) {
  const uint64_t first = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const uint64_t count = NumberFromEnvironment("QGPU_RANDOM_KERNELS", 300);
  int trapped = 0, agreed = 0, refused = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const LaunchSpec spec = Generator(seed).Launch();
    const Comparison comparison = CompareEngines(spec);
    if (comparison.refused) {
      const bool is_size = comparison.difference.find("usable") != std::string::npos ||
                           comparison.difference.find("the ROM holds") != std::string::npos;
      EXPECT_TRUE(is_size) << seed << ": " << comparison.difference;
      ++refused;
      continue;
    }
    // Another thread may trap before or after one that never ends.
    if (comparison.difference.starts_with("interpreter: token budget spent")) continue;
    if (comparison.machine_trapped && comparison.difference.find("limit exceeded") != std::string::npos) continue;
    ASSERT_EQ(comparison.difference, "") << "QGPU_RANDOM_SEED=" << seed << "\n" << LaunchSpecToJson(spec);
    ++(comparison.machine_trapped ? trapped : agreed);
  }
  printf("%d agree, %d trap in both, %d do not fit\n", agreed, trapped, refused);
  EXPECT_GT(agreed, static_cast<int>(count / 8));
  EXPECT_GT(trapped, static_cast<int>(count / 8));
}

}  // namespace
}  // namespace qgpu
