// What threads of a warp do together, lowered and interpreted, against native-cpu: shuffles of every
// mode and width, votes, matches, barriers that count, in thread blocks of 1 to 32 threads, with threads that exit
// early. QGPU_RANDOM_SEED starts the random ones elsewhere, QGPU_RANDOM_KERNELS asks for more.
#include <gtest/gtest.h>

#include <cstdlib>

#include "common/prng.h"
#include "fmt/format.h"
#include "tests/differential/warp_kernel.h"

namespace qgpu {
namespace {

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

using Kernel = WarpKernel;

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

}  // namespace
}  // namespace qgpu
