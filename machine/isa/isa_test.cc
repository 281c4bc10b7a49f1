#include "machine/isa/isa.h"

#include <set>

#include "gtest/gtest.h"
#include "machine/isa/machine_launch.h"

namespace qgpu {
namespace {

TEST(Token, EveryIdIsOneTokenAndBack) {
  EXPECT_LE(MachineVocabularySize(), 16384);
  std::set<std::string> texts;
  for (int id = 0; id < MachineVocabularySize(); ++id) {
    const Token token = TokenFromId(id).value();
    EXPECT_EQ(TokenToId(token), id);
    EXPECT_EQ(token.payload & ~PayloadMask(token.kind), 0);
    texts.insert(TokenText(token));
  }
  EXPECT_EQ(static_cast<int>(texts.size()), MachineVocabularySize());
  EXPECT_FALSE(TokenFromId(-1).ok());
  EXPECT_FALSE(TokenFromId(MachineVocabularySize()).ok());
}

TEST(Instruction, EncodingRoundTrips) {
  const Instruction in{Op::kSetLtS, 15, 16, 63, 7, 18, true, 0xdeadbeef};
  EXPECT_EQ(DecodeInstruction(EncodeInstruction(in)), in);
  const ControlRow control{19, true, ControlKind::kBarrier, 31, 17, true, true};
  EXPECT_EQ(DecodeControl(EncodeControl(control)), control);
}

TEST(Instruction, EveryOpHasOneEntryAndItsCodeIsUnique) {
  std::set<int> codes;
  for (const OpInfo& info : AllOps()) EXPECT_TRUE(codes.insert(static_cast<int>(info.op)).second) << info.name;
  EXPECT_EQ(codes.size(), 39u);
}

Program OneBlock(const Instruction& in, int slot) {
  Program program;
  program.blocks.resize(1);
  program.blocks[0].slots[slot] = in;
  program.blocks[0].control.kind = ControlKind::kExit;
  return program;
}

TEST(Program, ValidationNamesBlockAndSlot) {
  const MachineGeometry geometry;
  EXPECT_TRUE(ValidateProgram(OneBlock({Op::kMad, 1, 1, 2, 3}, 0), geometry).ok());
  EXPECT_EQ(ValidateProgram(OneBlock({Op::kMad, 1, 1, 2, 3}, 1), geometry).message(),
            "block 0 slot 1 cannot execute mad");
  EXPECT_FALSE(ValidateProgram(OneBlock({Op::kAdd, 1, kSourcePrevious}, 0), geometry).ok());
  EXPECT_FALSE(ValidateProgram(OneBlock({Op::kAdd, 1, 1, 2, 0, 0, false, 5}, 0), geometry).ok());
  EXPECT_FALSE(ValidateProgram(OneBlock({Op::kSt, 0, 1}, 2), geometry).ok());
  EXPECT_FALSE(ValidateProgram(OneBlock({Op::kSelp, 1, 1, 2, 0, 17}, 1), geometry).ok());
  Program program = OneBlock({}, 0);
  program.blocks.resize(37, program.blocks[0]);
  EXPECT_EQ(ValidateProgram(program, geometry).message(), "needs 37 machine blocks, the ROM holds 32");
}

TEST(HostTokens, SendOnlyBytesThatChange) {
  MachineLaunch launch;
  launch.program = OneBlock({Op::kAdd, 1, 0, 0, 0, 0, false, 1}, 0);
  launch.memory = {0, 300};
  const std::vector<Token> tokens = HostTokens(launch);
  EXPECT_EQ(tokens.front(), Token::Reset());
  EXPECT_EQ(tokens[1].kind, TokenKind::kVal0);
  EXPECT_EQ(tokens[9], Token::Row(0, 0));
  EXPECT_EQ(tokens.back(), Token::Warp(7, 0));
  EXPECT_LT(tokens.size(), 45u);
}

}  // namespace
}  // namespace qgpu
