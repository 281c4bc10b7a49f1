// The weights against the interpreter: random programs on the sparse executor, every token, memory and registers.
#include "model/weights/build_circuit.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "machine/interpreter/interpreter.h"
#include "machine/interpreter/random_launch.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"

namespace qgpu {
namespace {

constexpr int kBaseHidden = 256;

const BuiltCircuit& TheCircuit() {
  static const BuiltCircuit* built = [] {
    absl::StatusOr<BuiltCircuit> result = BuildCircuit(kBaseHidden);
    if (!result.ok()) {
      ADD_FAILURE() << result.status();
      std::abort();
    }
    return new BuiltCircuit(*std::move(result));
  }();
  return *built;
}

void RunRandomPrograms(DataType type, int first_seed, int count) {
  const auto circuit = std::make_shared<const Circuit>(TheCircuit().circuit);
  const std::unique_ptr<Executor> executor = MakeSparseExecutor(circuit, type);
  int64_t positions = 0;
  for (int seed = first_seed; seed < first_seed + count; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const MachineLaunch launch = RandomLaunch(seed);
    absl::StatusOr<ModelRun> run = RunLaunch(*executor, *circuit, HostTokens(launch), 200);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(run->fault.ok()) << run->fault;
    const CheckReport report = CheckRun(launch, *run);
    ASSERT_TRUE(report.exact()) << FormatCheck(report);
    positions += report.positions_checked;
  }
  EXPECT_GT(positions, 20 * count);
}

TEST(BuildCircuit, StaysWithinTheContract) {
  const CircuitReport& report = TheCircuit().report;
  EXPECT_LE(report.layers.size(), 30u);
  EXPECT_LE(report.dimensions, 1280);
  EXPECT_LE(report.machine_ids, 16384);
  for (const LayerFigures& layer : report.layers) {
    EXPECT_LE(layer.neurons, 6144);
    EXPECT_LE(layer.heads, 16);
  }
  EXPECT_GE(report.worst_margin, 60);
}

TEST(BuildCircuit, RunsRandomProgramsInFloat32) { RunRandomPrograms(DataType::kFloat32, 1, 60); }
TEST(BuildCircuit, RunsRandomProgramsInBFloat16) { RunRandomPrograms(DataType::kBFloat16, 1001, 60); }

// out[i] = op(a[i], b[i]) for 32 threads, with `slot` executing the op; predicates are stored as 0 and 1.
MachineLaunch OneOp(Op op, int slot, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  constexpr int kTid = kSourceSpecial + kSpecialTidX;
  const auto parameter = [](int i) { return kSourceSpecial + kSpecialFirstParameter + i; };
  MachineLaunch launch;
  launch.program.blocks.resize(4);
  auto& blocks = launch.program.blocks;
  blocks[0].slots[0] = {.op = Op::kAdd, .b = kTid};
  blocks[0].slots[2] = {.op = Op::kMad, .dst = 3, .a = kSourceTwoBack, .immediate = 4};
  blocks[1].slots[0] = {.op = Op::kLd, .dst = 1, .a = 3, .b = parameter(0)};
  blocks[1].slots[1] = {.op = Op::kLd, .dst = 2, .a = 3, .b = parameter(1)};
  Instruction& tested = blocks[2].slots[slot];
  tested = {.op = op, .dst = 4, .a = 1, .b = 2};
  if (op == Op::kMad) tested.c = 1;
  if (op == Op::kPSet || op == Op::kPAnd || op == Op::kPOr || op == Op::kPXor) tested.a = tested.b = 0;
  blocks[3].slots[0] = {.op = Op::kMad, .a = 4, .immediate = 1};
  if (WritesPredicate(op)) blocks[3].slots[0] = {.op = Op::kSelp, .a = 3, .guard = 4};
  blocks[3].slots[1] = {.op = Op::kSt, .a = 3, .b = parameter(2), .c = kSourcePrevious};
  for (int i = 0; i < 3; ++i) blocks[i].control.target = i + 1;
  blocks[3].control.kind = ControlKind::kExit;
  launch.block = {32, 1, 1};
  launch.parameters = {4, 4 + 4 * 32, 4 + 4 * 64};
  launch.memory = {0};
  launch.memory.insert(launch.memory.end(), a.begin(), a.end());
  launch.memory.insert(launch.memory.end(), b.begin(), b.end());
  return launch;
}

TEST(BuildCircuit, EveryOpInEverySlotOnEdgeOperands) {
  const uint32_t edges[] = {0,  1,  2,          31,         32,         33,         127,        0xffffff80,
                            40, 85, 0x55555555, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0xfffffffe};
  const auto circuit = std::make_shared<const Circuit>(TheCircuit().circuit);
  const std::unique_ptr<Executor> executor = MakeSparseExecutor(circuit, DataType::kFloat32);
  for (const OpInfo& info : AllOps()) {
    if (info.op == Op::kNop || info.op == Op::kLd || info.op == Op::kSt) continue;  // random programs have them
    for (int slot = 0; slot < kSlots; ++slot) {
      if (!SlotCanExecute(slot, info.op)) continue;
      // Pairs (i, i + step): every value meets four others in each slot.
      for (int step = slot; step < 16; step += 8) {
        std::vector<uint32_t> a, b;
        for (int i = 0; i < 32; ++i) {
          a.push_back(edges[i % 16]);
          b.push_back(edges[(i + step + (i < 16 ? 0 : 2)) % 16]);
        }
        const MachineLaunch launch = OneOp(info.op, slot, a, b);
        ASSERT_TRUE(ValidateLaunch(launch, {}).ok()) << ValidateLaunch(launch, {});
        absl::StatusOr<ModelRun> run = RunLaunch(*executor, *circuit, HostTokens(launch), 2000);
        ASSERT_TRUE(run.ok()) << run.status();
        const CheckReport report = CheckRun(launch, *run);
        ASSERT_TRUE(report.exact()) << info.name << " in slot " << slot << ": " << FormatCheck(report);
      }
    }
  }
}

TEST(BuildCircuit, IsTheSameEveryTime) {
  EXPECT_EQ(CircuitHash(TheCircuit().circuit), CircuitHash(BuildCircuit(kBaseHidden)->circuit));
}

TEST(BuildCircuit, FitsOtherBases) {
  for (int hidden : {2048, 1024, 257}) EXPECT_TRUE(BuildCircuit(hidden).ok()) << hidden;
  EXPECT_EQ(BuildCircuit(0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BuildCircuit, NamesWhatDoesNotFit) {
  CircuitLimits limits;
  limits.dimensions = 1000;
  EXPECT_THAT(std::string(BuildCircuit(kBaseHidden, limits).status().message()),
              testing::HasSubstr("residual dimensions, the limit is 1000"));
  limits = {};
  limits.neurons = 3000;
  EXPECT_EQ(BuildCircuit(kBaseHidden, limits).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace qgpu
