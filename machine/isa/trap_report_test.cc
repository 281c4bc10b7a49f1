#include "machine/isa/trap_report.h"

#include "gtest/gtest.h"

namespace qgpu {
namespace {

// Block 1's slot 2 stores for CUDA line 8; blocks 2 and 3 end in barriers of lines 4 and 7 that lead elsewhere, block 4
// in one that leads where block 3's does.
MachineLaunch MakeLaunch() {
  MachineLaunch launch;
  launch.block = {3, 2, 1};
  launch.program.blocks.resize(5);
  launch.program.origins.resize(5);
  launch.program.origins[1][2] = {13, 8, "st.global.u32 [%rd1], %r3"};
  for (int block = 2; block < 5; ++block) {
    launch.program.blocks[block].control.kind = ControlKind::kBarrier;
    launch.program.blocks[block].control.target = block == 2 ? 0 : 1;
    launch.program.origins[block][kSlots] = {20 + block, block == 2 ? 4 : 7, "bar.sync 0"};
  }
  return launch;
}

TrapReport Misaligned() {
  TrapReport trap;
  trap.kind = TrapKind::kMisaligned;
  trap.block = 1;
  trap.slot = 2;
  trap.thread = {2, 1, 0};
  trap.cta = {1, 0, 3};
  trap.address = 83;
  return trap;
}

TEST(DescribeTrap, NamesThreadThreadBlockAddressAndLine) {
  MachineLaunch launch = MakeLaunch();
  TrapReport trap = Misaligned();
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.cu"),
            "misaligned address: byte address 83 (0x53), by thread (2, 1, 0) of thread block (1, 0, 3), k.cu:8 "
            "(st.global.u32 [%rd1], %r3)");
  const std::string before = "byte address 83 (0x53), by thread (2, 1, 0) of thread block (1, 0, 3)";
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.ptx"),
            "misaligned address: " + before + ", k.ptx:13 (st.global.u32 [%rd1], %r3)");
  trap.kind = TrapKind::kOutOfRange;
  launch.program.origins[1][2].cuda_line = 0;
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.cu"),
            "address out of range: " + before + ", PTX line 13 (st.global.u32 [%rd1], %r3)");
  trap.block = 9;
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.cu"), "address out of range: " + before);
}

TEST(DescribeTrap, NamesTheTrapInstruction) {
  MachineLaunch launch = MakeLaunch();
  TrapReport trap = Misaligned();
  trap.kind = TrapKind::kOutOfRange;
  launch.program.origins[1][2].text = "trap;";
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.cu"),
            "the kernel executed trap, in thread (2, 1, 0) of thread block (1, 0, 3), k.cu:8 (trap;)");
}

TEST(DescribeTrap, SaysWhatAFailedCheckLeaves) {
  MachineLaunch launch = MakeLaunch();
  TrapReport trap = Misaligned();
  trap.kind = TrapKind::kOutOfRange;
  std::string& code = launch.program.origins[1][2].text;
  const auto address = [&](uint32_t at) {
    trap.address = at;
    const std::string text = DescribeTrap(trap, launch.program, "k.cu");
    return text.substr(text.find(": ") + 2, text.find(", by") - text.find(": ") - 2);
  };
  EXPECT_EQ(address(504), "byte address 504 (0x1f8)");
  EXPECT_EQ(address(0x10000004), "a byte address above 0x7ffffff");
  EXPECT_EQ(address(0xf0000004), "a byte address below -0x7ffffff");
  EXPECT_EQ(address(0xfffffffc), "byte address 4294967292 (0xfffffffc)");
  code = "ld.shared.u32 %r1, [%rd2];";
  EXPECT_EQ(address(504), "an address outside of the kernel's shared memory");
  EXPECT_EQ(address(508), "byte address 508 (0x1fc)");
  code = "ld.const.u32 %r1, [%rd2];";
  EXPECT_EQ(address(0x10000004), "an address outside of the kernel's const memory");
  code = "st.global.u8 [%rd2], %rs1;";
  EXPECT_EQ(address(512), "the word at byte address 512 (0x200)");
}

TEST(DescribeTrap, BarrierDivergenceNamesTwoThreadsAndTheirBarriers) {
  MachineLaunch launch = MakeLaunch();
  TrapReport trap;
  trap.kind = TrapKind::kBarrierDivergence;
  trap.cta = {0, 1, 0};
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.cu"), "barrier divergence: in thread block (0, 1, 0)");
  // In the thread block before, thread 0 waited in block 4. Then thread 5 exits, thread 4 and the first three wait.
  const std::vector<Token> tokens = {Token::Exec(4, 0b0001), Token::Bar(1),          Token::Cta(1, 1),
                                     Token::Exec(0, 0b1111), Token::Exec(2, 0b0111), Token::Exec(0, 0b1000),
                                     Token::SwitchWarp(1),   Token::Exec(0, 0b0011), Token::Exec(3, 0b0001)};
  LocateBarrierDivergence(launch, tokens, trap);
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.cu"),
            "barrier divergence: thread (0, 0, 0) of thread block (0, 1, 0) waits at k.cu:4 (bar.sync 0), thread "
            "(1, 1, 0) at k.cu:7 (bar.sync 0)");
  // A serial block runs the lowest lane only.
  launch.program.blocks[2].control.serial = true;
  LocateBarrierDivergence(launch, std::vector<Token>{Token::Exec(3, 0b1110), Token::Exec(2, 0b0111)}, trap);
  EXPECT_EQ(trap.block, 2);
  EXPECT_EQ(trap.other_block, 3);
  EXPECT_EQ(trap.other_thread[0], 1u);
}

TEST(LocateBarrierDivergence, ReadsAnyTokens) {
  const MachineLaunch launch = MakeLaunch();
  TrapReport trap;
  std::vector<Token> all;
  for (int id = 0; id < MachineVocabularySize(); ++id) all.push_back(TokenFromId(id).value());
  LocateBarrierDivergence(launch, all, trap);
  LocateBarrierDivergence(launch, {}, trap);
  EXPECT_EQ(trap.block, -1);
  EXPECT_EQ(trap.other_block, -1);
}

TEST(EndName, OfEveryEnd) {
  EXPECT_STREQ(EndName(LaunchEnd::kDone), "done");
  EXPECT_STREQ(EndName(LaunchEnd::kTrap), "trap");
  EXPECT_STREQ(EndName(LaunchEnd::kBudget), "budget");
}

}  // namespace
}  // namespace qgpu
