// Uniformity, and what steps that threads take together become: which need memory, which run inside a pass, and what is
// refused. Values are compared with native-cpu in tests/differential.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/ptx_to_blocks/calls/inline_calls.h"
#include "lowering/ptx_to_blocks/expand/expand_warp.h"
#include "lowering/ptx_to_blocks/ir/uniformity.h"
#include "lowering/ptx_to_blocks/simplify/simplify.h"
#include "lowering/ptx_to_blocks/test_kernel.h"
#include "lowering/ptx_to_blocks/translate/translate.h"

namespace qgpu::lower {
namespace {

using ::testing::HasSubstr;

// The function before ExpandWarp, with words of memory around it.
struct Prepared {
  ptx::Module module;
  ptx::Function kernel;
  std::vector<Bytes> parameters;
  std::optional<MemoryLayout> layout;
  IrFunction function;
};

std::unique_ptr<Prepared> Prepare(const std::string& body, const Dim3& block) {
  auto out = std::make_unique<Prepared>();
  out->module = ModuleOf(body);
  const absl::StatusOr<ptx::Function> kernel = InlineCalls(out->module, out->module.functions.at(0));
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  out->kernel = *kernel;
  for (int bytes : {8, 8, 8, 4, 4}) out->parameters.emplace_back(static_cast<size_t>(bytes));
  LayoutRequest request = {&out->module, &out->kernel, &out->parameters};
  request.threads = static_cast<uint32_t>(block.Count());
  request.arena_words = 30;
  const absl::StatusOr<MemoryLayout> layout = MemoryLayout::Create(request);
  EXPECT_TRUE(layout.ok()) << layout.status();
  out->layout = *layout;
  const absl::StatusOr<Translation> translation = Translate(out->module, out->kernel, {}, block, *out->layout);
  EXPECT_TRUE(translation.ok()) << translation.status();
  out->function = translation->function;
  out->function.source = "t.ptx";
  Simplify(out->function);
  return out;
}

struct Counts {
  int barriers = 0, lane_shuffles = 0, lane_ballots = 0;
  uint32_t words = 0;  // of scratch memory
};

absl::StatusOr<Counts> Expanded(const std::string& body, const Dim3& block = {16, 1, 1}) {
  const std::unique_ptr<Prepared> prepared = Prepare(body, block);
  const uint32_t free = prepared->layout->free_words();
  QGPU_RETURN_IF_ERROR(ExpandWarp(prepared->function, {}, block, *prepared->layout));
  Simplify(prepared->function);
  Counts counts;
  counts.words = free - prepared->layout->free_words();
  for (int at : AnalyzeFlow(prepared->function).order) {
    counts.barriers += prepared->function.blocks[at].end.kind == TerminatorKind::kBarrier;
    for (int value : prepared->function.blocks[at].instructions) {
      const IrOp op = prepared->function.at(value).op;
      counts.lane_shuffles += op == IrOp::kLaneShuffle;
      counts.lane_ballots += op == IrOp::kLaneBallot;
    }
  }
  return counts;
}

Counts Expand(const std::string& body, const Dim3& block = {16, 1, 1}) {
  const absl::StatusOr<Counts> counts = Expanded(body, block);
  EXPECT_TRUE(counts.ok()) << counts.status();
  return counts.ok() ? *counts : Counts{};
}

std::string Refusal(const std::string& body) {
  const absl::Status status = Expanded(body).status();
  return std::string(status.message().data(), status.message().size());
}

const std::string kLoad = "mov.u32 %r2, %tid.x; shl.b32 %r3, %r2, 2; ld.global.u32 %r4, [%rd1];";
const std::string kUse = "st.global.u32 [%rd0], %r5;";

TEST(ExpandWarp, SegmentsOfFourStayInsideAPass) {
  for (const char* shuffle : {"up.b32 %r5, %r4, 1, 0x1c00", "down.b32 %r5, %r4, 1, 0x1c1f", "bfly.b32 %r5, %r4, 3, 31",
                              "idx.b32 %r5, %r4, 2, 0x1c1f", "down.b32 %r5, %r4, 1, 0x1e1f"}) {
    const Counts counts = Expand(kLoad + "shfl.sync." + shuffle + ", -1;" + kUse);
    EXPECT_EQ(counts.lane_shuffles, 1) << shuffle;
    EXPECT_EQ(counts.barriers, 0) << shuffle;
    EXPECT_EQ(counts.words, 0u) << shuffle;
  }
}

TEST(ExpandWarp, LongerSegmentsGoThroughMemory) {
  const Counts counts = Expand(kLoad + "shfl.sync.down.b32 %r5, %r4, 1, 31, -1;" + kUse);
  EXPECT_EQ(counts.lane_shuffles, 0);
  EXPECT_EQ(counts.barriers, 1);
  EXPECT_EQ(counts.words, 16u);
}

TEST(ExpandWarp, TwoExchangesTakeTurnsWithTheirWords) {
  const std::string twice = "shfl.sync.down.b32 %r5, %r4, 5, 31, -1; shfl.sync.down.b32 %r5, %r5, 2, 31, -1;";
  const Counts counts = Expand(kLoad + twice + kUse);
  EXPECT_EQ(counts.barriers, 2);
  EXPECT_EQ(counts.words, 32u);
  // One in a loop has to wait until all have read.
  const Counts loop = Expand(kLoad +
                             "L: shfl.sync.down.b32 %r5, %r4, 5, 31, -1; add.u32 %r4, %r4, %r5; "
                             "add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r0; @%p1 bra L;" +
                             kUse);
  EXPECT_EQ(loop.barriers, 2);
  EXPECT_EQ(loop.words, 16u);
}

TEST(ExpandWarp, ThreadBlocksOfOneMachineWarpNeedNoMemory) {
  const Counts counts = Expand(kLoad +
                                   "shfl.sync.down.b32 %r5, %r4, 1, 31, -1; setp.eq.u32 %p1, %r5, 0; "
                                   "vote.sync.ballot.b32 %r5, %p1, -1;" +
                                   kUse,
                               {4, 1, 1});
  EXPECT_EQ(counts.lane_shuffles, 1);
  EXPECT_EQ(counts.lane_ballots, 1);
  EXPECT_EQ(counts.words, 0u);
  EXPECT_EQ(counts.barriers, 0);
}

TEST(ExpandWarp, VotesOnTheSamePredicateShareABallot) {
  const Counts counts = Expand(kLoad +
                               "setp.eq.u32 %p1, %r4, 0; vote.sync.all.pred %p2, %p1, -1; "
                               "vote.sync.any.pred %p3, %p1, -1; vote.sync.uni.pred %p4, %p1, -1; "
                               "vote.sync.ballot.b32 %r5, %p1, -1; @%p2 add.u32 %r5, %r5, 1; "
                               "@%p3 add.u32 %r5, %r5, 2; @%p4 add.u32 %r5, %r5, 4;" +
                               kUse);
  EXPECT_EQ(counts.lane_ballots, 1);
  EXPECT_EQ(counts.barriers, 1);
  EXPECT_EQ(counts.words, 4u);
}

TEST(ExpandWarp, ExitsTakeABallotOfTheLiveThreads) {
  const std::string shuffle = "shfl.sync.bfly.b32 %r5, %r4, 4, 31, -1; shfl.sync.bfly.b32 %r5, %r5, 8, 31, -1;";
  const Counts counts = Expand(kLoad + "setp.ge.u32 %p1, %r2, %r0; @%p1 exit;" + shuffle + kUse);
  EXPECT_EQ(counts.lane_ballots, 1);  // one for both
}

TEST(ExpandWarp, RefusesWhatIsNotProven) {
  const std::string part = "setp.lt.u32 %p1, %r2, %r0; @!%p1 bra OUT;";
  const std::string shuffle = "shfl.sync.down.b32 %r5, %r4, 1, 31, -1;";
  EXPECT_THAT(Refusal(kLoad + part + shuffle + kUse + "OUT: bar.sync 0;"), HasSubstr("inside divergent code"));
  EXPECT_THAT(Refusal(kLoad + part + shuffle + kUse + "OUT: bar.sync 0;"), HasSubstr("t.ptx:15: shfl.sync.down"));
  EXPECT_THAT(Refusal(kLoad + "shfl.sync.down.b32 %r5, %r4, 1, 31, 0xff;" + kUse), HasSubstr("with a partial mask"));
  EXPECT_THAT(Refusal(kLoad + "shfl.sync.down.b32 %r5, %r4, 1, 31, %r4;" + kUse), HasSubstr("with a partial mask"));
  // A branch that all threads take alike is none.
  EXPECT_EQ(Refusal(kLoad + "setp.lt.u32 %p1, %r1, %r0; @!%p1 bra OUT;" + shuffle + kUse + "OUT: bar.sync 0;"), "");
  // Who leaves for good does not count.
  EXPECT_EQ(Refusal(kLoad + part + shuffle + kUse + "OUT: ret;"), "");
  // A mask that was the live threads somewhere before.
  EXPECT_EQ(Refusal(kLoad + "activemask.b32 %r6; shfl.sync.down.b32 %r5, %r4, 1, 31, %r6;" + kUse), "");
}

TEST(Translate, ShufflesWithoutSyncAreForOldDevices) {
  ptx::Module module = ModuleOf(kLoad + "shfl.down.b32 %r5, %r4, 1, 31; vote.any.pred %p1, %p1;" + kUse);
  const absl::StatusOr<ptx::Function> kernel = InlineCalls(module, module.functions.at(0));
  ASSERT_TRUE(kernel.ok());
  const std::unique_ptr<Prepared> other = Prepare(kUse, {4, 1, 1});
  const absl::Status refused = Translate(module, *kernel, {}, {4, 1, 1}, *other->layout).status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("sm_75 has no shfl without .sync"));
  module.target = "sm_60";
  EXPECT_TRUE(Translate(module, *kernel, {}, {4, 1, 1}, *other->layout).ok());
}

TEST(Uniformity, KnowsWhatMachineWarpsShare) {
  const std::unique_ptr<Prepared> prepared =
      Prepare(kLoad +
                  "shr.u32 %r5, %r2, 2; and.b32 %r6, %r2, 3; add.u32 %r7, %r0, %r1; add.u32 %r5, %r5, %r6; "
                  "add.u32 %r5, %r5, %r7; bar.sync 0;" +
                  kUse,
              {16, 1, 1});
  const Uniformity uniformity = AnalyzeUniformity(prepared->function, AnalyzeFlow(prepared->function), {16, 1, 1});
  for (size_t v = 0; v < prepared->function.instructions.size(); ++v) {
    const IrInstruction& in = prepared->function.at(static_cast<int>(v));
    if (in.op == IrOp::kShr) {
      EXPECT_EQ(uniformity.value[v], Spread::kByWarp);
    } else if (in.op == IrOp::kAnd) {
      EXPECT_EQ(uniformity.value[v], Spread::kDivergent);
    } else if (in.op == IrOp::kSpecial && in.immediate < kSpecialLaneId) {
      EXPECT_EQ(uniformity.value[v], Spread::kUniform);
    }
  }
}

TEST(Uniformity, ThreadsThatLeaveALoopAtDifferentTimesHaveDifferentValues) {
  // %r6 counts alike for all, but how far depends on the thread.
  const std::unique_ptr<Prepared> prepared =
      Prepare(kLoad +
                  "mov.u32 %r6, 0; L: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r2; @%p1 bra L; mov.u32 %r5, %r6; "
                  "bar.sync 0;" +
                  kUse,
              {16, 1, 1});
  const Uniformity uniformity = AnalyzeUniformity(prepared->function, AnalyzeFlow(prepared->function), {16, 1, 1});
  bool seen = false;
  for (size_t v = 0; v < prepared->function.instructions.size(); ++v) {
    const IrInstruction& in = prepared->function.at(static_cast<int>(v));
    if (in.op != IrOp::kPhi || in.block < 0) continue;
    seen = true;
    EXPECT_EQ(uniformity.value[v], Spread::kDivergent);
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace qgpu::lower
