#include "model/schedule/schedule.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/schedule/noise.h"
#include "model/schedule/places.h"

namespace qgpu {
namespace {

constexpr int kHidden = 1536;

const MachineNetlist& TheMachine() {
  static const MachineNetlist* machine = new MachineNetlist(BuildMachineNetlist().value());
  return *machine;
}

// A netlist of one input and a chain of `layers` ANDs of it with itself, each reading the one before.
MachineNetlist Chain(int layers, int fan_in) {
  MachineNetlist machine;
  Signal last = machine.netlist.Input("input", [](Token) { return 1; });
  machine.ready_time = {-1};
  for (int layer = 0; layer < layers; ++layer) {
    const Signal next = machine.netlist.Bit("chain[" + std::to_string(layer) + "]");
    machine.netlist.And(layer, Literals(fan_in, Linear(last)), {{next}});
    machine.ready_time.push_back(2 * layer + 1);
    last = next;
  }
  machine.netlist.set_layers(layers);
  return machine;
}

TEST(Places, NoTwoLiveValuesShareADimension) {
  const Places places = AllocatePlaces(TheMachine(), 4, std::vector<int>(TheMachine().netlist.layers()));
  std::map<int, std::vector<const Life*>> by_dimension;
  for (const Life& life : places.lives) by_dimension[places.dimension[life.signal]].push_back(&life);
  for (auto& [dimension, lives] : by_dimension) {
    std::sort(lives.begin(), lives.end(), [](const Life* a, const Life* b) { return a->first < b->first; });
    for (size_t i = 1; i < lives.size(); ++i) {
      const int cleared = 2 * lives[i - 1]->clear_at + 1;
      ASSERT_GE(lives[i - 1]->clear_at, 0) << "dimension " << dimension << " is never cleared";
      EXPECT_GE(cleared, lives[i - 1]->last_read) << TheMachine().netlist.name(lives[i - 1]->signal);
      EXPECT_GT(cleared, lives[i - 1]->ready) << TheMachine().netlist.name(lives[i - 1]->signal);
      EXPECT_LE(cleared, lives[i]->first) << TheMachine().netlist.name(lives[i]->signal);
    }
  }
  EXPECT_GT(by_dimension.size(), 1000u);
}

TEST(Schedule, ConstantsMakeTheNormAPowerOfTwo) {
  for (int hidden : {1536, 3328, 1281, 2048, 4096}) {
    const Schedule schedule = MakeSchedule(TheMachine(), hidden, {}).value();
    double energy = 0;
    for (double constant : schedule.constants) energy += constant * constant;
    EXPECT_EQ(energy, 65536.0 * hidden);
    EXPECT_GE(schedule.constants.size(), 3u);
  }
}

TEST(Schedule, ExceededLimitsSayByHowMuch) {
  CircuitLimits limits;
  limits.dimensions = 100;
  EXPECT_THAT(std::string(MakeSchedule(TheMachine(), kHidden, limits).status().message()),
              testing::MatchesRegex("the circuit needs 1[0-9]+ residual dimensions, the limit is 100"));
  limits = {};
  limits.heads = 10;
  EXPECT_THAT(std::string(MakeSchedule(TheMachine(), kHidden, limits).status().message()),
              testing::HasSubstr("has 11 heads, the limit is 10"));
  limits = {};
  limits.layers = 20;
  EXPECT_EQ(MakeSchedule(TheMachine(), kHidden, limits).status().code(), absl::StatusCode::kResourceExhausted);
}

// Unrestored, 24 ANDs of four literals would multiply the error by 8 each: they would be wrong after 8 layers.
TEST(Noise, LongChainsOfAndsAreRestored) {
  const MachineNetlist machine = Chain(24, 4);
  const Places places = AllocatePlaces(machine, 4, std::vector<int>(24));
  const NoiseReport noise = PropagateNoise(machine, places, kHidden, 8).value();
  EXPECT_LT(noise.largest_error, 1e-3);
  EXPECT_GT(std::count(noise.restore.begin(), noise.restore.end(), true), 3);
}

// A bit that counts a thousand noisy ANDs cannot be compared exactly any more.
TEST(Noise, ABrokenMarginNamesTheSignal) {
  MachineNetlist machine = Chain(6, 8);
  Netlist& net = machine.netlist;
  net.Tolerate(0);  // noise may grow along the chain
  const Signal count = net.Count("crowd", 63), out = net.Bit("verdict");
  const Signal last = {5};
  for (int i = 0; i < 63; ++i) net.And(6, Literals(60, Linear(last)), {{count}});
  net.Step(7, {}, Linear(count) - 62.0, {{out}});
  machine.ready_time.push_back(13);
  machine.ready_time.push_back(15);
  net.set_layers(8);
  const Places places = AllocatePlaces(machine, 4, std::vector<int>(8));
  const absl::Status status = PropagateNoise(machine, places, kHidden, 8).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the gate of verdict keeps a margin of"));
}

}  // namespace
}  // namespace qgpu
