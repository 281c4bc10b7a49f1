// The netlist against the reference interpreter: token for token, over hand-written launches and random programs.
#include "common/prng.h"
#include "gtest/gtest.h"
#include "machine/interpreter/interpreter.h"
#include "machine/interpreter/random_launch.h"
#include "model/netlist/evaluator.h"
#include "model/netlist/machine_netlist.h"

namespace qgpu {
namespace {

const MachineNetlist& TheMachine() {
  static const MachineNetlist* machine = [] {
    absl::StatusOr<MachineNetlist> built = BuildMachineNetlist();
    if (!built.ok()) {
      ADD_FAILURE() << built.status();
      std::abort();
    }
    return new MachineNetlist(*std::move(built));
  }();
  return *machine;
}

// Free run of the netlist; compares every token, then memory and registers.
void ExpectSameRun(const MachineLaunch& launch, int64_t budget) {
  const MachineRun expected = Interpret(launch, budget);
  NetlistEvaluator evaluator(TheMachine());
  absl::StatusOr<Token> next = Token::Reset();
  const std::vector<Token> host = HostTokens(launch);
  for (size_t i = 0; i < host.size(); ++i) {
    next = evaluator.Step(host[i], /*strict=*/i + 1 == host.size());
    ASSERT_TRUE(next.ok()) << next.status() << " at host token " << i << " " << FormatToken(host[i]);
  }
  for (size_t i = 0; i < expected.tokens.size(); ++i) {
    ASSERT_EQ(FormatToken(*next), FormatToken(expected.tokens[i])) << "position " << i;
    if (next->kind == TokenKind::kDone || next->kind == TokenKind::kTrap) break;
    next = evaluator.Step(*next);
    ASSERT_TRUE(next.ok()) << next.status() << " at position " << i;
  }
  if (expected.end == LaunchEnd::kBudget) return;  // the last token was written, but not acted upon
  for (int word = 0; word < 126; ++word) {
    const auto cells = evaluator.ReadRow(TheMachine().memory_head, word);
    uint32_t value = 0;
    for (int i = 0; i < 32; ++i) value |= static_cast<uint32_t>(cells[i]) << i;
    ASSERT_EQ(value, expected.state.memory[word]) << "word " << word;
  }
  for (int warp = 0; warp < kWarps; ++warp) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int r = 1; r < 16; ++r) {
        const auto cells = evaluator.ReadRow(TheMachine().register_heads[lane], 16 * warp + r);
        uint32_t value = 0;
        for (int i = 0; i < 32; ++i) value |= static_cast<uint32_t>(cells[i]) << i;
        ASSERT_EQ(value, expected.state.registers[warp][lane][r]) << "warp " << warp << " lane " << lane << " r" << r;
      }
    }
  }
}

TEST(MachineNetlist, StaysWithinTheContract) {
  EXPECT_LE(TheMachine().netlist.layers(), 45);
  std::vector<int> heads(TheMachine().netlist.layers());
  for (const Head& head : TheMachine().netlist.heads()) ++heads[head.layer];
  for (int count : heads) EXPECT_LE(count, 16);
}

TEST(MachineNetlist, RunsRandomProgramsLikeTheInterpreter) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ExpectSameRun(RandomLaunch(seed), 200);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace qgpu
