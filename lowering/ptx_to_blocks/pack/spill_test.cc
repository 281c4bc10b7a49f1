// Where values go when registers run out. That kernels still compute the same is compared with native-cpu in
// tests/differential.
#include "lowering/ptx_to_blocks/pack/spill.h"

#include "gtest/gtest.h"
#include "lowering/ptx_to_blocks/simplify/rings.h"

namespace qgpu::lower {
namespace {

// A loop that reads `count` values which were loaded before it, and then uses the number of the thread.
struct Loop {
  IrFunction function;
  int address = -1;
  std::vector<int> loads;

  int Add(int block, IrOp op, Type type, std::vector<int> args) {
    IrInstruction in;
    in.op = op;
    in.type = type;
    in.args = std::move(args);
    return function.Add(block, std::move(in));
  }

  explicit Loop(int count) {
    function.blocks.resize(3);
    const int tid = function.Special(Type::kI32, kSpecialTidX);
    address = Add(0, IrOp::kShl, Type::kI32, {tid, function.Constant(Type::kI32, 3)});
    for (int i = 0; i < count; ++i) {
      loads.push_back(Add(0, IrOp::kLoad, Type::kI32, {address}));
      function.at(loads.back()).immediate = static_cast<uint64_t>(4 * i + 4);
    }
    const int sum = Add(1, IrOp::kPhi, Type::kI32, {});
    int next = sum;
    for (int load : loads) next = Add(1, IrOp::kAdd, Type::kI32, {next, load});
    const int more = Add(1, IrOp::kCompare, Type::kPredicate, {next, function.Constant(Type::kI32, 1000)});
    function.at(sum).args = {function.Constant(Type::kI32, 0), next};
    function.at(sum).phi_blocks = {0, 1};
    const int store = Add(2, IrOp::kStore, Type::kNone, {address, next});
    function.at(store).immediate = 4;
    function.blocks[0].end = {TerminatorKind::kJump, -1, false, 1, -1, -1};
    function.blocks[1].end = {TerminatorKind::kBranch, more, false, 1, 2, -1};
    function.blocks[2].end = {TerminatorKind::kExit, -1, false, -1, -1, -1};
  }

  int Scratch(IrOp op) const {
    int count = 0;
    for (const IrBlock& block : function.blocks) {
      for (int value : block.instructions) {
        count += function.at(value).op == op && function.at(value).space == AccessSpace::kScratch;
      }
    }
    return count;
  }
};

MemoryLayout LayoutWith(uint32_t free_words) {
  static const ptx::Module module;
  static const ptx::Function kernel;
  static const std::vector<Bytes> parameters;
  LayoutRequest request = {&module, &kernel, &parameters};
  request.arena_words = 126 - free_words;
  const absl::StatusOr<MemoryLayout> layout = MemoryLayout::Create(request);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *layout;
}

SpillRequest RequestOf(uint32_t threads) {
  SpillRequest request;
  request.block.x = threads;
  return request;
}

TEST(Spill, MakesAgainWhatComesFromTheThreadsNumber) {
  Loop loop(20);
  MemoryLayout layout = LayoutWith(0);
  ASSERT_EQ(SpillOne(loop.function, RequestOf(8), layout), SpillOutcome::kDone);
  EXPECT_EQ(loop.function.at(loop.address).block, -1);
  EXPECT_EQ(loop.Scratch(IrOp::kStore), 0);
  // Nothing else can go without words.
  EXPECT_EQ(SpillOne(loop.function, RequestOf(8), layout), SpillOutcome::kNoWords);
}

TEST(Spill, KeepsOneWordForEachThread) {
  Loop loop(20);
  MemoryLayout layout = LayoutWith(20);
  ASSERT_EQ(SpillOne(loop.function, RequestOf(8), layout), SpillOutcome::kDone);  // the address
  ASSERT_EQ(SpillOne(loop.function, RequestOf(8), layout), SpillOutcome::kDone);
  EXPECT_EQ(layout.free_words(), 12u);
  EXPECT_EQ(loop.Scratch(IrOp::kStore), 1);
  EXPECT_EQ(loop.Scratch(IrOp::kLoad), 1);
  ASSERT_EQ(SpillOne(loop.function, RequestOf(8), layout), SpillOutcome::kDone);
  EXPECT_EQ(SpillOne(loop.function, RequestOf(8), layout), SpillOutcome::kNoWords);
}

TEST(Spill, Ends) {
  Loop loop(20);
  MemoryLayout layout = LayoutWith(100);
  int spills = 0;
  while (SpillOne(loop.function, RequestOf(1), layout) == SpillOutcome::kDone) ASSERT_LT(++spills, 100);
  EXPECT_GT(spills, 15);
}

TEST(Rings, OneCopyOpensEachRing) {
  IrFunction function;
  function.blocks.resize(2);
  std::vector<int> phis;
  for (int i = 0; i < 7; ++i) {
    IrInstruction phi;
    phi.op = IrOp::kPhi;
    phi.type = Type::kI32;
    phis.push_back(function.Add(1, phi));
  }
  for (int i = 0; i < 7; ++i) {  // five go round, two change places
    const int from = i < 5 ? (i + 1) % 5 : 11 - i;
    function.at(phis[i]).args = {function.Constant(Type::kI32, static_cast<uint64_t>(i)), phis[from]};
    function.at(phis[i]).phi_blocks = {0, 1};
  }
  function.blocks[0].end = {TerminatorKind::kJump, -1, false, 1, -1, -1};
  function.blocks[1].end = {TerminatorKind::kJump, -1, false, 1, -1, -1};
  IrFunction everywhere = function;
  BreakRings(function, RingsToBreak::kOnce);
  EXPECT_EQ(function.blocks[1].instructions.size(), 8u);
  BreakRings(everywhere, RingsToBreak::kEverywhere);
  EXPECT_EQ(everywhere.blocks[1].instructions.size(), 14u);
}

}  // namespace
}  // namespace qgpu::lower
