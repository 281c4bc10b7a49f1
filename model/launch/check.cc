// CheckRun: a model's run beside the reference interpreter's.
#include <algorithm>

#include "machine/interpreter/interpreter.h"
#include "model/launch/launch.h"

namespace qgpu {
namespace {

void CompareTokens(const MachineRun& expected, const ModelRun& run, CheckReport& report) {
  const size_t positions = std::max(expected.tokens.size(), run.ids.size());
  for (size_t i = 0; i < positions; ++i) {
    const bool has_expected = i < expected.tokens.size(), has_got = i < run.ids.size();
    ++report.positions_checked;
    if (has_expected && has_got && TokenToId(expected.tokens[i]) == run.ids[i]) continue;
    ++report.mismatches;
    if (report.first) continue;
    report.first =
        CheckReport::Mismatch{static_cast<int64_t>(i), has_expected ? FormatToken(expected.tokens[i]) : "nothing",
                              has_got ? FormatId(run.ids[i]) : "nothing"};
  }
}

void CompareWords(const MachineState& expected, const MachineState& got, CheckReport& report) {
  const auto compare = [&report](const std::string& where, uint32_t want, uint32_t have) {
    if (want != have) report.words.push_back({where, want, have});
  };
  for (size_t i = 0; i < expected.memory.size(); ++i) {
    compare(fmt::format("memory word {}", i), expected.memory[i], i < got.memory.size() ? got.memory[i] : 0);
  }
  for (int warp = 0; warp < kWarps; ++warp) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int r = 1; r < 16; ++r) {
        compare(fmt::format("register {} of warp {} lane {}", r, warp, lane), expected.registers[warp][lane][r],
                got.registers[warp][lane][r]);
      }
    }
  }
}

std::string CompareTraps(const MachineLaunch& launch, const MachineRun& expected, const ModelRun& run) {
  if (!expected.trap || run.end != LaunchEnd::kTrap) return "";  // then the tokens differ already
  const absl::StatusOr<TrapReport> got = ExplainTrap(launch, run);
  if (!got.ok()) return std::string(got.status().message());
  const TrapReport& want = *expected.trap;
  if (want.block != got->block) return fmt::format("trap in block {}, expected {}", got->block, want.block);
  if (want.warp != got->warp) return fmt::format("trap in warp {}, expected {}", got->warp, want.warp);
  if (want.cta != got->cta) return "trap in another thread block";
  if (want.thread != got->thread) return "trap in another thread";
  if (want.address != got->address) return fmt::format("trap at {:#x}, expected {:#x}", got->address, want.address);
  return "";
}

}  // namespace

CheckReport CheckRun(const MachineLaunch& launch, const ModelRun& run) {
  CheckReport report;
  // One token more than the model wrote shows whether it ended where it should; a run out of budget ends there for
  // both.
  const int64_t written = static_cast<int64_t>(run.ids.size());
  const bool out_of_budget = run.fault.ok() && run.end == LaunchEnd::kBudget;
  const MachineRun expected = Interpret(launch, std::max<int64_t>(1, out_of_budget ? written : written + 1));
  CompareTokens(expected, run, report);
  if (run.fault.ok() && run.end != LaunchEnd::kBudget && expected.end != LaunchEnd::kBudget) {
    CompareWords(expected.state, run.state, report);
    report.trap = CompareTraps(launch, expected, run);
  } else if (report.mismatches == 0 && !run.fault.ok()) {
    report.words.push_back({std::string(run.fault.message()), 0, 0});
  }
  return report;
}

std::string FormatCheck(const CheckReport& report) {
  std::string text = fmt::format("{} positions, {} mismatches", report.positions_checked, report.mismatches);
  if (report.first) {
    text += fmt::format("; first at position {}: expected {}, got {}", report.first->position, report.first->expected,
                        report.first->got);
  }
  if (!report.words.empty()) {
    text += fmt::format("; {} words differ, first {}: expected {:#x}, got {:#x}", report.words.size(),
                        report.words[0].where, report.words[0].expected, report.words[0].got);
  }
  if (!report.trap.empty()) text += "; " + report.trap;
  return text;
}

}  // namespace qgpu
