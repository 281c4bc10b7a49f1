// What threads of a warp do together, and control flow, lowered and interpreted, against native-cpu: shuffles of every
// mode and width, votes, matches, barriers that count, in thread blocks of 1 to 32 threads, with threads that exit
// early. QGPU_RANDOM_SEED starts the random ones elsewhere, QGPU_RANDOM_KERNELS asks for more.
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

struct Kernel {
  std::string body;
  std::string before;  // declarations of the module
  Dim3 block = {8, 1, 1};
  uint32_t grid = 1;
  uint32_t n = 3;
  int64_t token_budget = 200000;
};

// in and out: %in, %out, also as 64-bit registers of the thread's own word (%i, %o); %t is the thread's number in the
// thread block, %v its word of `in`, %n a number. `out` has one word for each thread of the launch.
std::string PtxOf(const Kernel& kernel) {
  return ".version 6.4\n.target sm_75\n.address_size 64\n" + kernel.before +
         "\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {\n"
         ".reg .pred %p<16>; .reg .b32 %r<40>, %t, %n, %v, %g; .reg .b64 %d<20>, %in, %out, %i, %o;\n"
         "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [n]; mov.u32 %t, %laneid;\n" +
         fmt::format("mov.u32 %g, %ctaid.x; mad.lo.u32 %g, %g, {}, %t;\n", kernel.block.Count()) +
         "mul.wide.u32 %i, %g, 4; add.u64 %o, %out, %i; add.u64 %i, %in, %i; ld.global.u32 %v, [%i];\n" + kernel.body +
         "\nret;\n}\n";
}

LaunchSpec LaunchOf(const Kernel& kernel, uint64_t seed) {
  LaunchSpec spec;
  spec.source = {"warp.ptx", PtxOf(kernel), SourceLanguage::kPtx};
  spec.block = kernel.block;
  spec.grid.x = kernel.grid;
  spec.token_budget = kernel.token_budget;
  spec.arguments.resize(3);
  SplitMix64 random(seed);
  const uint64_t words = kernel.block.Count() * kernel.grid;
  for (int i = 0; i < 2; ++i) {
    spec.arguments[i].kind = KernelArgument::Kind::kBuffer;
    for (uint64_t word = 0; word < words; ++word) {
      const uint64_t bits = random.Next();
      spec.arguments[i].words.push_back(static_cast<uint32_t>(bits >> 62 == 0 ? bits : bits & 3));
    }
  }
  spec.arguments[2].scalar = kernel.n;
  return spec;
}

void ExpectAgreement(const Kernel& kernel, uint64_t seed = 1) {
  const Comparison comparison = CompareEngines(LaunchOf(kernel, seed));
  EXPECT_EQ(comparison.difference, "") << kernel.body << " with " << kernel.block.Count() << " threads";
  EXPECT_FALSE(comparison.machine_trapped) << kernel.body;
}

void ExpectRefusal(const Kernel& kernel, const std::string& why) {
  const Comparison comparison = CompareEngines(LaunchOf(kernel, 1));
  EXPECT_TRUE(comparison.refused) << kernel.body << comparison.difference;
  EXPECT_NE(comparison.difference.find(why), std::string::npos) << comparison.difference;
}

constexpr const char* kStore = "st.global.u32 [%o], %r9;";
constexpr uint32_t kAllThreads[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 24, 29, 32};

std::string Shuffle(const std::string& mode, const std::string& b, const std::string& c) {
  return fmt::format(
      "shfl.sync.{}.b32 %r8|%p1, %v, {}, {}, 0xffffffff; selp.u32 %r7, 1000, 0, %p1; "
      "add.u32 %r9, %r8, %r7; {}",
      mode, b, c, kStore);
}

TEST(WarpPtx, ShufflesOfEveryModeAndWidth) {
  SplitMix64 random(NumberFromEnvironment("QGPU_RANDOM_SEED", 1));
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    for (uint32_t width : {1, 2, 4, 8, 16, 32}) {
      const uint32_t c = (32 - width) << 8 | (mode == std::string("up") ? 0 : 0x1f);
      for (int offset : {0, 1, 2, 3, 5, 16, 31}) {
        Kernel kernel;
        kernel.block.x = kAllThreads[random.Below(std::size(kAllThreads))];
        kernel.body = Shuffle(mode, std::to_string(offset), std::to_string(c));
        ExpectAgreement(kernel, random.Next());
        if (HasFailure()) return;
      }
    }
  }
}

TEST(WarpPtx, ShufflesWhoseLaneIsComputed) {
  SplitMix64 random(NumberFromEnvironment("QGPU_RANDOM_SEED", 1));
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    for (uint32_t threads : kAllThreads) {
      Kernel kernel;
      kernel.block.x = threads;
      const uint32_t c = static_cast<uint32_t>(random.Next()) & 0x1f1f;  // any clamp and segment mask
      kernel.body = Shuffle(mode, "%v", std::to_string(c));
      ExpectAgreement(kernel, random.Next());
      kernel.body = Shuffle(mode, "%n", "%r3");
      kernel.body = fmt::format("add.u32 %r3, %n, {};", c - kernel.n) + kernel.body;
      ExpectAgreement(kernel, random.Next());
      if (HasFailure()) return;
    }
  }
}

// Threads from %n on have exited.
constexpr const char* kExitFromN = "setp.ge.u32 %p0, %t, %n; @%p0 exit; ";

TEST(WarpPtx, ShufflesAfterEarlyExits) {
  SplitMix64 random(NumberFromEnvironment("QGPU_RANDOM_SEED", 1));
  for (const char* mode : {"up", "down", "bfly", "idx"}) {
    for (uint32_t threads : {3, 4, 6, 9, 16, 24}) {
      Kernel kernel;
      kernel.block.x = threads;
      kernel.n = 1 + static_cast<uint32_t>(random.Below(threads));
      const uint32_t offset = static_cast<uint32_t>(random.Below(20)), width = 4u << random.Below(4);
      const uint32_t c = (32 - width) << 8 | (mode == std::string("up") ? 0 : 0x1f);
      kernel.body = kExitFromN + Shuffle(mode, std::to_string(offset), std::to_string(c));
      ExpectAgreement(kernel, random.Next());
      // Two after another, the second one after more exits.
      kernel.body = kExitFromN + fmt::format(
                                     "shfl.sync.{0}.b32 %v, %v, {1}, {2}, -1; setp.eq.u32 %p3, %t, 1; "
                                     "@%p3 exit; shfl.sync.{0}.b32 %r9, %v, {1}, {2}, -1; {3}",
                                     mode, offset, c, kStore);
      ExpectAgreement(kernel, random.Next());
      if (HasFailure()) return;
    }
  }
}

std::string Votes() {
  return "and.b32 %r1, %v, 1; setp.ne.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r9, %p1, -1; "
         "vote.sync.all.pred %p2, %p1, -1; vote.sync.any.pred %p3, %p1, -1; vote.sync.uni.pred %p4, %p1, -1; "
         "vote.sync.ballot.b32 %r2, !%p1, -1; "
         "selp.u32 %r3, 3, 5, %p2; mad.lo.u32 %r9, %r9, 31, %r3; selp.u32 %r3, 3, 5, %p3; "
         "mad.lo.u32 %r9, %r9, 31, %r3; selp.u32 %r3, 3, 5, %p4; mad.lo.u32 %r9, %r9, 31, %r3; "
         "mad.lo.u32 %r9, %r9, 31, %r2; " +
         std::string(kStore);
}

TEST(WarpPtx, Votes) {
  for (uint32_t threads : kAllThreads) {
    Kernel kernel;
    kernel.block.x = threads;
    kernel.body = Votes();
    ExpectAgreement(kernel, threads);
    kernel.body = "mov.u32 %v, %n; " + Votes();  // all alike
    ExpectAgreement(kernel, threads);
    kernel.n = (threads + 1) / 2;
    kernel.body = kExitFromN + Votes();
    ExpectAgreement(kernel, threads);
    if (HasFailure()) return;
  }
}

TEST(WarpPtx, VotesInAGridWhereMachineWarpsAreGone) {
  Kernel kernel;
  kernel.block.x = 12;
  kernel.grid = 3;
  kernel.n = 29;
  kernel.body =
      "setp.ge.u32 %p0, %g, %n; @%p0 exit; and.b32 %r1, %v, 1; setp.ne.u32 %p1, %r1, 0; "
      "vote.sync.ballot.b32 %r9, %p1, -1; activemask.b32 %r2; mad.lo.u32 %r9, %r9, 31, %r2; " +
      std::string(kStore);
  for (uint64_t seed = 1; seed < 4; ++seed) ExpectAgreement(kernel, seed);
  for (uint32_t n : {1u, 12u, 17u, 24u, 25u, 36u}) {
    kernel.n = n;
    ExpectAgreement(kernel, n);
  }
}

TEST(WarpPtx, Matches) {
  for (uint32_t threads : {1u, 2u, 4u, 5u, 8u, 11u, 20u}) {
    for (const char* exits : {"", kExitFromN}) {
      Kernel kernel;
      kernel.block.x = threads;
      kernel.n = (threads + 1) / 2;
      kernel.body = std::string(exits) + "and.b32 %v, %v, 3; match.any.sync.b32 %r9, %v, -1; " + kStore;
      ExpectAgreement(kernel, threads);
      kernel.body = std::string(exits) +
                    "and.b32 %v, %v, 1; cvt.u64.u32 %d1, %v; shl.b64 %d1, %d1, 40; add.u64 %d1, %d1, 7; "
                    "match.any.sync.b64 %r9, %d1, -1; " +
                    kStore;
      ExpectAgreement(kernel, threads);
      for (const char* value : {"%v", "%n"}) {
        kernel.body =
            std::string(exits) + fmt::format(
                                     "match.all.sync.b32 %r8|%p1, {}, -1; selp.u32 %r7, 77, 0, %p1; add.u32 %r9, %r8, "
                                     "%r7; {}",
                                     value, kStore);
        ExpectAgreement(kernel, threads);
      }
      if (HasFailure()) return;
    }
  }
}

TEST(WarpPtx, BarriersThatCount) {
  for (uint32_t threads : kAllThreads) {
    for (const char* exits : {"", kExitFromN}) {
      Kernel kernel;
      kernel.block.x = threads;
      kernel.n = (threads + 1) / 2;
      kernel.body = std::string(exits) +
                    "and.b32 %r1, %v, 1; setp.ne.u32 %p1, %r1, 0; bar.red.popc.u32 %r9, 0, %p1; "
                    "bar.red.and.pred %p2, 0, %p1; barrier.cta.red.or.aligned.pred %p3, 0, !%p1; "
                    "selp.u32 %r3, 3, 5, %p2; mad.lo.u32 %r9, %r9, 31, %r3; selp.u32 %r3, 3, 5, %p3; "
                    "mad.lo.u32 %r9, %r9, 31, %r3; " +
                    kStore;
      ExpectAgreement(kernel, threads);
      if (HasFailure()) return;
    }
  }
}

// What all threads do after they took different ways, in a loop whose number of turns all share.
TEST(WarpPtx, LoopsOfExchanges) {
  for (uint32_t threads : kAllThreads) {
    Kernel kernel;
    kernel.block.x = threads;
    kernel.n = 5;
    for (const char* step :
         {"shfl.sync.bfly.b32 %r2, %v, %r1, 0x1f, -1;", "shfl.sync.down.b32 %r2, %v, 1, 0x1f, -1;",
          "setp.gt.s32 %p2, %v, 7; vote.sync.ballot.b32 %r2, %p2, -1;",
          "shfl.sync.up.b32 %r2, %v, 1, 0x1c00, -1; shfl.sync.idx.b32 %r2, %r2, 2, 0x1f, -1;",
          "bar.warp.sync -1; shfl.sync.down.b32 %r2, %v, %r1, 0x181f, -1; shfl.sync.up.b32 %r2, %r2, %r1, 0, -1; "
          "shfl.sync.bfly.b32 %r2, %r2, 5, 0x1f, -1;"}) {
      kernel.body =
          "mov.u32 %r1, 0; LOOP: and.b32 %r3, %v, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra EVEN; "
          "mad.lo.u32 %v, %v, 3, 1; bra JOIN; EVEN: shr.u32 %v, %v, 1; JOIN: " +
          std::string(step) +
          "add.u32 %v, %v, %r2; add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, %n; @%p3 bra LOOP; "
          "st.global.u32 [%o], %v;";
      ExpectAgreement(kernel, threads);
      if (HasFailure()) return;
    }
  }
}

// A loop that threads leave after different numbers of turns, with two ways back, and a shuffle behind it or at its
// start.
TEST(WarpPtx, LanesComeTogetherAgain) {
  Kernel kernel;
  const std::string loop =
      "mov.u32 %r1, 0; LOOP: add.u32 %r1, %r1, 1; and.b32 %r3, %v, 3; setp.eq.u32 %p1, %r3, 0; add.u32 %v, %v, 1; "
      "@%p1 bra OUT; setp.lt.u32 %p2, %r1, 9; @%p2 bra LOOP; OUT: ";
  for (uint32_t threads : kAllThreads) {
    kernel.block.x = threads;
    kernel.body = loop + "shfl.sync.bfly.b32 %r9, %r1, 1, 0x1c1f, -1; " + kStore;
    ExpectAgreement(kernel, threads);
    kernel.body = loop + Votes();
    ExpectAgreement(kernel, threads);
    // continue: two edges go back.
    kernel.body =
        "mov.u32 %r1, 0; LOOP: shfl.sync.down.b32 %r2, %v, 1, 0x1c1f, -1; add.u32 %v, %v, %r2; "
        "add.u32 %r1, %r1, 1; setp.eq.u32 %p3, %r1, 5; @%p3 bra OUT; "
        "and.b32 %r3, %v, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra LOOP; mad.lo.u32 %v, %v, 5, 1; bra LOOP; "
        "OUT: st.global.u32 [%o], %v;";
    ExpectAgreement(kernel, threads);
    if (HasFailure()) return;
  }
}

// What all threads know alike, from a ballot, a broadcast or a uniform load, may decide about further steps.
TEST(WarpPtx, StepsBehindBranchesThatAllTakeAlike) {
  for (uint32_t threads : kAllThreads) {
    for (const char* decision :
         {"shfl.sync.idx.b32 %r1, %v, 0, 31, -1;", "setp.gt.s32 %p2, %v, 2; vote.sync.ballot.b32 %r1, %p2, -1;",
          "ld.global.u32 %r1, [%in];", "setp.gt.s32 %p2, %v, 2; bar.red.popc.u32 %r1, 0, %p2;",
          "match.all.sync.b32 %r1|%p2, %v, -1;"}) {
      Kernel kernel;
      kernel.block.x = threads;
      kernel.body = std::string(decision) +
                    "mov.u32 %r9, %r1; and.b32 %r2, %r1, 1; setp.eq.u32 %p3, %r2, 0; @%p3 bra OUT; "
                    "shfl.sync.bfly.b32 %r9, %v, 1, 31, -1; vote.sync.ballot.b32 %r3, %p2, -1; add.u32 %r9, %r9, %r3; "
                    "OUT: " +
                    kStore;
      for (uint64_t seed = 1; seed < 4; ++seed) ExpectAgreement(kernel, seed);
      if (HasFailure()) return;
    }
  }
}

TEST(WarpPtx, SegmentsInsideOfCodeForSomeMachineWarps) {
  Kernel kernel;
  kernel.block.x = 16;
  for (const char* condition : {"setp.ge.u32 %p1, %t, 8;", "shr.u32 %r1, %t, 2; setp.ne.u32 %p1, %r1, 2;",
                                "and.b32 %r1, %t, 8; setp.ne.u32 %p1, %r1, 0;"}) {
    kernel.body = std::string(condition) +
                  "mov.u32 %r9, %v; @%p1 bra OUT; shfl.sync.bfly.b32 %r9, %v, 3, 0x1c1f, -1; OUT: " + kStore;
    const Comparison comparison = CompareEngines(LaunchOf(kernel, 1));
    EXPECT_FALSE(comparison.refused) << comparison.difference;
  }
}

TEST(WarpPtx, SpecialRegisters) {
  const char* names[] = {"%tid.x",       "%tid.y",       "%tid.z",       "%tid.w",       "%ntid.x",
                         "%ntid.y",      "%ntid.z",      "%ctaid.x",     "%ctaid.w",     "%nctaid.x",
                         "%nctaid.z",    "%laneid",      "%warpid",      "%nwarpid",     "%lanemask_eq",
                         "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt", "%dynamic_smem_size",
                         "WARP_SZ"};
  for (const Dim3& block : {Dim3{1, 1, 1}, Dim3{5, 1, 1}, Dim3{32, 1, 1}, Dim3{3, 2, 3}, Dim3{4, 2, 1}}) {
    for (const char* name : names) {
      Kernel kernel;
      kernel.block = block;
      kernel.grid = block.Count() < 8 ? 2 : 1;
      kernel.body = fmt::format("mov.u32 %r9, {}; {}", name, kStore);
      ExpectAgreement(kernel);
      if (HasFailure()) return;
    }
  }
}

TEST(WarpPtx, RefusedByName) {
  Kernel kernel;
  kernel.block.x = 16;
  const auto refused = [&](const std::string& body, const std::string& why) {
    kernel.body = body;
    ExpectRefusal(kernel, why);
  };
  refused(
      "setp.lt.u32 %p1, %t, 3; @%p1 bra IN; ret; IN: shfl.sync.down.b32 %r9, %v, 1, 0x1f, 3; st.global.u32 [%o], %r9;",
      "with a partial mask");
  refused(
      "setp.lt.u32 %p1, %t, 3; @!%p1 bra OUT; shfl.sync.down.b32 %r9, %v, 1, 0x1f, -1; st.global.u32 [%o], %r9; "
      "OUT: bar.sync 0;",
      "inside divergent code");
  refused("setp.lt.u32 %p1, %t, 3; @%p1 shfl.sync.down.b32 %v, %v, 1, 0x1f, -1; st.global.u32 [%o], %v; bar.sync 0;",
          "inside divergent code");
  refused("vote.sync.ballot.b32 %r9, 1, 0xff; st.global.u32 [%o], %r9;", "with a partial mask");
  refused("mov.u32 %r9, %clock; st.global.u32 [%o], %r9;", "there is no clock");
  refused("mov.u32 %r9, %smid; st.global.u32 [%o], %r9;", "no multiprocessors");
  refused("redux.sync.add.s32 %r9, %v, -1; st.global.u32 [%o], %r9;", "sm_80");
  refused("bar.arrive 0, 32;", "not everybody waits");
  refused("bar.sync 1;", "only barrier 0");
  refused("bar.sync 0, 8;", "a part of the thread block");
  refused("brkpt;", "no debugger");
}

// ---- control flow ----

// Functions for the calls below: two values and a result in .param variables; a struct as bytes; a guard inside; one
// that calls another one twice; one with shared and local variables.
constexpr const char* kFunctions = R"(
.func (.param .b32 sum) add3(.param .b32 x, .param .b32 y) {
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y]; mad.lo.u32 %r3, %r1, 3, %r2; st.param.b32 [sum], %r3; ret;
}
.func (.param .b32 result) early(.param .b32 x) {
  .reg .pred %p<2>; .reg .b32 %r<5>;
  ld.param.u32 %r1, [x]; setp.lt.u32 %p1, %r1, 5; mov.u32 %r2, 100; @%p1 bra SMALL;
  st.param.b32 [result], %r1; ret;
  SMALL: st.param.b32 [result+0], %r2; ret;
}
.func (.param .b32 result) twice(.param .b32 x) {
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [x];
  { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b32 [b], 7;
    call.uni (c), add3, (a, b); ld.param.b32 %r2, [c]; }
  { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r2; st.param.b32 [b], %r1;
    call.uni (c), add3, (a, b); ld.param.b32 %r3, [c]; }
  st.param.b32 [result], %r3; ret;
}
.func (.param .align 8 .b8 result[16]) swap(.param .align 8 .b8 pair[16]) {
  .reg .b32 %r<5>; .reg .b64 %d<3>;
  ld.param.v2.u32 {%r1, %r2}, [pair]; ld.param.u64 %d1, [pair+8];
  st.param.b64 [result], %d1; st.param.v2.b32 [result+8], {%r2, %r1}; ret;
}
.func (.param .b32 result) pick(.param .align 4 .b8 list[12], .param .b32 i) {
  .reg .b32 %r<5>; .reg .b64 %d<5>;
  ld.param.u32 %r1, [i]; rem.u32 %r1, %r1, 3; mul.wide.u32 %d1, %r1, 4; mov.b64 %d2, list; add.s64 %d2, %d2, %d1;
  ld.param.u32 %r2, [%d2]; st.param.b32 [result], %r2; ret;
}
.func (.param .b32 result) bytes(.param .b32 small, .param .b32 half) {
  .reg .b32 %r<5>; .reg .b16 %h<3>;
  ld.param.s8 %r1, [small]; ld.param.u8 %h1, [small+1]; ld.param.s16 %r2, [half+2]; cvt.u32.u16 %r3, %h1;
  mad.lo.u32 %r1, %r1, 31, %r2; mad.lo.u32 %r1, %r1, 31, %r3; st.param.b32 [result], %r1; ret;
}
.func (.reg .u32 %result) oldstyle(.reg .u32 %x, .reg .u32 %y) { sub.u32 %result, %x, %y; ret; }
.func leave(.param .b32 x) {
  .reg .pred %p<2>; .reg .b32 %r<3>;
  ld.param.u32 %r1, [x]; setp.eq.u32 %p1, %r1, 2; @%p1 exit; ret;
}
.func (.param .b32 result) memory(.param .b32 x, .param .b32 t) {
  .shared .align 4 .b8 buffer[64]; .local .align 4 .b8 own[8];
  .reg .b32 %r<9>;
  ld.param.u32 %r1, [x]; ld.param.u32 %r2, [t]; shl.b32 %r3, %r2, 2; mov.u32 %r4, buffer; add.u32 %r4, %r4, %r3;
  st.shared.u32 [%r4], %r1; st.local.u32 [own+4], %r2; bar.sync 0; xor.b32 %r3, %r3, 4; mov.u32 %r4, buffer;
  add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4]; ld.local.u32 %r6, [own+4]; add.u32 %r5, %r5, %r6; bar.sync 0;
  st.param.b32 [result], %r5; ret;
}
)";

std::string CallOf(const std::string& function, const std::vector<std::string>& arguments, const std::string& result) {
  std::string text = "{ .param .b32 r; ", names;
  for (size_t i = 0; i < arguments.size(); ++i) {
    text += fmt::format(".param .b32 p{}; st.param.b32 [p{}], {}; ", i, i, arguments[i]);
    names += fmt::format("{}p{}", i == 0 ? "" : ", ", i);
  }
  return text + fmt::format("call.uni (r), {}, ({}); ld.param.b32 {}, [r]; }}\n", function, names, result);
}

TEST(ControlPtx, Calls) {
  const std::string pair =
      "{ .param .align 8 .b8 q[16]; .param .align 8 .b8 r[16]; st.param.b32 [q], %v; st.param.b32 [q+4], %t; "
      "st.param.v2.b32 [q+8], {%n, %v}; call.uni (r), swap, (q); ld.param.b32 %r1, [r]; ld.param.b32 %r2, [r+4]; "
      "ld.param.b64 %d1, [r+8]; cvt.u32.u64 %r3, %d1; shr.u64 %d1, %d1, 32; cvt.u32.u64 %r4, %d1; "
      "mad.lo.u32 %r9, %r1, 31, %r2; mad.lo.u32 %r9, %r9, 31, %r3; mad.lo.u32 %r9, %r9, 31, %r4; }";
  const std::string list =
      "{ .param .align 4 .b8 q[12]; .param .b32 i; .param .b32 r; st.param.b32 [q], %v; st.param.b32 [q+4], %t; "
      "st.param.b32 [q+8], 99; st.param.b32 [i], %t; call.uni (r), pick, (q, i); ld.param.b32 %r9, [r]; }";
  const std::string bodies[] = {
      CallOf("add3", {"%v", "%t"}, "%r9"),
      CallOf("add3", {"%v", "5"}, "%r8") + CallOf("add3", {"%r8", "%v"}, "%r9"),
      CallOf("early", {"%v"}, "%r9"),
      CallOf("twice", {"%v"}, "%r8") + CallOf("twice", {"%r8"}, "%r9"),
      CallOf("bytes", {"%v", "%v"}, "%r9"),
      CallOf("memory", {"%v", "%t"}, "%r8") + CallOf("memory", {"%r8", "%t"}, "%r9"),
      "mov.u32 %r9, 4; setp.lt.u32 %p1, %t, 3; { .param .b32 a; st.param.b32 [a], %t; @!%p1 call leave, (a); "
      "@%p1 call leave, (a); }",
      pair,
      list,
      "call.uni (%r9), add3, (%v, 3);",
  };
  for (const std::string& body : bodies) {
    Kernel kernel;
    kernel.before = kFunctions;
    kernel.body = "mov.u32 %r9, 0; " + body + kStore;
    ExpectAgreement(kernel, 3);
  }
}

TEST(ControlPtx, CallsWithRegisters) {  // native-cpu has no results in registers
  Kernel kernel, same;
  kernel.before = kFunctions;
  kernel.body = "call.uni (%r9), oldstyle, (%v, 3); st.global.u32 [%o], %r9;";
  const Comparison comparison = CompareEngines(LaunchOf(kernel, 1));
  EXPECT_FALSE(comparison.refused) << comparison.difference;
}

TEST(ControlPtx, CallsThatAreRefused) {
  Kernel kernel;
  kernel.before =
      ".func loop(.param .b32 x) { .param .b32 y; call loop, (y); ret; }\n.extern .func missing;\n"
      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n";
  const auto refused = [&](const std::string& body, const std::string& why) {
    kernel.body = body;
    ExpectRefusal(kernel, why);
  };
  refused("{ .param .b32 a; call loop, (a); }", "recursion: loop calls itself");
  refused("call missing;", "missing has no body");
  refused("{ .param .b64 a; .param .b64 b; .param .b32 r; call (r), vprintf, (a, b); }", "printf");
  refused("mov.u64 %d1, loop; st.global.u32 [%o], %d1;", "function pointers");
  refused("{ .param .b32 a; .param .b32 b; call loop, (a, b); }", "loop takes 1 values, not 2");
}

TEST(ControlPtx, BranchesByIndex) {
  for (int count : {1, 2, 3, 5, 8}) {
    std::string targets, arms;
    for (int i = 0; i < count; ++i) {
      targets += fmt::format("{}L{}", i == 0 ? "" : ", ", i % 4);
      if (i < 4) arms += fmt::format("L{}: mad.lo.u32 %r9, %v, {}, {}; bra JOIN; ", i, i + 3, 7 * i);
    }
    Kernel kernel;
    kernel.block.x = 12;
    kernel.body = fmt::format(
        "add.u32 %r1, %v, %t; rem.u32 %r1, %r1, {}; T: .branchtargets {}; brx.idx %r1, T; {} "
        "JOIN: {}",
        count, targets, arms, kStore);
    ExpectAgreement(kernel);
  }
}

TEST(ControlPtx, PredicatedExitsAndBarriers) {
  Kernel kernel;
  kernel.before = ".shared .align 4 .b8 s[64];\n";
  for (const char* body :
       {"setp.gt.u32 %p1, %v, 2; @%p1 exit; mov.u32 %r9, 5; st.global.u32 [%o], %r9;",
        "setp.gt.u32 %p1, %v, 2; mov.u32 %r9, 5; @!%p1 st.global.u32 [%o], %r9; @%p1 ret; st.global.u32 [%o], %t;",
        // A barrier that all threads or none come to.
        "setp.gt.u32 %p1, %n, 2; shl.b32 %r1, %t, 2; mov.u32 %r2, s; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %v; "
        "@%p1 bar.sync 0; ld.shared.u32 %r9, [s]; st.global.u32 [%o], %r9;"}) {
    kernel.body = body;
    ExpectAgreement(kernel, 4);
  }
}

TEST(ControlPtx, TrapsAndBarrierDivergence) {
  Kernel kernel;
  kernel.body = "setp.eq.u32 %p1, %t, 5; @%p1 trap; st.global.u32 [%o], %t;";
  EXPECT_TRUE(CompareEngines(LaunchOf(kernel, 1)).machine_trapped);
  kernel.body = "setp.eq.u32 %p1, %t, 55; @%p1 trap; st.global.u32 [%o], %t;";
  ExpectAgreement(kernel);
  kernel.body = "setp.lt.u32 %p1, %t, 3; @%p1 bra A; bar.sync 0; bra B; A: bar.sync 0; st.global.u32 [%o], %t; B: ";
  EXPECT_TRUE(CompareEngines(LaunchOf(kernel, 1)).machine_trapped);
  kernel.body = "setp.lt.u32 %p1, %t, 3; @%p1 bar.sync 0; bar.sync 0; st.global.u32 [%o], %t;";
  EXPECT_TRUE(CompareEngines(LaunchOf(kernel, 1)).machine_trapped);
}

}  // namespace
}  // namespace qgpu
