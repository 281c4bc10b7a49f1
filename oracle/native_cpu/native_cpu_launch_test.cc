// Launches: control flow, thread blocks, barriers, warps, memory, calls, and everything that may go wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "common/prng.h"
#include "oracle/native_cpu/native_cpu.h"

namespace qgpu {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHeader[] = ".version 7.6\n.target sm_75\n.address_size 64\n";

// A kernel with two buffers in %in and %out and a word n in %n; %t is the global thread number and %o the address of
// its own word of `out`.
std::string KernelPtx(const std::string& body, const std::string& before = "") {
  return kHeader + before + R"(
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
{
.reg .b64 %in, %out, %o, %rd<20>;
.reg .b32 %n, %t, %r<20>;
.reg .b16 %h<4>;
.reg .pred %p<8>;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
ld.param.u32 %n, [n];
mov.u32 %r0, %ctaid.x;
mov.u32 %r1, %ntid.x;
mov.u32 %r2, %tid.x;
mad.lo.u32 %t, %r0, %r1, %r2;
mul.wide.u32 %rd0, %t, 4;
add.u64 %o, %out, %rd0;
)" + body +
         "\nret;\n}\n";
}

struct Launch {
  std::vector<uint32_t> in = {0}, out = std::vector<uint32_t>(8);
  uint32_t n = 0;
  Dim3 grid, block;
  uint32_t dynamic_shared_bytes = 0;
  NativeCpuLimits limits;
};

absl::StatusOr<NativeRun> RunKernel(const std::string& ptx, const Launch& launch) {
  LaunchSpec spec;
  spec.source.name = "t.ptx";
  spec.source.language = SourceLanguage::kPtx;
  spec.grid = launch.grid;
  spec.block = launch.block;
  spec.dynamic_shared_bytes = launch.dynamic_shared_bytes;
  spec.arguments.resize(3);
  spec.arguments[0].kind = spec.arguments[1].kind = KernelArgument::Kind::kBuffer;
  spec.arguments[0].words = launch.in;
  spec.arguments[1].words = launch.out;
  spec.arguments[2].scalar = launch.n;
  return RunNativeCpu(ptx, spec, {}, launch.limits);
}

// The words of `out` after a run that must succeed.
std::vector<uint32_t> Output(const std::string& body, const Launch& launch, const std::string& before = "") {
  const auto run = RunKernel(KernelPtx(body, before), launch);
  EXPECT_TRUE(run.ok()) << run.status();
  if (!run.ok()) return {};
  EXPECT_EQ(run->end, NativeEnd::kDone) << run->message;
  return {run->memory.end() - static_cast<ptrdiff_t>(launch.out.size()), run->memory.end()};
}

NativeRun Failure(const std::string& body, const Launch& launch, const std::string& before = "") {
  const auto run = RunKernel(KernelPtx(body, before), launch);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *run : NativeRun{};
}

std::string Refusal(const std::string& body, const std::string& before = "") {
  const auto run = RunKernel(KernelPtx(body, before), {});
  EXPECT_FALSE(run.ok());
  return std::string(run.status().message());
}

Launch Threads(uint32_t threads, size_t words = 0) {
  Launch launch;
  launch.block.x = threads;
  launch.out.resize(words == 0 ? threads : words);
  return launch;
}

TEST(NativeCpuLaunch, SumsInALoop) {
  Launch launch = Threads(1);
  launch.in = {1, 2, 3, 4};
  launch.n = 4;
  EXPECT_THAT(Output(R"(
mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u64 %rd1, %in;
loop: setp.ge.u32 %p0, %r4, %n; @%p0 bra done;
ld.global.u32 %r5, [%rd1]; add.u32 %r3, %r3, %r5; add.u64 %rd1, %rd1, 4; add.u32 %r4, %r4, 1; bra.uni loop;
done: st.global.u32 [%o], %r3;)",
                     launch),
              ElementsAre(10));
}

TEST(NativeCpuLaunch, GivesTheWholeMemoryImage) {
  Launch launch = Threads(2);
  launch.in = {11, 12};
  const auto run = RunKernel(KernelPtx("add.u32 %r3, %t, 5; st.global.u32 [%o], %r3;"), launch);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->memory, ElementsAre(0, 11, 12, 5, 6));
  EXPECT_THAT(run->buffer_addresses, ElementsAre(4, 12, 0));
}

TEST(NativeCpuLaunch, ThreadsDiverge) {
  EXPECT_THAT(Output(R"(
and.b32 %r3, %t, 1; setp.eq.u32 %p0, %r3, 0; @%p0 bra even;
mul.lo.u32 %r4, %t, 10; bra join;
even: add.u32 %r4, %t, 100;
join: st.global.u32 [%o], %r4;)",
                     Threads(4)),
              ElementsAre(100, 10, 102, 30));
}

TEST(NativeCpuLaunch, NumbersThreadsAndBlocksInThreeDimensions) {
  Launch launch;
  launch.grid = {2, 1, 2};
  launch.block = {2, 2, 1};
  launch.out.resize(16);
  const std::vector<uint32_t> out = Output(R"(
mov.u32 %r3, %tid.y; mov.u32 %r4, %ctaid.z; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %tid.x;
mov.u32 %r10, %nctaid.x; mad.lo.u32 %r7, %r4, %r10, %r5; mad.lo.u32 %r7, %r7, 2, %r3; mad.lo.u32 %r7, %r7, 2, %r6;
mul.wide.u32 %rd1, %r7, 4; add.u64 %rd1, %out, %rd1;
mad.lo.u32 %r8, %r4, 10, %r5; mad.lo.u32 %r8, %r8, 10, %r3; mad.lo.u32 %r8, %r8, 10, %r6;
mov.u32 %r9, %ntid.z; mad.lo.u32 %r8, %r9, 10000, %r8; st.global.u32 [%rd1], %r8;)",
                                           launch);
  EXPECT_THAT(out, ElementsAre(10000, 10001, 10010, 10011, 10100, 10101, 10110, 10111, 11000, 11001, 11010, 11011,
                               11100, 11101, 11110, 11111));
}

TEST(NativeCpuLaunch, BarriersOrderSharedMemory) {
  // Every thread reads what its neighbour wrote before the barrier, thread 0 the last one's.
  EXPECT_THAT(Output(R"(
.shared .b32 s[8];
mov.u64 %rd1, s; add.u64 %rd2, %rd1, %rd0; add.u32 %r3, %t, 50; st.shared.u32 [%rd2], %r3;
bar.sync 0;
add.u32 %r4, %t, 1; and.b32 %r4, %r4, 7; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd3, %rd1, %rd3;
ld.shared.u32 %r5, [%rd3]; st.global.u32 [%o], %r5;)",
                     Threads(8)),
              ElementsAre(51, 52, 53, 54, 55, 56, 57, 50));
}

TEST(NativeCpuLaunch, ExitedThreadsCountAsArrived) {
  EXPECT_THAT(Output(R"(
setp.ge.u32 %p0, %t, 2; @%p0 exit; bar.sync 0; st.global.u32 [%o], 9;)",
                     Threads(4)),
              ElementsAre(9, 9, 0, 0));
}

TEST(NativeCpuLaunch, BarrierReductions) {
  EXPECT_THAT(Output(R"(
setp.gt.u32 %p0, %t, 0; bar.red.popc.u32 %r3, 0, %p0; bar.red.and.pred %p1, 0, %p0; bar.red.or.pred %p2, 0, !%p0;
selp.u32 %r4, 10, 0, %p1; selp.u32 %r5, 100, 0, %p2; add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5;
st.global.u32 [%o], %r3;)",
                     Threads(4)),
              Each(103));
}

TEST(NativeCpuLaunch, DynamicSharedMemoryFollowsTheStaticOne) {
  Launch launch = Threads(1);
  launch.dynamic_shared_bytes = 8;
  const std::string before = ".shared .b32 fixed[3];\n.extern .shared .align 4 .b8 dynamic[];\n";
  EXPECT_THAT(Output("mov.u64 %rd1, dynamic; st.shared.u32 [dynamic+4], 6; ld.shared.u32 %r3, [%rd1+4]; "
                     "mov.u32 %r4, %dynamic_smem_size; add.u32 %r3, %r3, %r4; st.global.u32 [%o], %r3;",
                     launch, before),
              ElementsAre(14));
  const NativeRun run = Failure("st.shared.u32 [dynamic+8], 6;", launch, before);
  EXPECT_EQ(run.end, NativeEnd::kOutOfRange);
}

TEST(NativeCpuLaunch, AtomicsAddUpOverBlocks) {
  Launch launch = Threads(8, 9);
  launch.grid.x = 3;
  launch.out = {0, 100, 0xffffffff, 0, 0, 4, 0, 0xf0, 7};
  const std::vector<uint32_t> out = Output(R"(
atom.global.add.u32 %r3, [%out], 1;
red.global.min.s32 [%out+4], %t; red.global.max.u32 [%out+8], %t; atom.global.inc.u32 %r4, [%out+12], 4;
atom.global.dec.u32 %r4, [%out+16], 6; atom.global.cas.b32 %r5, [%out+20], 4, 77; atom.global.exch.b32 %r5, [%out+24], %t;
red.global.and.b32 [%out+28], 0x33; atom.global.xor.b32 %r6, [%out+32], %t;)",
                                           launch);
  EXPECT_THAT(out, ElementsAre(24, 0, 0xffffffff, 24 % 5, 4, 77, 23, 0x30, 7));
}

TEST(NativeCpuLaunch, ShufflesFollowTheirPseudocode) {
  const auto shuffle = [](const std::string& arguments) {
    return Output("shfl.sync." + arguments +
                      "; selp.u32 %r4, 1000, 0, %p0; add.u32 %r3, %r3, %r4; "
                      "st.global.u32 [%o], %r3;",
                  Threads(8));
  };
  EXPECT_THAT(shuffle("down.b32 %r3|%p0, %t, 2, 0x1f, 255"),
              ElementsAre(1002, 1003, 1004, 1005, 1006, 1007, 1006, 1007))
      << "lanes 8 and 9 do not exist: own value";
  EXPECT_THAT(shuffle("up.b32 %r3|%p0, %t, 3, 0, 255"), ElementsAre(0, 1, 2, 1000, 1001, 1002, 1003, 1004));
  EXPECT_THAT(shuffle("bfly.b32 %r3|%p0, %t, 1, 0x1f, 255"),
              ElementsAre(1001, 1000, 1003, 1002, 1005, 1004, 1007, 1006));
  EXPECT_THAT(shuffle("idx.b32 %r3|%p0, %t, 1, 0x1c1f, 255"),
              ElementsAre(1001, 1001, 1001, 1001, 1005, 1005, 1005, 1005))
      << "width 4: segments of four lanes";
  EXPECT_THAT(shuffle("down.b32 %r3|%p0, %t, 1, 0x1c03, 255"), ElementsAre(1001, 1002, 1003, 3, 1005, 1006, 1007, 7));
}

TEST(NativeCpuLaunch, AFastThreadDoesNotOverwriteWhatASlowOneReads) {
  // Two exchanges in a row: every lane must see the first values in the first and the second ones in the second.
  EXPECT_THAT(Output(R"(
shfl.sync.bfly.b32 %r3, %t, 1, 0x1f, 15; mul.lo.u32 %r4, %t, 100; shfl.sync.bfly.b32 %r5, %r4, 1, 0x1f, 15;
add.u32 %r3, %r3, %r5; st.global.u32 [%o], %r3;)",
                     Threads(4)),
              ElementsAre(101, 0, 303, 202));
}

TEST(NativeCpuLaunch, VotesAndMatches) {
  EXPECT_THAT(Output(R"(
setp.gt.u32 %p0, %t, 1; vote.sync.ballot.b32 %r3, %p0, 255; vote.sync.any.pred %p1, %p0, 255;
vote.sync.all.pred %p2, %p0, 255; vote.sync.uni.pred %p3, %p0, 255;
selp.u32 %r4, 0x100, 0, %p1; or.b32 %r3, %r3, %r4; selp.u32 %r4, 0x200, 0, %p2; or.b32 %r3, %r3, %r4;
selp.u32 %r4, 0x400, 0, %p3; or.b32 %r3, %r3, %r4; st.global.u32 [%o], %r3;)",
                     Threads(4)),
              Each(0x10c));
  EXPECT_THAT(Output(R"(
and.b32 %r3, %t, 1; match.any.sync.b32 %r4, %r3, 15; match.all.sync.b32 %r5|%p0, %n, 15;
selp.u32 %r6, 100, 0, %p0; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r5; st.global.u32 [%o], %r4;)",
                     Threads(4)),
              ElementsAre(5 + 100 + 15, 10 + 100 + 15, 5 + 100 + 15, 10 + 100 + 15));
}

TEST(NativeCpuLaunch, ActiveMaskIsThatOfTheLiveThreads) {
  EXPECT_THAT(Output("setp.eq.u32 %p0, %t, 1; @%p0 exit; activemask.b32 %r3; st.global.u32 [%o], %r3;", Threads(4)),
              ElementsAre(13, 0, 13, 13));
  const NativeRun run =
      Failure("setp.eq.u32 %p0, %t, 1; @%p0 bra wait; activemask.b32 %r3; st.global.u32 [%o], %r3;\nwait: bar.sync 0;",
              Threads(4));
  EXPECT_EQ(run.end, NativeEnd::kDeadlock) << "which threads run together here is left open by PTX";
}

TEST(NativeCpuLaunch, LanesCountModulo32) {
  const std::vector<uint32_t> out = Output(R"(
mov.u32 %r3, %laneid; mov.u32 %r4, %warpid; mad.lo.u32 %r3, %r4, 100, %r3; mov.u32 %r4, %lanemask_lt;
popc.b32 %r4, %r4; mad.lo.u32 %r3, %r4, 1000, %r3; st.global.u32 [%o], %r3;)",
                                           Threads(40));
  EXPECT_EQ(out[5], 5005u);
  EXPECT_EQ(out[39], 7107u);
}

TEST(NativeCpuLaunch, CallsDeviceFunctions) {
  const std::string before = R"(
.func (.param .b32 result) twice(.param .b32 x, .param .b64 unused) {
.reg .b32 %r<3>; ld.param.u32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
.func leave() { exit; }
)";
  EXPECT_THAT(Output(R"(
{ .param .b32 a; .param .b64 b; .param .b32 r; st.param.b32 [a], %t; st.param.b64 [b], 0;
call.uni (r), twice, (a, b); ld.param.b32 %r3, [r]; }
{ .param .b32 a; .param .b64 b; .param .b32 r; st.param.b32 [a], %r3;
call.uni (r), twice, (a, b); ld.param.b32 %r3, [r]; }
st.global.u32 [%o], %r3; setp.eq.u32 %p0, %t, 2; @%p0 call leave; st.global.u32 [%o], 1;)",
                     Threads(4), before),
              ElementsAre(1, 1, 8, 1));
}

TEST(NativeCpuLaunch, ModuleVariablesKeepTheirValuesForTheLaunch) {
  Launch launch = Threads(2);
  launch.grid.x = 2;
  launch.out.resize(4);
  const std::string before =
      ".const .align 4 .b8 table[8] = {1, 1, 0, 0, 252, 255, 255, 255};\n.global .u32 counter = 5;\n"
      ".global .u64 pointer = generic(counter);\n";
  EXPECT_THAT(Output(R"(
mov.u64 %rd1, table; ld.const.s32 %r3, [%rd1+4]; ld.const.u32 %r4, [table]; add.u32 %r3, %r3, %r4;
ld.global.u64 %rd2, [pointer]; atom.add.u32 %r5, [%rd2], 1; mad.lo.u32 %r3, %r5, 1000, %r3; st.global.u32 [%o], %r3;)",
                     launch, before),
              ElementsAre(5253, 6253, 7253, 8253));
}

TEST(NativeCpuLaunch, LocalAndGenericAddresses) {
  EXPECT_THAT(Output(R"(
.local .align 4 .b8 mine[16]; .shared .b32 ours;
mov.u64 %rd1, mine; cvta.local.u64 %rd2, %rd1; add.u32 %r3, %t, 3; st.u32 [%rd2+8], %r3; ld.local.u32 %r4, [%rd1+8];
cvta.shared.u64 %rd3, ours; isspacep.shared %p0, %rd3; isspacep.local %p1, %rd3; isspacep.global %p2, %out;
atom.add.u32 %r5, [%rd3], 1; bar.sync 0; ld.shared.u32 %r5, [ours];
selp.u32 %r6, 100, 0, %p0; selp.u32 %r7, 1000, 0, %p1; selp.u32 %r8, 10000, 0, %p2;
add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7; add.u32 %r4, %r4, %r8; mad.lo.u32 %r4, %r5, 10, %r4;
st.global.u32 [%o], %r4;)",
                     Threads(3)),
              ElementsAre(10133, 10134, 10135));
}

TEST(NativeCpuLaunch, NarrowAndVectorAccesses) {
  Launch launch = Threads(1, 7);
  launch.in = {0x80ff7f01, 0xfffe0005};  // bytes 4 to 11: the vector at 8 is not whole, that at 4 not aligned to 8
  EXPECT_THAT(Output(R"(
ld.global.s8 %r3, [%in+2]; st.global.u32 [%out], %r3; ld.global.u8 %r3, [%in+2]; st.global.u32 [%out+4], %r3;
ld.global.s16 %r3, [%in+6]; st.global.u32 [%out+8], %r3; ld.global.nc.u16 %h0, [%in+4]; cvt.u32.u16 %r4, %h0;
st.volatile.global.u32 [%out+12], %r4; st.global.u8 [%out+17], 0x1ab; st.global.v2.u16 [%out+20], {%h0, %h0};
ld.global.v2.u8 {%r5, %r6}, [%in]; mad.lo.u32 %r5, %r6, 1000, %r5; st.global.u32 [%out+24], %r5;)",
                     launch),
              ElementsAre(0xffffffff, 0xff, 0xfffffffe, 5, 0xab00, 0x00050005, 127001));
}

TEST(NativeCpuLaunch, BranchesThroughATable) {
  EXPECT_THAT(Output(R"(
table: .branchtargets zero, one, two;
brx.idx %t, table;
zero: st.global.u32 [%o], 10; bra end;
one: st.global.u32 [%o], 11; bra end;
two: st.global.u32 [%o], 12;
end:)",
                     Threads(3)),
              ElementsAre(10, 11, 12));
}

TEST(NativeCpuLaunch, ASpinLockMakesProgress) {
  EXPECT_THAT(Output(R"(
setp.eq.u32 %p0, %t, 0; @%p0 bra wait; st.global.u32 [%out], 1; bra end;
wait: ld.volatile.global.u32 %r3, [%out]; setp.eq.u32 %p1, %r3, 0; @%p1 bra wait; st.global.u32 [%out+4], 2;
end:)",
                     Threads(2)),
              ElementsAre(1, 2));
}

TEST(NativeCpuLaunch, ReportsAccessesOutOfRange) {
  NativeRun run = Failure("st.global.u32 [%o], 1;\n.loc 1 17 3\nst.global.u32 [%o+492], 1;", Threads(2));
  EXPECT_EQ(run.end, NativeEnd::kOutOfRange);
  EXPECT_EQ(run.address, 504u);
  EXPECT_THAT(run.thread, ElementsAre(1, 0, 0));
  EXPECT_EQ(run.cuda_line, 17);
  EXPECT_EQ(run.message,
            "t.ptx:22 (CUDA line 17): address out of range: 4 bytes at global address 0x1f8, in thread "
            "(1, 0, 0) of block (0, 0, 0)");
  EXPECT_THAT(run.memory, ElementsAre(0, 0, 1, 1)) << "what was stored before the trap stays";
  for (const char* access :
       {"st.global.u32 [0], 1;", "ld.u32 %r3, [0];", "ld.global.u8 %r3, [3];", "ld.global.u32 %r3, [%in+-4];",
        "st.const.u32 [0], 1;", "ld.shared.u32 %r3, [0];", "ld.local.u32 %r3, [0];",
        "mov.u64 %rd1, -4; ld.global.u32 %r3, [%rd1];", "mov.u64 %rd1, -4; ld.u32 %r3, [%rd1];",
        "mov.u64 %rd1, 0x100000004; ld.u32 %r3, [%rd1];", "ld.shared.u32 %r3, [-4];"}) {
    EXPECT_EQ(Failure(access, Threads(1)).end, NativeEnd::kOutOfRange) << access;
  }
}

TEST(NativeCpuLaunch, MemoryEndsWhereTheMachinesDoes) {
  EXPECT_THAT(Output("st.global.u32 [400], 7; ld.global.u32 %r3, [400]; st.global.u32 [%o], %r3;", Threads(1)),
              ElementsAre(7));
  Launch launch = Threads(1, 200);
  EXPECT_EQ(Failure("st.global.u32 [500], 1;", launch).end, NativeEnd::kDone);
  EXPECT_EQ(Failure("st.global.u32 [504], 1;", launch).end, NativeEnd::kOutOfRange);
  launch.limits.memory_words = 1000;
  EXPECT_EQ(Failure("st.global.u32 [504], 1;", launch).end, NativeEnd::kDone);
}

TEST(NativeCpuLaunch, ReportsMisalignedAccesses) {
  for (const char* access : {"st.global.u32 [%o+2], 1;", "ld.global.u16 %r3, [%o+1];", "ld.global.u64 %rd1, [12];",
                             "ld.global.v2.u32 {%r3, %r4}, [12];", "atom.global.add.u32 %r3, [%o+1], 1;"}) {
    EXPECT_EQ(Failure(access, Threads(1)).end, NativeEnd::kMisaligned) << access;
  }
}

TEST(NativeCpuLaunch, ReportsBarrierDivergence) {
  const NativeRun run =
      Failure("setp.eq.u32 %p0, %t, 0; @%p0 bra other; bar.sync 0; bra end;\nother: bar.sync 0;\nend:", Threads(2));
  EXPECT_EQ(run.end, NativeEnd::kBarrierDivergence);
  EXPECT_EQ(run.message,
            "t.ptx:21: barrier divergence, in thread (0, 0, 0) of block (0, 0, 0); thread (1, 0, 0) waits "
            "at t.ptx:20");
}

TEST(NativeCpuLaunch, ReportsDeadlocks) {
  NativeRun run = Failure("setp.eq.u32 %p0, %t, 0; @%p0 bra other; bar.sync 0; bra end;\nother: bar.warp.sync 3;\nend:",
                          Threads(2));
  EXPECT_EQ(run.end, NativeEnd::kDeadlock);
  run = Failure("shfl.sync.idx.b32 %r3, %t, 0, 0x1f, 2;", Threads(1));
  EXPECT_EQ(run.end, NativeEnd::kDeadlock);
  EXPECT_THAT(run.message, HasSubstr("the thread's own lane is not in the member mask"));
}

TEST(NativeCpuLaunch, ReportsTheTrapInstruction) {
  const NativeRun run = Failure("setp.eq.u32 %p0, %t, 3; @%p0 trap; bar.sync 0;", Threads(4));
  EXPECT_EQ(run.end, NativeEnd::kTrap);
  EXPECT_THAT(run.thread, ElementsAre(3, 0, 0));
}

TEST(NativeCpuLaunch, EndlessLoopsEnd) {
  Launch launch = Threads(3);
  launch.limits.backward_branches = 100000;
  const NativeRun run = Failure("forever: bra forever;", launch);
  EXPECT_EQ(run.end, NativeEnd::kTimeout);
  EXPECT_THAT(run.message, HasSubstr("t.ptx:20: limit exceeded: backward branches"));
  launch.limits.backward_branches = int64_t{1} << 60;
  launch.limits.wall_ms = 50;
  EXPECT_THAT(Failure("forever: bra forever;", launch).message, HasSubstr("limit exceeded: time"));
}

TEST(NativeCpuLaunch, HugeGridsAndCallTreesEnd) {
  Launch launch = Threads(1);
  launch.grid.x = 0x7fffffff;
  launch.limits.backward_branches = 100000;
  EXPECT_EQ(Failure("", launch).end, NativeEnd::kTimeout);
  launch.grid.x = 1;
  std::string before = ".func f0() { ret; }\n";
  for (int i = 1; i < 40; ++i) before += fmt::format(".func f{}() {{ call f{}; call f{}; ret; }}\n", i, i - 1, i - 1);
  EXPECT_EQ(Failure("call f39;", launch, before).end, NativeEnd::kTimeout);
}

TEST(NativeCpuLaunch, RefusesWhatItDoesNotKnowByOpcodeAndLine) {
  EXPECT_EQ(Refusal(".loc 1 9 2\n.reg .f32 %f<3>;\nadd.rn.f32 %f1, %f2, %f2;"),
            "t.ptx:22 (CUDA line 9): unsupported instruction `add.rn.f32 %f1, %f2, %f2;`: needs floating point");
  EXPECT_EQ(Refusal("frobnicate.u32 %r1;"), "t.ptx:20: unsupported instruction `frobnicate.u32 %r1;`");
  for (const char* instruction :
       {"bar.sync 1;", "bar.sync 0, 32;", "bar.arrive 0, 32;", "ld.global.v8.u32 %r1, [%o];",
        "add.sat.u32 %r1, %r1, %r1;", "mov.u32 %r1, %clock;", "shfl.down.b32 %r1, %r2, 1, 31;", "call vprintf, (%r1);",
        "atom.global.add.noftz.f16 %h0, [%o], %h1;", "ld.global.L2::cache_hint.u32 %r1, [%o], %rd1;",
        "mul.u32 %r1, %r2, %r3;", "st.async.u32 [%o], %r1;"}) {
    EXPECT_THAT(Refusal(instruction), HasSubstr("t.ptx:20: unsupported instruction `")) << instruction;
  }
  EXPECT_THAT(Refusal("call f;", ".func g();\n.func f() { call g; ret; }\n.func g() { call f; ret; }\n"),
              HasSubstr("needs recursion"));
  EXPECT_THAT(Refusal("add.u32 %rd1, %r2, %r3;"), HasSubstr("%rd1 has 64 bits, the result 32"));
  EXPECT_THAT(Refusal("add.u32 %r1, %rd2, %r3;"), HasSubstr("%rd2 has 64 bits, the instruction takes 32"));
  EXPECT_THAT(Refusal("add.u32 %r1, %r2;"), HasSubstr("2 operands instead of 3"));
  EXPECT_THAT(Refusal("ld.param.u64 %rd1, [n];"), HasSubstr("n has 4 bytes"));
  EXPECT_THAT(Refusal("cvt.sat.s32.s16 %r1, %h0;"), HasSubstr(".sat where nothing can exceed the range"));
  EXPECT_THAT(Refusal("setp.lo.s32 %p1, %r1, %r2;"), HasSubstr(".lo does not compare this type"));
}

TEST(NativeCpuLaunch, ChecksArgumentsAndShapes) {
  LaunchSpec spec;
  const auto status_of = [&](const LaunchSpec& s) {
    return std::string(RunNativeCpu(KernelPtx(""), s).status().message());
  };
  EXPECT_NE(status_of(spec), "") << "three arguments are missing";
  spec.arguments.resize(3);
  spec.arguments[0].kind = spec.arguments[1].kind = KernelArgument::Kind::kBuffer;
  EXPECT_EQ(status_of(spec), "");
  spec.arguments[2].scalar = uint64_t{1} << 32;
  EXPECT_THAT(status_of(spec), HasSubstr("4294967296 does not fit the 4 bytes of the kernel's parameter"));
  spec.arguments[2].scalar = static_cast<uint64_t>(-1);
  EXPECT_EQ(status_of(spec), "");
  spec.arguments[2].kind = KernelArgument::Kind::kBuffer;
  spec.arguments[2].words = {1};
  spec.block.x = 1025;
  EXPECT_THAT(status_of(spec), HasSubstr("at most 1024 threads"));
  spec.block.x = 0;
  EXPECT_THAT(status_of(spec), HasSubstr("every axis must be at least 1"));
  spec.block.x = 1;
  spec.kernel = "other";
  EXPECT_THAT(status_of(spec), HasSubstr("no kernel is called other; there are: k"));
}

TEST(NativeCpuLaunch, MatchesArgumentsByName) {
  LaunchSpec spec;
  spec.kernel = "dot";
  spec.arguments.resize(2);
  spec.arguments[0].name = "n";
  spec.arguments[0].scalar = 42;
  spec.arguments[1].name = "result";
  spec.arguments[1].kind = KernelArgument::Kind::kBuffer;
  spec.arguments[1].words = {0};
  const std::string ptx = std::string(kHeader) +
                          ".visible .entry _Z3dotPii(.param .u64 _Z3dotPii_param_0, .param .u32 _Z3dotPii_param_1) {\n"
                          ".reg .b64 %rd1; .reg .b32 %r1; ld.param.u64 %rd1, [_Z3dotPii_param_0];\n"
                          "ld.param.u32 %r1, [_Z3dotPii_param_1]; st.global.u32 [%rd1], %r1; ret; }\n";
  const auto run = RunNativeCpu(ptx, spec, {"result", "n"});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->memory, ElementsAre(0, 42));
}

TEST(NativeCpuLaunch, TheSameRunGivesTheSameResultAgain) {
  const std::string ptx = KernelPtx("atom.global.add.u32 %r3, [%out], 1; add.u64 %o, %o, 4; st.global.u32 [%o], %r3;");
  auto kernel = NativeCpuKernel::Compile("t.ptx", ptx, "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  LaunchSpec spec;
  spec.block.x = 32;
  spec.arguments.resize(3);
  spec.arguments[0].kind = spec.arguments[1].kind = KernelArgument::Kind::kBuffer;
  spec.arguments[1].words.resize(33);
  const auto first = kernel->Run(spec), second = kernel->Run(spec);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->memory, second->memory);
  EXPECT_EQ(first->memory[1], 32u);
}

// Kernels whose words were exchanged at random: each is refused, or runs to an end that is told; this process survives.
TEST(NativeCpuLaunch, SurvivesMutatedKernels) {
  constexpr uint64_t kSeed = 11;
  constexpr int kRounds = 2000;
  const std::string before =
      ".const .align 4 .b8 table[8] = {1, 1, 0, 0, 252, 255, 255, 255};\n.global .u64 pointer = generic(table);\n"
      ".func (.param .b32 result) f(.param .b32 x) { .reg .b32 %r<3>; ld.param.u32 %r1, [x]; add.u32 %r2, %r1, 1; "
      "st.param.b32 [result], %r2; ret; }\n";
  const std::string body = R"(
.shared .align 8 .b8 s[64]; .local .b32 mine[4];
mov.u64 %rd1, s ; add.u64 %rd2, %rd1, %rd0 ; st.shared.u32 [ %rd2 ], %t ; bar.sync 0 ;
loop: setp.ge.s32 %p0 , %r4 , 5 ; @%p0 bra done ; add.s32 %r4 , %r4 , 1 ; bra loop ;
done: shl.b64 %rd3 , %rd1 , %r4 ; bfe.u32 %r5 , %r4 , 3 , 4 ; div.s32 %r6 , %r5 , %r4 ; rem.u64 %rd4 , %rd3 , %rd1 ;
mul.wide.s32 %rd5 , %r5 , %r6 ; cvt.sat.u8.s64 %r7 , %rd5 ; mov.b64 { %r8 , %r9 } , %rd5 ; prmt.b32 %r8 , %r9 , %r7 , %r6 ;
shfl.sync.bfly.b32 %r3 | %p1 , %r8 , 1 , 31 , 15 ; vote.sync.ballot.b32 %r4 , %p1 , 15 ; ld.const.u32 %r5 , [ table ] ;
st.local.u32 [ mine + 4 ] , %r5 ; ld.global.v2.u16 { %h1 , %h2 } , [ %o ] ; atom.global.add.u32 %r6 , [ %out ] , %r5 ;
{ .param .b32 a ; .param .b32 r ; st.param.b32 [ a ] , %r6 ; call ( r ) , f , ( a ) ; ld.param.u32 %r7 , [ r ] ; }
add.cc.u32 %r1 , %r2 , %r3 ; addc.u32 %r4 , %r5 , %r6 ; selp.b32 %r7 , %r1 , %r2 , %p1 ; st.global.u32 [ %o ] , %r7 ;)";
  const std::string text = KernelPtx(body, before);
  std::vector<std::string> words;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", start), text.size() - 1);
    words.push_back(text.substr(start, end - start + 1));
    start = end + 1;
  }
  Launch launch = Threads(4, 16);
  launch.limits.backward_branches = 5000;
  ASSERT_TRUE(RunKernel(text, launch).ok()) << RunKernel(text, launch).status();
  SplitMix64 random(kSeed);
  std::cout << "seed " << kSeed << "\n";
  int ran = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::string> mutated = words;
    const auto any = [&]() { return random.Below(static_cast<uint32_t>(words.size())); };
    for (uint32_t edits = 1 + random.Below(3); edits > 0; --edits) mutated[any()] = words[any()];
    std::string kernel;
    for (const std::string& word : mutated) kernel += word;
    const auto run = RunKernel(kernel, launch);
    if (run.ok()) ++ran;
    EXPECT_NE(run.status().code(), absl::StatusCode::kInternal) << run.status() << "\n" << kernel;
  }
  EXPECT_GT(ran, kRounds / 50);
  EXPECT_LT(ran, kRounds / 2);
}

TEST(NativeCpuLaunch, CompilesAndRunsQuickly) {
  constexpr int kRuns = 20;
  const std::string ptx = KernelPtx("add.u32 %r3, %t, 5; bar.sync 0; st.global.u32 [%o], %r3;");
  ASSERT_TRUE(RunKernel(ptx, Threads(32)).ok());  // LLVM's own start is paid once
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; ++i) ASSERT_TRUE(RunKernel(ptx, Threads(32)).ok());
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  std::cout << fmt::format("{:.2f} ms per compilation and launch\n", elapsed.count() / kRuns);
  EXPECT_LT(elapsed.count() / kRuns, 500);
}

}  // namespace
}  // namespace qgpu
