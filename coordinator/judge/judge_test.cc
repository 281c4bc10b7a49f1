#include "coordinator/judge/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

// Four lanes store 5 + 3 * tid to words 1 to 4; word 5 is never touched.
MachineLaunch StoreLaunch() {
  MachineLaunch launch;
  const auto tid = kSourceSpecial + kSpecialTidX;
  const Instruction three{Op::kAdd, 1, 0, 0, 0, 0, false, 3};
  const Instruction offset{Op::kAdd, 2, 0, tid};
  launch.program.blocks = {
      {{three, offset}, {0, false, ControlKind::kGoto, 1, 1}},
      {{Instruction{Op::kMad, 3, 2, kSourceSpecial + kSpecialFirstParameter, 0},
        Instruction{Op::kAdd, 0, kSourcePrevious, 0, 0, 0, false, 5}, Instruction{Op::kMad, 0, 2, 0, 0, 0, false, 4},
        Instruction{Op::kSt, 0, kSourcePrevious, kSourceSpecial + kSpecialFirstParameter + 1, kSourceTwoBack}},
       {0, false, ControlKind::kExit}}};
  launch.block = {4, 1, 1};
  launch.parameters = {3, 4};
  launch.memory = {0, 0, 0, 0, 0, 77};
  return launch;
}

// A case in which every party agrees; tests then change one thing.
struct Honest {
  JudgeInput input;
  std::vector<int32_t> model_tokens, oracle_tokens;

  explicit Honest(MachineLaunch launch = StoreLaunch(), int64_t budget = 1000) {
    input.launch = std::move(launch);
    input.token_budget = budget;
    input.reference = Interpret(input.launch, budget);
    input.arena_words = 6;
    input.source_name = "k.cu";
    model_tokens = oracle_tokens = TokenIds(input.reference.tokens);
    input.model.state = input.reference.state;
    const auto& memory = input.reference.state.memory;
    input.native = NativeEvidence{MemoryImage(memory.begin(), memory.begin() + 6), "native-cpu", "native-cpu (test)"};
  }
  Verdict Judged() {
    input.model.tokens = model_tokens;
    input.interpreter = InterpreterEvidence{oracle_tokens, oracle_state.value_or(input.reference.state)};
    return Judge(input);
  }
  std::optional<MachineState> oracle_state;
};

TEST(JudgeTest, PassesWhenAllAgree) {
  Honest honest;
  ASSERT_EQ(honest.input.reference.end, LaunchEnd::kDone);
  ASSERT_EQ(honest.input.reference.state.memory[4], 14u);
  const Verdict verdict = honest.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kPass) << verdict.message;
  EXPECT_EQ(verdict.message, "");
  EXPECT_EQ(verdict.launch.end, "done");
  EXPECT_EQ(verdict.launch.passes, 2);
  EXPECT_EQ(verdict.launch.tokens, std::ssize(honest.model_tokens));
  EXPECT_EQ(verdict.launch.positions_checked, std::ssize(honest.model_tokens));
  EXPECT_EQ(verdict.launch.mismatches, 0);
  EXPECT_EQ(verdict.launch.odd_one_out, "");
  EXPECT_EQ(verdict.launch.native_witness, "native-cpu (test)");
}

TEST(JudgeTest, EveryWrongTokenIsNamedWithItsPosition) {
  const Honest honest;
  for (size_t position = 0; position < honest.model_tokens.size(); ++position) {
    Honest wrong;
    const int32_t expected = wrong.model_tokens[position];
    wrong.model_tokens[position] = TokenToId(Token::SwitchWarp(5));
    ASSERT_NE(expected, wrong.model_tokens[position]);
    const Verdict verdict = wrong.Judged();
    EXPECT_EQ(verdict.status, CaseStatus::kFail);
    ASSERT_TRUE(verdict.launch.token_difference.has_value());
    EXPECT_EQ(verdict.launch.token_difference->position, static_cast<int64_t>(position));
    EXPECT_EQ(verdict.launch.token_difference->expected, FormatToken(*TokenFromId(expected)));
    EXPECT_EQ(verdict.launch.token_difference->got, FormatToken(Token::SwitchWarp(5)));
    EXPECT_EQ(verdict.launch.mismatches, 1);
    EXPECT_EQ(verdict.launch.odd_one_out, "model");
    EXPECT_THAT(verdict.message, HasSubstr(fmt::format("position {}: ", position)));
  }
}

TEST(JudgeTest, ATextTokenIsAWrongToken) {
  Honest wrong;
  wrong.model_tokens[1] = -1 - 17;
  EXPECT_THAT(wrong.Judged().message, HasSubstr("the model wrote text token 17"));
}

TEST(JudgeTest, TruncatedAndOverlongTracesFail) {
  Honest truncated;
  truncated.model_tokens.pop_back();
  Verdict verdict = truncated.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kFail);
  EXPECT_EQ(verdict.launch.token_difference->got, "end of trace");
  EXPECT_EQ(verdict.launch.token_difference->expected, "DONE");
  EXPECT_THAT(verdict.message, HasSubstr("the model's launch ended with budget, the reference with done"));

  Honest overlong;
  overlong.model_tokens.push_back(overlong.model_tokens.back());
  verdict = overlong.Judged();
  EXPECT_EQ(verdict.launch.mismatches, 1);
  EXPECT_EQ(verdict.launch.token_difference->expected, "end of trace");

  Honest empty;
  empty.model_tokens.clear();
  EXPECT_EQ(empty.Judged().launch.mismatches, std::ssize(overlong.model_tokens) - 1);
}

TEST(JudgeTest, AnEchoedAnswerWithoutTheWorkFails) {
  Honest echo;  // the right memory, a trace that only says DONE
  echo.model_tokens = {TokenToId(Token::Done())};
  const Verdict verdict = echo.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kFail);
  EXPECT_EQ(verdict.launch.token_difference->position, 0);
  EXPECT_GT(verdict.launch.mismatches, 1);
}

TEST(JudgeTest, OneFlippedMemoryBitNamesTheOddOneOut) {
  for (size_t word = 0; word < 126; ++word) {
    Honest wrong;
    wrong.input.model.state->memory[word] ^= 1u << (word % 32);
    const Verdict verdict = wrong.Judged();
    EXPECT_EQ(verdict.status, CaseStatus::kFail) << word;
    ASSERT_TRUE(verdict.launch.word_difference.has_value()) << word;
    EXPECT_EQ(verdict.launch.word_difference->word, static_cast<int64_t>(word));
    EXPECT_EQ(verdict.launch.odd_one_out, "model");
    EXPECT_EQ(verdict.launch.word_difference->native.has_value(), word < 6);
  }
  Honest native;
  native.input.native->memory[3] = 1234;
  Verdict verdict = native.Judged();
  EXPECT_EQ(verdict.launch.odd_one_out, "native-cpu");
  EXPECT_EQ(verdict.launch.word_difference->word, 3);
  EXPECT_EQ(verdict.launch.word_difference->native, 1234u);
  EXPECT_EQ(verdict.launch.word_difference->model, 11u);
  EXPECT_EQ(verdict.launch.mismatches, 0);

  Honest interpreter;  // model and native agree, the reference is alone
  interpreter.input.model.state->memory[2] = 99;
  interpreter.input.native->memory[2] = 99;
  EXPECT_EQ(interpreter.Judged().launch.odd_one_out, "interpreter");

  Honest nobody;
  nobody.input.model.state->memory[2] = 99;
  nobody.input.native->memory[2] = 98;
  EXPECT_EQ(nobody.Judged().launch.odd_one_out, "all three");
}

TEST(JudgeTest, TheWritingPositionOfADifferingWordIsFound) {
  for (size_t word = 1; word <= 4; ++word) {
    Honest wrong;
    wrong.input.native->memory[word] = 1234;
    const int64_t position = wrong.Judged().launch.word_difference->trace_position;
    ASSERT_GE(position, 0);
    EXPECT_EQ(Interpret(wrong.input.launch, position).state.memory[word], 0u);
    EXPECT_EQ(Interpret(wrong.input.launch, position + 1).state.memory[word], 5 + 3 * (word - 1));
  }
  Honest untouched;
  untouched.input.native->memory[5] = 78;
  EXPECT_EQ(untouched.Judged().launch.word_difference->trace_position, -1);
  EXPECT_THAT(untouched.Judged().message, HasSubstr("no pass of the reference trace changed it"));
}

TEST(JudgeTest, RegistersAreComparedUnderReplay) {
  Honest wrong;
  wrong.input.model.state->registers[0][3][1] ^= 4;
  Verdict verdict = wrong.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kFail);
  EXPECT_EQ(verdict.launch.word_difference->place, "warp 0 lane 3 r1");
  wrong.input.replay = false;
  verdict = wrong.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kPass) << verdict.message;
  EXPECT_EQ(verdict.launch.positions_checked, 0);
}

TEST(JudgeTest, ALaunchWithoutFinalMemoryFails) {
  Honest stopped;
  stopped.input.model.state.reset();
  const Verdict verdict = stopped.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kFail);
  EXPECT_EQ(verdict.launch.mismatches, 0);
  EXPECT_THAT(verdict.message, HasSubstr("memory was not read"));
}

TEST(JudgeTest, AStateThatCannotBeReadFails) {
  Honest unreadable;
  unreadable.input.model.fault = "memory word 3 bit 7 is neither 0 nor 1";
  const Verdict verdict = unreadable.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kFail);
  EXPECT_EQ(verdict.launch.odd_one_out, "model");
  EXPECT_THAT(verdict.message, HasSubstr("bit 7"));
}

TEST(JudgeTest, ANativeEngineThatTrapsWhereOthersFinishIsNamed) {
  Honest native;
  native.input.native.reset();
  native.input.native_failure = "address out of range: k.cu.ptx:12";
  const Verdict verdict = native.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kFail);
  EXPECT_EQ(verdict.launch.odd_one_out, "native engine");
  EXPECT_THAT(verdict.message, HasSubstr("k.cu.ptx:12"));
}

TEST(JudgeTest, WrongSizesFail) {
  Honest model;
  model.input.model.state->memory.pop_back();
  EXPECT_EQ(model.Judged().status, CaseStatus::kFail);
  Honest native;
  native.input.native->memory.pop_back();
  EXPECT_EQ(native.Judged().launch.odd_one_out, "native-cpu");
}

TEST(JudgeTest, AnOracleThatInterpretsDifferentlyIsNamed) {
  Honest tokens;
  tokens.oracle_tokens.back() = 0;
  EXPECT_EQ(tokens.Judged().launch.odd_one_out, "oracle's interpreter");
  Honest state;
  state.oracle_state = state.input.reference.state;
  state.oracle_state->memory[1] = 0;
  EXPECT_EQ(state.Judged().launch.odd_one_out, "oracle's interpreter");
}

TEST(JudgeTest, AnExhaustedBudgetIsAWrongAnswerEvenIfAllAgree) {
  Honest endless(StoreLaunch(), 3);
  ASSERT_EQ(endless.input.reference.end, LaunchEnd::kBudget);
  endless.input.native.reset();
  const Verdict verdict = endless.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kFail);
  EXPECT_EQ(verdict.launch.end, "budget");
  EXPECT_THAT(verdict.message, HasSubstr("token budget of 3"));
}

MachineLaunch TrapLaunch() {
  MachineLaunch launch = StoreLaunch();
  launch.parameters[1] = 4 * 126;
  launch.program.origins.resize(2);
  launch.program.origins[1][3] = {20, 7, "st.global.u32 [%rd1], %r1;"};
  return launch;
}

TEST(JudgeTest, AnUnexpectedTrapFailsAndNamesTheLine) {
  Honest trap(TrapLaunch());
  ASSERT_EQ(trap.input.reference.end, LaunchEnd::kTrap);
  trap.input.native.reset();
  const Verdict verdict = trap.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kFail);
  EXPECT_THAT(verdict.message,
              HasSubstr("the kernel trapped: address out of range: byte address 504 (0x1f8), by thread (0, 0, 0)"));
  EXPECT_THAT(verdict.message, HasSubstr("k.cu:7 (st.global.u32 [%rd1], %r1;)"));
}

TEST(JudgeTest, AnExpectedTrapPassesOnlyWithTheExpectedText) {
  Honest trap(TrapLaunch());
  trap.input.native.reset();
  trap.input.expects_trap = true;
  trap.input.expect_text = "out of range";
  Verdict verdict = trap.Judged();
  EXPECT_EQ(verdict.status, CaseStatus::kPass) << verdict.message;
  EXPECT_EQ(verdict.launch.end, "trap");
  trap.input.expect_text = "misaligned";
  EXPECT_EQ(trap.Judged().status, CaseStatus::kFail);

  Honest done;
  done.input.expects_trap = true;
  EXPECT_THAT(done.Judged().message, HasSubstr("the case expects a trap"));
}

}  // namespace
}  // namespace qgpu
