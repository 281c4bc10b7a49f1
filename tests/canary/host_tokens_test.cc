#include "tests/canary/host_tokens.h"

#include <gtest/gtest.h>

#include "common/prng.h"

namespace qgpu {
namespace {

std::vector<int32_t> Ids(const MachineLaunch& launch) {
  std::vector<int32_t> ids;
  for (Token token : HostTokens(launch)) ids.push_back(TokenToId(token));
  return ids;
}

TEST(HostTokensTest, RandomLaunchesComeBack) {
  SplitMix64 random(7);
  for (int round = 0; round < 200; ++round) {
    MachineLaunch launch;
    launch.program.blocks.resize(1 + random.Below(32));
    for (MachineBlock& block : launch.program.blocks) {
      for (Instruction& slot : block.slots) {
        if (random.Below(4) > 0)
          slot = {Op::kAdd, static_cast<int>(random.Below(16)), 1, 0, 0, 0, false, random.Next32()};
      }
      block.control.target = static_cast<int>(random.Below(32));
      block.control.kind = ControlKind::kBarrier;
    }
    launch.grid = {1 + random.Below(256), 1 + random.Below(256), 1 + random.Below(64)};
    launch.block = {1 + random.Below(4), 1 + random.Below(4), 1 + random.Below(2)};
    for (uint32_t i = 0; i < 1 + random.Below(25); ++i) launch.parameters.push_back(random.Next32());
    launch.memory.resize(126);
    for (uint32_t& word : launch.memory) word = random.Next32() >> random.Below(32);
    launch.memory[125] |= 1;
    const auto back = LaunchFromHostTokens(Ids(launch));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->program.blocks, launch.program.blocks);
    EXPECT_EQ(back->grid, launch.grid);
    EXPECT_EQ(back->block, launch.block);
    EXPECT_EQ(back->parameters, launch.parameters);
    EXPECT_EQ(back->memory, launch.memory);
  }
}

TEST(HostTokensTest, RefusesWhatNoHostSends) {
  const std::vector<int32_t> done = {TokenToId(Token::Done())};
  EXPECT_FALSE(LaunchFromHostTokens(done).ok());
  const std::vector<int32_t> none = {MachineVocabularySize()};
  EXPECT_FALSE(LaunchFromHostTokens(none).ok());
}

}  // namespace
}  // namespace qgpu
