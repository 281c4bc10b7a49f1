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
            "misaligned address: " + before + ", k.ptx:13, CUDA line 8 (st.global.u32 [%rd1], %r3)");
  trap.kind = TrapKind::kOutOfRange;
  launch.program.origins[1][2].cuda_line = 0;
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.cu"),
            "address out of range: " + before + ", PTX line 13 (st.global.u32 [%rd1], %r3)");
  trap.block = 9;
  EXPECT_EQ(DescribeTrap(trap, launch.program, "k.cu"), "address out of range: " + before);
}

TEST(SourcePlace, NamesWhatIsKnown) {
  const SlotOrigin origin = {39, 8, "ld.global.u32 %r3, [%rd4]", "k.h"};
  EXPECT_EQ(SourcePlace(origin, "k.ptx"), "k.ptx:39, k.h:8");
  EXPECT_EQ(SourcePlace(origin, "k.cu"), "k.h:8");
  EXPECT_EQ(SourcePlace({39, 8, ""}, "k.cu"), "k.cu:8");
  EXPECT_EQ(SourcePlace({39, 0, ""}, "k.ptx"), "k.ptx:39");
  EXPECT_EQ(SourcePlace({39, 0, ""}, "k.cu"), "PTX line 39");
  EXPECT_EQ(SourcePlace({}, "k.cu"), "");
  EXPECT_EQ(SourcePlace({}, "k.ptx"), "");
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
  code = "st.global.v4.u8 [%rd2], {%rs1, %rs2, %rs3, %rs4};";
  EXPECT_EQ(address(512), "byte address 512 (0x200)");
}

// What compiled code makes of a misaligned address before the machine sees it is undone as far as it can be.
TEST(DescribeTrap, MisalignedAddressesAreThoseOfTheKernel) {
  MachineLaunch launch = MakeLaunch();
  TrapReport trap = Misaligned();
  const auto address = [&](const char* code, uint32_t at) {
    launch.program.origins[1][2].text = code;
    trap.address = at;
    const std::string text = DescribeTrap(trap, launch.program, "k.cu");
    return text.substr(text.find(": ") + 2, text.find(", by") - text.find(": ") - 2);
  };
  EXPECT_EQ(address("ld.global.u32 %r1, [%rd1];", 14), "byte address 14 (0xe)");
  EXPECT_EQ(address("st.global.u64 [%rd1], %rd2;", 9), "byte address 9 (0x9)");
  EXPECT_EQ(address("st.global.u64 [%rd1], %rd2;", 13), "byte address 12 (0xc) or 13 (0xd)");
  EXPECT_EQ(address("ld.global.u64 %rd2, [%rd1];", 9), "byte address 5 (0x5) or 9 (0x9)");
  EXPECT_EQ(address("ld.global.u64 %rd2, [%rd1];", 13), "byte address 9 (0x9) or 12 (0xc) or 13 (0xd)");
  EXPECT_EQ(address("@%p1 st.global.v2.u32 [%rd1], {%r1, %r2};", 15), "byte address 14 (0xe) or 15 (0xf)");
  EXPECT_EQ(address("st.shared.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};", 10), "byte address 8 (0x8) or 10 (0xa)");
  EXPECT_EQ(address("ld.global.v2.u64 {%rd2, %rd3}, [%rd1];", 31), "a byte address from 19 (0x13) to 31 (0x1f)");
  EXPECT_EQ(address("ld.global.u16 %rs1, [%rd1];", 5), "byte address 5 (0x5) or 7 (0x7)");
  EXPECT_EQ(address("st.global.v4.u16 [%rd1], {%rs1, %rs2, %rs3, %rs4};", 5), "byte address 4 (0x4) or 5 (0x5)");
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
