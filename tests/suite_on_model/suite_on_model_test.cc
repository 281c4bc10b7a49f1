// The claim of the project in one test: every launch of the suite, written by the circuit's weights token for token as
// the interpreter has it, in both data types, with the memory and registers read from the recurrent state.
#include <limits>
#include <map>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/expected.h"
#include "kernels/suite.h"
#include "lowering/compile.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "machine/interpreter/interpreter.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"
#include "model/weights/build_circuit.h"

namespace qgpu {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBFloat16};

std::shared_ptr<const Circuit> TheCircuit() {
  static const std::shared_ptr<const Circuit> circuit = [] {
    absl::StatusOr<BuiltCircuit> built = BuildCircuit(256);
    EXPECT_TRUE(built.ok()) << built.status();
    // Through the file, as every program gets it.
    absl::StatusOr<Circuit> read = ParseCircuit(SerializeCircuit(built->circuit));
    EXPECT_TRUE(read.ok()) << read.status();
    return std::make_shared<const Circuit>(*std::move(read));
  }();
  return circuit;
}

absl::StatusOr<LoweredKernel> Lower(const LaunchSpec& spec) {
  static PtxCache* cache = new PtxCache();
  return CompileKernel(spec, *cache);
}

TEST(SuiteOnModel, EveryKernelIsExact) {
  const absl::StatusOr<std::vector<KernelCase>> cases = EmbeddedCases();
  ASSERT_TRUE(cases.ok()) << cases.status();
  for (const DataType type : kTypes) {
    const std::unique_ptr<Executor> executor = MakeMarginWatchingExecutor(TheCircuit(), type);
    std::map<std::string, int> exact;
    float margin = std::numeric_limits<float>::infinity();
    const OnToken watch = [&](int32_t) {
      margin = std::min(margin, LastMargin(*executor));
      return true;
    };
    for (const KernelCase& kernel_case : *cases) {
      if (kernel_case.expect == KernelCase::Expect::kRefusal) continue;
      SCOPED_TRACE(fmt::format("{} {}", kernel_case.Id(), DataTypeName(type)));
      const absl::StatusOr<LoweredKernel> lowered = Lower(kernel_case.spec);
      ASSERT_TRUE(lowered.ok()) << lowered.status();
      const absl::StatusOr<ModelRun> run =
          RunLaunch(*executor, *TheCircuit(), HostTokens(lowered->launch), kernel_case.spec.token_budget, watch);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_TRUE(run->fault.ok()) << run->fault;
      EXPECT_EQ(run->end, kernel_case.expect == KernelCase::Expect::kTrap ? LaunchEnd::kTrap : LaunchEnd::kDone);
      const CheckReport check = CheckRun(lowered->launch, *run);
      EXPECT_TRUE(check.exact()) << FormatCheck(check);
      EXPECT_GT(check.positions_checked, 0);
      exact[kernel_case.kernel] += check.exact();
    }
    EXPECT_EQ(exact.size(), 59u);
    // A token that differs in one dimension is 32 behind.
    EXPECT_GT(margin, 31) << DataTypeName(type);
  }
}

Instruction I(Op op, int dst = 0, int a = 0, int b = 0, int c = 0, uint32_t imm = 0, int guard = 0,
              bool negate = false) {
  return {op, dst, a, b, c, guard, negate, imm};
}
constexpr int kTid = kSourceSpecial + kSpecialTidX;
constexpr ControlRow kExitRow = {0, false, ControlKind::kExit};

// Thread `thread` of ten accesses byte address `address`, the others word 1.
MachineLaunch OneBadAccess(Op op, uint32_t thread, uint32_t address) {
  MachineLaunch launch;
  const MachineBlock choose{{I(Op::kAdd, 0, 0, kTid), I(Op::kSetEq, 1, kSourcePrevious, 0, 0, thread),
                             I(Op::kAdd, 2, 0, 0, 0, address), I(Op::kAdd, 3, 0, 0, 0, 4)},
                            {0, false, ControlKind::kGoto, 1, 1}};
  const MachineBlock access{{Instruction{}, I(Op::kSelp, 0, 2, 3, 0, 0, 1), Instruction{},
                             I(op, op == Op::kLd ? 4 : 0, kSourceTwoBack, 0, op == Op::kLd ? 0 : 3)},
                            kExitRow};
  launch.program.blocks = {choose, access};
  launch.block = {5, 2, 1};
  launch.grid = {1, 2, 1};
  launch.memory = {0, 11, 12};
  return launch;
}

TEST(SuiteOnModel, TrapsNameThreadBlockAndAddress) {
  for (const DataType type : kTypes) {
    const std::unique_ptr<Executor> executor = MakeSparseExecutor(TheCircuit(), type);
    for (const auto& [op, thread, address] :
         {std::tuple{Op::kLd, 0u, 0u}, {Op::kLd, 3u, 4u * 126}, {Op::kSt, 2u, 6u}, {Op::kSt, 1u, 0xfffffffcu}}) {
      SCOPED_TRACE(fmt::format("thread {} address {} {}", thread, address, DataTypeName(type)));
      const MachineLaunch launch = OneBadAccess(op, thread, address);
      const ModelRun run = RunLaunch(*executor, *TheCircuit(), HostTokens(launch), 1000).value();
      ASSERT_TRUE(run.fault.ok()) << run.fault;
      ASSERT_EQ(run.end, LaunchEnd::kTrap);
      const CheckReport check = CheckRun(launch, run);
      EXPECT_TRUE(check.exact()) << FormatCheck(check);
      const absl::StatusOr<TrapReport> trap = ExplainTrap(launch, run);
      ASSERT_TRUE(trap.ok()) << trap.status();
      EXPECT_EQ(trap->address, address);
      EXPECT_EQ(trap->thread[0], thread);
      EXPECT_EQ(trap->block, 1);
      EXPECT_EQ(trap->kind, address % 4 != 0 ? TrapKind::kMisaligned : TrapKind::kOutOfRange);
    }
  }
}

// The RESET token alone, without Executor::Reset, must make a launch forget the one before.
TEST(SuiteOnModel, ResetTokenForgetsTheLaunchBefore) {
  const MachineLaunch first = OneBadAccess(Op::kSt, 99, 4), second = OneBadAccess(Op::kLd, 99, 4);
  const auto whole = [](const MachineLaunch& launch) {
    std::vector<int32_t> ids;
    for (const Token token : HostTokens(launch)) ids.push_back(TokenToId(token));
    for (const Token token : Interpret(launch, 1000).tokens) ids.push_back(TokenToId(token));
    return ids;
  };
  for (const DataType type : kTypes) {
    const std::unique_ptr<Executor> executor = MakeSparseExecutor(TheCircuit(), type);
    const std::vector<int32_t> fresh = executor->Feed(whole(second)).value();
    executor->Reset();
    ASSERT_TRUE(executor->Feed(whole(first)).ok());
    EXPECT_EQ(executor->Feed(whole(second)).value(), fresh);
    const size_t prompt = HostTokens(second).size();
    const std::vector<Token> trace = Interpret(second, 1000).tokens;
    for (size_t i = 0; i < trace.size(); ++i) EXPECT_EQ(fresh[prompt - 1 + i], TokenToId(trace[i])) << i;
    EXPECT_EQ(CheckTeacherForced(*executor, HostTokens(second), trace)->mismatches, 0);
  }
}

TEST(SuiteOnModel, EndlessLoopsEndAtTheBudget) {
  MachineLaunch launch;
  launch.program.blocks = {MachineBlock{{}, {0, false, ControlKind::kGoto, 0, 0}}};
  launch.memory = {0};
  const std::unique_ptr<Executor> executor = MakeSparseExecutor(TheCircuit(), DataType::kFloat32);
  const ModelRun run = RunLaunch(*executor, *TheCircuit(), HostTokens(launch), 100).value();
  EXPECT_EQ(run.end, LaunchEnd::kBudget);
  EXPECT_EQ(run.tokens.size(), 100u);
  EXPECT_TRUE(CheckRun(launch, run).exact());
}

}  // namespace
}  // namespace qgpu
