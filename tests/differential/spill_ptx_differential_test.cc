// Kernels that need more registers or predicates than there are, lowered and interpreted, against native-cpu. Where
// they do not fit with spilling either, the refusal says by how much. QGPU_RANDOM_SEED starts the random ones
// elsewhere, QGPU_RANDOM_KERNELS asks for more.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/prng.h"
#include "fmt/format.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {
namespace {

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// in: 4 words for each thread; out: one. %i and %o are the thread's own places, %v its first word, %n a number.
LaunchSpec LaunchOf(const std::string& body, uint32_t threads, uint64_t seed) {
  const std::string text =
      ".version 6.4\n.target sm_75\n.address_size 64\n"
      ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {\n"
      ".reg .pred %p<80>; .reg .b32 %r<80>, %t, %n, %v, %h; .reg .b64 %d<20>, %in, %out, %i, %o;\n"
      "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x;\n"
      "mul.wide.u32 %i, %t, 4; add.u64 %o, %out, %i; mul.wide.u32 %i, %t, 16; add.u64 %i, %in, %i; "
      "ld.global.u32 %v, [%i]; mov.u32 %h, 17;\n" +
      body + "\nst.global.u32 [%o], %h;\nret;\n}\n";
  LaunchSpec spec;
  spec.source = {"spill.ptx", text, SourceLanguage::kPtx};
  spec.block.x = threads;
  spec.token_budget = 100000;
  spec.arguments.resize(3);
  SplitMix64 random(seed);
  for (int i = 0; i < 2; ++i) {
    spec.arguments[i].kind = KernelArgument::Kind::kBuffer;
    for (uint32_t word = 0; word < (i == 0 ? 4 * threads : threads); ++word) {
      spec.arguments[i].words.push_back(static_cast<uint32_t>(random.Next()));
    }
  }
  spec.arguments[2].scalar = 4;
  return spec;
}

// True where the machine ran it.
bool ExpectAgreementOrNoRoom(const std::string& body, uint32_t threads, uint64_t seed) {
  const Comparison comparison = CompareEngines(LaunchOf(body, threads, seed));
  if (comparison.refused) {
    const bool no_room = comparison.difference.find("the ROM holds") != std::string::npos ||
                         comparison.difference.find(" are free") != std::string::npos;
    EXPECT_TRUE(no_room) << comparison.difference << body;
    if (std::getenv("QGPU_SHOW_REFUSALS") != nullptr) printf("%s\n", comparison.difference.c_str());
    return false;
  }
  EXPECT_EQ(comparison.difference, "") << body;
  return true;
}

void ExpectAgreement(const std::string& body, uint32_t threads, uint64_t seed = 1) {
  const Comparison comparison = CompareEngines(LaunchOf(body, threads, seed));
  EXPECT_EQ(comparison.difference, "") << body;
}

std::string Hash(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("mad.lo.u32 %h, %h, 31, %r{}; ", i);
  return text;
}

// Each value is made of the one before, and the last one is used first.
std::string ManyValues(int count) {
  std::string body = "mov.u32 %r0, %v;\n";
  for (int i = 1; i < count; ++i) body += fmt::format("mad.lo.u32 %r{0}, %r{1}, %r{1}, {0};\n", i, i - 1);
  for (int i = count; i-- > 0;) body += fmt::format("mad.lo.u32 %h, %h, %h, %r{};\n", i);
  return body;
}

TEST(SpillPtx, ManyValuesAtOnce) {
  for (int count : {12, 14, 16, 18, 20}) {
    for (uint32_t threads : {1u, 2u, 5u}) {
      ExpectAgreement(ManyValues(count), threads);
      if (HasFailure()) return;
    }
  }
}

// Serial blocks, whose lanes run one by one, and exchanges between threads, with values in memory around them.
TEST(SpillPtx, AroundAtomicsAndExchanges) {
  for (int count : {14, 16, 17}) {
    for (uint32_t threads : {1u, 3u, 6u}) {
      std::string body = "mov.u32 %r0, %v;\n", end;
      for (int i = 1; i < count; ++i) body += fmt::format("mad.lo.u32 %r{0}, %r{1}, %r{1}, {0};\n", i, i - 1);
      for (int i = count; i-- > 0;) end += fmt::format("add.u32 %h, %h, %r{}; shl.b32 %h, %h, 1;\n", i);
      ExpectAgreement(body +
                          "st.global.u32 [%o], %t; atom.global.add.u32 %r60, [%o], %r3; "
                          "atom.global.max.u32 %r61, [%o], %r5; add.u32 %h, %r60, %r61;\n" +
                          end,
                      threads);
      ExpectAgreement(body +
                          "shfl.sync.bfly.b32 %r60, %r3, 1, 31, -1; shfl.sync.down.b32 %r61, %r5, 5, 31, -1; "
                          "add.u32 %h, %r60, %r61;\n" +
                          end,
                      threads);
      if (HasFailure()) return;
    }
  }
}

// All variables of a loop change places in every turn.
TEST(SpillPtx, LoopsThatRotate) {
  for (int count : {2, 4, 5, 6, 8, 11, 13, 16, 19}) {
    for (uint32_t threads : {1u, 3u}) {
      std::string body;
      for (int i = 0; i < count; ++i) body += fmt::format("add.u32 %r{}, %v, {}; ", i, i * i);
      body += "mov.u32 %r70, 0; LOOP: mov.u32 %r71, %r0; ";
      for (int i = 0; i + 1 < count; ++i) body += fmt::format("mov.u32 %r{}, %r{}; ", i, i + 1);
      body += fmt::format("mov.u32 %r{}, %r71; add.u32 %r70, %r70, 1; setp.lt.u32 %p1, %r70, 5; @%p1 bra LOOP; ",
                          count - 1);
      EXPECT_TRUE(ExpectAgreementOrNoRoom(body + Hash(count), threads, 1) || count > 14) << count;
      if (HasFailure()) return;
    }
  }
}

TEST(SpillPtx, LoopsWithManyVariables) {
  for (int count : {12, 15, 18}) {
    for (uint32_t threads : {1u, 2u}) {
      std::string body;
      for (int i = 0; i < count; ++i) body += fmt::format("add.u32 %r{}, %v, {}; ", i, 3 * i);
      body += "mov.u32 %r70, 0; LOOP: ";
      for (int i = 0; i < count; ++i) body += fmt::format("add.u32 %r{}, %r{}, %r{}; ", i, i, (i + 1) % count);
      body += "add.u32 %r70, %r70, 1; and.b32 %r71, %v, 7; setp.lt.u32 %p1, %r70, %r71; @%p1 bra LOOP; ";
      EXPECT_TRUE(ExpectAgreementOrNoRoom(body + Hash(count), threads, 1) || count > 14) << count;
      if (HasFailure()) return;
    }
  }
}

TEST(SpillPtx, ManyPredicates) {
  for (int count : {14, 17, 22}) {
    std::string body;
    for (int i = 0; i < count; ++i) body += fmt::format("setp.gt.s32 %p{}, %v, {}; ", i, (i - 8) * 100000000);
    // Behind a branch they must be in registers.
    body += "setp.eq.u32 %p70, %t, 1; @%p70 bra OUT; add.u32 %v, %v, 5; add.u32 %h, %h, %v; OUT: ";
    for (int i = 0; i < count; ++i) body += fmt::format("@%p{} add.u32 %h, %h, {}; ", i, i * i + 1);
    ExpectAgreement(body, 3);
    if (HasFailure()) return;
  }
}

// Random assignments over many registers, with a loop around and branches inside.
std::string RandomBody(uint64_t seed) {
  SplitMix64 random(seed);
  const int count = 10 + static_cast<int>(random.Below(14));
  const auto reg = [&] { return static_cast<int>(random.Below(static_cast<uint64_t>(count))); };
  std::string body;
  for (int i = 0; i < count; ++i) body += fmt::format("mad.lo.u32 %r{}, %v, {}, {};\n", i, random.Below(9), i);
  body += "mov.u32 %r70, 0; LOOP:\n";
  int labels = 0;
  const int steps = 4 + static_cast<int>(random.Below(24));
  for (int i = 0; i < steps; ++i) {
    switch (random.Below(6)) {
      case 0:
        body += fmt::format("mov.u32 %r{}, %r{};\n", reg(), reg());
        break;
      case 1:
        body += fmt::format("setp.lt.u32 %p{0}, %r{1}, %r{2}; @%p{0} mov.u32 %r{3}, %r{4};\n", 2 + i, reg(), reg(),
                            reg(), reg());
        break;
      case 2:
        body += fmt::format(
            "setp.lt.s32 %p{0}, %r{1}, %r{2}; @%p{0} bra L{3}; xor.b32 %r{4}, %r{5}, {0}; mov.u32 %r{6}, "
            "%r{1}; st.global.u32 [%o], %r{1}; L{3}:\n",
            2 + i, reg(), reg(), labels++, reg(), reg(), reg());
        break;
      case 3:
        body += fmt::format("ld.global.u32 %r{}, [%i+{}];\n", reg(), 4 * random.Below(4));
        break;
      default:
        body += fmt::format("add.u32 %r{}, %r{}, %r{};\n", reg(), reg(), reg());
    }
  }
  return body + "add.u32 %r70, %r70, 1; setp.lt.u32 %p1, %r70, 3; @%p1 bra LOOP;\n" + Hash(count);
}

TEST(SpillPtx, RandomKernels) {
  const uint64_t first = NumberFromEnvironment("QGPU_RANDOM_SEED", 1);
  const uint64_t count = NumberFromEnvironment("QGPU_RANDOM_KERNELS", 30);
  uint64_t ran = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(fmt::format("QGPU_RANDOM_SEED={}", seed));
    ran += ExpectAgreementOrNoRoom(RandomBody(seed), 1 + static_cast<uint32_t>(seed % 5), seed);
    if (HasFailure()) return;
  }
  printf("seeds from %d: %d of %d fit\n", static_cast<int>(first), static_cast<int>(ran), static_cast<int>(count));
  EXPECT_GT(ran, count / 3);
}

TEST(SpillPtx, SaysHowManyWordsAreMissing) {
  const Comparison comparison = CompareEngines(LaunchOf(ManyValues(20), 24, 1));
  EXPECT_TRUE(comparison.refused);
  EXPECT_NE(comparison.difference.find(" registers, 15 usable; spilling takes "), std::string::npos)
      << comparison.difference;
  EXPECT_NE(comparison.difference.find(" registers x 24 threads = "), std::string::npos) << comparison.difference;
  EXPECT_NE(comparison.difference.find(" are free"), std::string::npos) << comparison.difference;
}

}  // namespace
}  // namespace qgpu
