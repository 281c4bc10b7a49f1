// RunLaunch, CheckRun and ExplainTrap with a puppet for a model: it writes the tokens it is told and holds the state it
// is told. What a real circuit writes is tested where the circuit is built.
#include "model/launch/launch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

constexpr int P(int parameter) { return kSourceSpecial + kSpecialFirstParameter + parameter; }
constexpr int kTid = kSourceSpecial + kSpecialTidX, kCta = kSourceSpecial + kSpecialCtaX, kPrev = kSourcePrevious;

Instruction I(Op op, int dst = 0, int a = 0, int b = 0, int c = 0, uint32_t imm = 0, int guard = 0,
              bool negate = false) {
  return {op, dst, a, b, c, guard, negate, imm};
}
constexpr ControlRow kExitRow = {0, false, ControlKind::kExit};
constexpr ControlRow Next(int block) { return {0, false, ControlKind::kGoto, block, block}; }

class Puppet : public Executor {
 public:
  void Reset() override { fed.clear(); }
  absl::StatusOr<std::vector<int32_t>> Feed(std::span<const int32_t> ids) override {
    if (!error.ok()) return error;
    std::vector<int32_t> next;
    for (const int32_t id : ids) {
      fed.push_back(id);
      const size_t at = fed.size() - prompt;  // wraps around within the prompt
      next.push_back(fed.size() >= prompt && at < script.size() ? script[at] : 0);
    }
    return next;
  }
  absl::StatusOr<std::vector<float>> ReadState(int layer, int head) override {
    std::vector<float>& state = states[{layer, head}];
    state.resize(kHeadDim * kHeadDim);
    return state;
  }
  std::string Description() const override { return "puppet"; }

  size_t prompt = 0;
  std::vector<int32_t> script, fed;
  std::map<std::pair<int, int>, std::vector<float>> states;
  absl::Status error;
};

std::vector<int32_t> Dims(int first, int count) {
  std::vector<int32_t> dims(count);
  for (int i = 0; i < count; ++i) dims[i] = first + i;
  return dims;
}

Circuit CellsOnly() {
  Circuit circuit;
  circuit.embedding.rows = MachineVocabularySize();
  circuit.layers.resize(3);
  circuit.cells["memory"] = {0, 0, 0, 126, Dims(0, 32)};
  for (int lane = 0; lane < kLanes; ++lane) {
    circuit.cells[fmt::format("register.{}", lane)] = {1, lane, 0, kHeadDim, Dims(8, 32)};
  }
  circuit.cells["warp"] = {2, 0, 0, 1, Dims(0, 3)};
  circuit.cells["exec"] = {2, 0, 5, 1, Dims(10, 10)};
  circuit.cells["cta.x"] = {2, 1, 100, 1, Dims(1, 8)};
  circuit.cells["cta.y"] = {2, 1, 101, 1, Dims(1, 8)};
  circuit.cells["cta.z"] = {2, 1, 102, 1, Dims(1, 6)};
  return circuit;
}

void Put(Puppet& puppet, const CellBank& bank, int row, uint32_t word) {
  std::vector<float>& state = puppet.states[{bank.layer, bank.head}];
  state.resize(kHeadDim * kHeadDim);
  for (size_t bit = 0; bit < bank.dims.size(); ++bit) {
    float* rail = &state[(bank.first_row + row) * kHeadDim + bank.dims[bit]];
    rail[0] = word >> bit & 1 ? 127.5f : 0.25f;
    rail[64] = word >> bit & 1 ? -0.25f : 128.5f;
  }
}

// A puppet that does what the interpreter says, up to `budget` tokens.
struct Stage {
  explicit Stage(const MachineLaunch& launch, int64_t budget = 1000)
      : host(HostTokens(launch)), circuit(CellsOnly()), expected(Interpret(launch, budget)) {
    puppet.prompt = host.size();
    for (const Token token : expected.tokens) puppet.script.push_back(TokenToId(token));
    for (int word = 0; word < 126; ++word) {
      if (expected.state.memory[word] != 0) Put(puppet, circuit.cells["memory"], word, expected.state.memory[word]);
    }
    PassContext context;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int row = 0; row < kHeadDim; ++row) {
        const uint32_t value = expected.state.registers[row / 16][lane][row % 16];
        if (value != 0) Put(puppet, circuit.cells[fmt::format("register.{}", lane)], row, value);
      }
    }
    for (const Token token : expected.tokens) {
      if (token.kind == TokenKind::kSwitchWarp) context.warp = token.warp();
      if (token.kind == TokenKind::kExec) context.block = token.block(), context.mask = token.mask();
      if (token.kind == TokenKind::kCtaX) context.cta[0] = token.low();
    }
    Put(puppet, circuit.cells["warp"], 0, context.warp);
    Put(puppet, circuit.cells["exec"], 0, context.block | context.mask << 5 | 1 << 9);
    for (int axis = 0; axis < 3; ++axis) {
      Put(puppet, circuit.cells[fmt::format("cta.{}", "xyz"[axis])], 0, context.cta[axis]);
    }
  }

  std::vector<Token> host;
  Circuit circuit;
  MachineRun expected;
  Puppet puppet;
};

// Every thread stores 11 * its number; two thread blocks of six.
MachineLaunch Elevens() {
  MachineLaunch launch;
  launch.program.blocks = {
      {{I(Op::kAdd, 1, 0, kTid), I(Op::kAdd, 0, 0, kCta), I(Op::kMad, 2, kPrev, 0, kSourceTwoBack, 6)}, Next(1)},
      {{I(Op::kMad, 3, 2, 0, 0, 11), {}, I(Op::kMad, 0, 2, 0, 0, 4), I(Op::kSt, 0, kPrev, P(0), kSourceThreeBack)},
       kExitRow}};
  launch.block = {6, 1, 1};
  launch.grid = {2, 1, 1};
  launch.parameters = {4};
  launch.memory = {0};
  return launch;
}

TEST(RunLaunch, FeedsTheHostsTokensThenItsOwnAndReadsTheState) {
  const MachineLaunch launch = Elevens();
  Stage stage(launch);
  std::vector<int32_t> seen;
  const absl::StatusOr<ModelRun> run = RunLaunch(stage.puppet, stage.circuit, stage.host, 1000, [&seen](int32_t id) {
    seen.push_back(id);
    return true;
  });
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->fault.message(), "");
  EXPECT_EQ(run->end, LaunchEnd::kDone);
  EXPECT_EQ(run->tokens, stage.expected.tokens);
  EXPECT_EQ(run->ids, stage.puppet.script);
  EXPECT_EQ(seen, stage.puppet.script);
  EXPECT_EQ(run->passes, stage.expected.passes);
  EXPECT_TRUE(run->state == stage.expected.state);
  EXPECT_EQ(run->state.memory[8], 77u);
  EXPECT_EQ(run->context.cta[0], 1u);
  // Everything was fed but the DONE.
  EXPECT_EQ(stage.puppet.fed.size(), stage.host.size() + stage.expected.tokens.size() - 1);
  const CheckReport check = CheckRun(launch, *run);
  EXPECT_TRUE(check.exact()) << FormatCheck(check);
  EXPECT_EQ(check.positions_checked, static_cast<int64_t>(stage.expected.tokens.size()));
}

TEST(RunLaunch, StopsAtTheBudget) {
  const MachineLaunch launch = Elevens();
  Stage stage(launch);
  for (const int64_t budget : {1, 7}) {
    const ModelRun run = RunLaunch(stage.puppet, stage.circuit, stage.host, budget).value();
    EXPECT_EQ(run.end, LaunchEnd::kBudget);
    EXPECT_EQ(static_cast<int64_t>(run.tokens.size()), budget);
    const CheckReport check = CheckRun(launch, run);
    EXPECT_TRUE(check.exact()) << FormatCheck(check);
    EXPECT_EQ(check.positions_checked, budget);
  }
}

TEST(RunLaunch, IdsThatAreNotTheModelsToWriteEndTheLaunch) {
  const MachineLaunch launch = Elevens();
  for (const auto& [id, name] : {std::pair{TokenToId(Token::Reset()), "RESET"}, {-1 - 17, "text id 17"}}) {
    Stage stage(launch);
    stage.puppet.script[4] = id;
    const ModelRun run = RunLaunch(stage.puppet, stage.circuit, stage.host, 1000).value();
    EXPECT_TRUE(absl::IsDataLoss(run.fault));
    EXPECT_THAT(std::string(run.fault.message()), HasSubstr(fmt::format("position 4: the model wrote {}", name)));
    EXPECT_EQ(run.tokens.size(), 4u);
    const CheckReport check = CheckRun(launch, run);
    ASSERT_TRUE(check.first.has_value());
    EXPECT_EQ(check.first->position, 4);
    EXPECT_EQ(check.first->expected, FormatToken(stage.expected.tokens[4]));
    EXPECT_EQ(check.first->got, name);
  }
}

TEST(RunLaunch, ErrorsOfCallerAndExecutor) {
  Stage stage(Elevens());
  EXPECT_EQ(RunLaunch(stage.puppet, stage.circuit, {}, 10).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunLaunch(stage.puppet, stage.circuit, stage.host, 0).status().code(), absl::StatusCode::kInvalidArgument);
  const auto stop = [](int32_t) { return false; };
  EXPECT_TRUE(absl::IsCancelled(RunLaunch(stage.puppet, stage.circuit, stage.host, 10, stop).status()));
  Circuit other = stage.circuit;
  other.cells.erase("cta.y");
  EXPECT_TRUE(absl::IsFailedPrecondition(RunLaunch(stage.puppet, other, stage.host, 10).status()));
  other = stage.circuit;
  other.cells["memory"].rows = 125;
  EXPECT_TRUE(absl::IsFailedPrecondition(RunLaunch(stage.puppet, other, stage.host, 10).status()));
  other = stage.circuit;
  other.embedding.rows = 5;
  EXPECT_TRUE(absl::IsFailedPrecondition(RunLaunch(stage.puppet, other, stage.host, 10).status()));
  stage.puppet.error = absl::InternalError("out of memory");
  EXPECT_EQ(RunLaunch(stage.puppet, stage.circuit, stage.host, 10).status(), stage.puppet.error);
}

TEST(RunLaunch, GoesOnAfterWhatWasFedBeforeWhereItMayNotReset) {
  Stage stage(Elevens());
  ASSERT_TRUE(stage.puppet.Feed(std::vector<int32_t>{7, 8, 9}).ok());
  stage.puppet.prompt += 3;
  const auto run = RunLaunchWithoutReset(stage.puppet, stage.circuit, stage.host, 1000);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->tokens, stage.expected.tokens);
  EXPECT_TRUE(run->state == stage.expected.state);
  std::vector<int32_t> fed = {7, 8, 9};
  for (const Token token : stage.host) fed.push_back(TokenToId(token));
  fed.insert(fed.end(), run->ids.begin(), run->ids.end() - 1);
  EXPECT_EQ(stage.puppet.fed, fed);
  const std::vector<Token> without(stage.host.begin() + 1, stage.host.end());
  const absl::Status refused = RunLaunchWithoutReset(stage.puppet, stage.circuit, without, 1000).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("has to begin with RESET"));
  EXPECT_EQ(stage.puppet.fed, fed) << "nothing is fed";
  EXPECT_TRUE(absl::IsInvalidArgument(RunLaunchWithoutReset(stage.puppet, stage.circuit, {}, 10).status()));
}

TEST(ReadCells, UnclearBitsAreErrorsThatNameTheCell) {
  const auto fault = [](int dim, float on, float off) {
    Stage stage(Elevens());
    std::vector<float>& memory = stage.puppet.states[{0, 0}];
    memory[2 * kHeadDim + dim] = on;
    memory[2 * kHeadDim + dim + 64] = off;
    return std::string(RunLaunch(stage.puppet, stage.circuit, stage.host, 1000).value().fault.message());
  };
  EXPECT_EQ(fault(3, 128, 0), "");
  EXPECT_EQ(fault(3, 64, 64), "cell \"memory\" row 2: bit 3 has its rails at 64 and 64");
  EXPECT_THAT(fault(3, 0, 0), HasSubstr("row 2: bit 3"));  // the others are written
  EXPECT_THAT(fault(3, 128, 128), HasSubstr("row 2: bit 3"));
  EXPECT_THAT(fault(3, 100, 0), HasSubstr("row 2: bit 3"));
  EXPECT_THAT(fault(3, 128, -20), HasSubstr("row 2: bit 3"));
  EXPECT_THAT(fault(3, NAN, 0), HasSubstr("row 2: bit"));
  EXPECT_THAT(fault(3, INFINITY, 0), HasSubstr("row 2: bit"));
}

TEST(ReadCells, RowsWithNeitherRailAreUnwrittenAndFaintOnesAreErrors) {
  Stage stage(Elevens());
  std::vector<float>& memory = stage.puppet.states[{0, 0}];
  memory[50 * kHeadDim + 3] = 0.005f;
  EXPECT_EQ(RunLaunch(stage.puppet, stage.circuit, stage.host, 1000).value().state.memory[50], 0u);
  memory[50 * kHeadDim + 3] = 0.1f;
  EXPECT_THAT(std::string(RunLaunch(stage.puppet, stage.circuit, stage.host, 1000).value().fault.message()),
              HasSubstr("row 50"));
}

TEST(CheckRun, ReportsTokensMemoryAndRegistersThatDiffer) {
  const MachineLaunch launch = Elevens();
  Stage stage(launch);
  const ModelRun good = RunLaunch(stage.puppet, stage.circuit, stage.host, 1000).value();

  ModelRun run = good;
  run.ids[6] = TokenToId(Token::Val0(0, 0, 99));
  run.ids[9] = TokenToId(Token::Mem(3));
  CheckReport check = CheckRun(launch, run);
  EXPECT_EQ(check.mismatches, 2);
  EXPECT_EQ(check.first->position, 6);
  EXPECT_EQ(check.first->got, FormatToken(Token::Val0(0, 0, 99)));
  EXPECT_THAT(FormatCheck(check), HasSubstr("2 mismatches; first at position 6: expected"));

  run = good;
  run.state.memory[3] ^= 8;
  run.state.registers[1][1][3] += 1;
  check = CheckRun(launch, run);
  EXPECT_EQ(check.mismatches, 0);
  EXPECT_FALSE(check.exact());
  ASSERT_EQ(check.words.size(), 2u);
  EXPECT_EQ(check.words[0].where, "memory word 3");
  EXPECT_EQ(check.words[0].expected, good.state.memory[3]);
  EXPECT_EQ(check.words[0].got, good.state.memory[3] ^ 8);
  EXPECT_EQ(check.words[1].where, "register 3 of warp 1 lane 1");
}

TEST(CheckRun, EndingEarlyOrLateIsAMismatch) {
  const MachineLaunch launch = Elevens();
  Stage early(launch), late(launch);
  early.puppet.script.resize(8);
  early.puppet.script[7] = TokenToId(Token::Done());
  CheckReport check = CheckRun(launch, RunLaunch(early.puppet, early.circuit, early.host, 1000).value());
  EXPECT_EQ(check.first->position, 7);
  EXPECT_EQ(check.first->got, FormatToken(Token::Done()));

  const size_t end = late.puppet.script.size() - 1;
  late.puppet.script[end] = TokenToId(Token::Val1(1));
  late.puppet.script.push_back(TokenToId(Token::Done()));
  check = CheckRun(launch, RunLaunch(late.puppet, late.circuit, late.host, 1000).value());
  EXPECT_EQ(check.mismatches, 2);
  EXPECT_EQ(check.positions_checked, static_cast<int64_t>(end) + 2);
  EXPECT_EQ(check.first->expected, FormatToken(Token::Done()));
}

// Traps whose address takes a register, a special word, a load, a predicate, a shuffle and a ballot of the same pass.
TEST(ExplainTrap, FindsAddressAndThreadFromTheState) {
  const Instruction trapping[] = {
      I(Op::kLd, 4, kPrev, 0, 0, 2),     // misaligned
      I(Op::kSt, 0, kPrev, P(0), 1),     // far away
      I(Op::kSt, 0, 1, kPrev, 1, 0, 1),  // guarded by predicate 1
      I(Op::kLd, 0, kPrev, 0, 0, 0x7ffffff0u, 17, true),
  };
  const Instruction before[] = {
      I(Op::kAdd, 0, 2, kTid),
      I(Op::kLd, 0, 3, 0),
      I(Op::kSelp, 0, 2, 3, 0, 0, 1),
      I(Op::kShflDown, 0, 2, 0, 0, 1),
      I(Op::kBallot, 0, 0, 0, 0, 0, 1, true),
      I(Op::kSetLtS, 0, 1, 0, 0, 3),
  };
  int traps = 0;
  for (const Instruction& first : before) {
    for (const Instruction& last : trapping) {
      MachineLaunch launch;
      MachineBlock prepare{{I(Op::kAdd, 1, 0, kTid), I(Op::kSetGeS, 1, kPrev, 0, 0, 5), I(Op::kMad, 2, 1, 0, 0, 1000),
                            I(Op::kAdd, 3, 0, 0, 0, 8)},
                           Next(1)};
      launch.program.blocks = {prepare, MachineBlock{{Instruction{}, first, Instruction{}, last}, kExitRow}};
      launch.program.blocks[1].slots[3].a = last.a == kPrev ? kSourceTwoBack : last.a;
      launch.program.blocks[1].slots[3].b = last.b == kPrev ? kSourceTwoBack : last.b;
      launch.program.blocks[1].control.serial = traps % 2;
      launch.block = {3, 2, 1};
      launch.parameters = {0x40000000};
      launch.memory = {0, 5, 12345};
      Stage stage(launch);
      if (stage.expected.end != LaunchEnd::kTrap) continue;
      ++traps;
      const ModelRun run = RunLaunch(stage.puppet, stage.circuit, stage.host, 1000).value();
      ASSERT_EQ(run.end, LaunchEnd::kTrap);
      const absl::StatusOr<TrapReport> trap = ExplainTrap(launch, run);
      ASSERT_TRUE(trap.ok()) << trap.status();
      EXPECT_EQ(trap->kind, stage.expected.trap->kind);
      EXPECT_EQ(trap->slot, stage.expected.trap->slot);
      EXPECT_EQ(trap->lane, stage.expected.trap->lane);
      EXPECT_EQ(trap->warp, stage.expected.trap->warp);
      EXPECT_EQ(trap->block, stage.expected.trap->block);
      EXPECT_EQ(trap->thread, stage.expected.trap->thread);
      EXPECT_EQ(trap->address, stage.expected.trap->address)
          << FormatInstruction(first) << "; " << FormatInstruction(last);
      const CheckReport check = CheckRun(launch, run);
      EXPECT_TRUE(check.exact()) << FormatCheck(check);
    }
  }
  EXPECT_GT(traps, 15);
}

TEST(ExplainTrap, ContradictionsAreDataLoss) {
  MachineLaunch launch;
  launch.program.blocks = {{{I(Op::kAdd, 1, 0, 0, 0, 7), I(Op::kLd, 2, 0, 0, 0, 6)}, kExitRow}};
  launch.memory = {0};
  Stage stage(launch);
  const ModelRun good = RunLaunch(stage.puppet, stage.circuit, stage.host, 1000).value();
  EXPECT_EQ(ExplainTrap(launch, good)->address, 6u);
  ModelRun run = good;
  run.context.block = 9;
  EXPECT_TRUE(absl::IsDataLoss(ExplainTrap(launch, run).status()));
  run = good;
  run.tokens.back() = Token::Trap(TrapKind::kMisaligned, 0, 0);
  EXPECT_TRUE(absl::IsDataLoss(ExplainTrap(launch, run).status()));
  run = good;
  run.end = LaunchEnd::kDone;
  EXPECT_EQ(ExplainTrap(launch, run).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TeacherForced, ComparesEveryPositionOfATrace) {
  Stage stage(Elevens());
  CheckReport check = CheckTeacherForced(stage.puppet, stage.host, stage.expected.tokens).value();
  EXPECT_EQ(check.positions_checked, static_cast<int64_t>(stage.expected.tokens.size()));
  EXPECT_EQ(check.mismatches, 0);
  stage.puppet.script[3] = 0;
  check = CheckTeacherForced(stage.puppet, stage.host, stage.expected.tokens).value();
  EXPECT_EQ(check.mismatches, 1);
  EXPECT_EQ(check.first->position, 3);
  EXPECT_EQ(check.first->got, FormatId(0));
  EXPECT_EQ(TeacherForced(stage.puppet, stage.host)->size(), stage.host.size());
}

}  // namespace
}  // namespace qgpu
