#include "coordinator/run/take_up.h"

#include <algorithm>
#include <charconv>

namespace qgpu {
namespace {

absl::Status Differs(const RunReport& stored, const std::string& what) {
  return absl::FailedPreconditionError(fmt::format(
      "run {} cannot be taken up: {}; start a new run, or take this one up as it was started", stored.run.id, what));
}

std::string Setting(const RunRow& run, const std::string& name) {
  for (const auto& [key, value] : run.manifest) {
    if (key == name) return value;
  }
  return "not recorded";
}

std::string ItemText(const CaseName& name, const std::string& worker, int repetition) {
  return fmt::format("{} {} on {}, repetition {}", name.suite, name.Id(), worker, repetition);
}

absl::Status CheckSuites(const RunReport& stored, const RunRow& asked) {
  std::vector<std::string> then, now;
  for (const SuiteRow& suite : stored.run.suites) then.push_back(suite.name);
  for (const SuiteRow& suite : asked.suites) now.push_back(suite.name);
  if (then != now) {
    return Differs(stored, fmt::format("its suites are {}, here {}", fmt::join(then, ", "), fmt::join(now, ", ")));
  }
  for (size_t i = 0; i < asked.suites.size(); ++i) {
    const SuiteRow &before = stored.run.suites[i], &after = asked.suites[i];
    if (before.hash == after.hash) continue;
    return Differs(stored, fmt::format("the suite {} has another content: hash {} then, {} now", before.name,
                                       before.hash.substr(0, 12), after.hash.substr(0, 12)));
  }
  return absl::OkStatus();
}

absl::Status CheckSettings(const RunReport& stored, const RunRow& asked) {
  const std::pair<const char*, std::pair<std::string, std::string>> settings[] = {
      {"repetitions", {std::to_string(stored.run.repetitions), std::to_string(asked.repetitions)}},
      {"--quick", {stored.run.quick ? "given" : "not given", asked.quick ? "given" : "not given"}},
      {kReplaySetting, {Setting(stored.run, kReplaySetting), Setting(asked, kReplaySetting)}}};
  for (const auto& [name, values] : settings) {
    if (values.first == values.second) continue;
    return Differs(stored, fmt::format("{}: {} then, {} now", name, values.first, values.second));
  }
  return absl::OkStatus();
}

absl::Status CheckItems(const RunReport& stored, const std::vector<PlannedItem>& items) {
  for (size_t i = 0; i < std::min(items.size(), stored.items.size()); ++i) {
    const ItemRow& before = stored.items[i];
    const CaseName name{before.kind, before.suite, before.kernel, before.case_name, before.case_hash};
    const std::string then = ItemText(name, before.worker, before.repetition);
    const std::string now = ItemText(items[i].name, items[i].worker, items[i].repetition);
    if (then != now) return Differs(stored, fmt::format("its item {} is {}, here {}", i + 1, then, now));
    if (name == items[i].name) continue;
    return Differs(stored, fmt::format("the case {} has another content: hash {} then, {} now", name.Id(),
                                       name.hash.substr(0, 12), items[i].name.hash.substr(0, 12)));
  }
  if (items.size() == stored.items.size()) return absl::OkStatus();
  return Differs(stored, fmt::format("it has {} items, here {} are selected", stored.items.size(), items.size()));
}

absl::Status CheckNode(const RunReport& stored, const NodeRow& then, const NodeRow& now) {
  const auto build = [](const NodeRow& node) {
    return fmt::format("{} {}, commit {}, {}", node.program, node.version, node.commit, node.build_type);
  };
  const std::string who = then.role == "coordinator" ? "this coordinator" : fmt::format("{} {}", then.role, then.name);
  const std::pair<const char*, std::pair<std::string, std::string>> properties[] = {
      {"build", {build(then), build(now)}},
      {"circuit", {then.circuit_sha256 + then.circuit_hash, now.circuit_sha256 + now.circuit_hash}},
      {"base", {then.base, now.base}},
      {"form", {then.form, now.form}}};
  for (const auto& [name, values] : properties) {
    if (values.first == values.second) continue;
    return Differs(stored, fmt::format("{} has another {}: {} then, {} now", who, name, values.first, values.second));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSameRun(const RunReport& stored, const RunRow& asked, const std::vector<PlannedItem>& items,
                          const std::vector<NodeRow>& nodes) {
  if (stored.run.state == "finished") {
    return absl::FailedPreconditionError(
        fmt::format("run {} is finished; only runs that were interrupted or killed can be taken up", stored.run.id));
  }
  QGPU_RETURN_IF_ERROR(CheckSuites(stored, asked));
  QGPU_RETURN_IF_ERROR(CheckSettings(stored, asked));
  QGPU_RETURN_IF_ERROR(CheckItems(stored, items));
  for (const NodeRow& then : stored.nodes) {
    const auto now = std::find_if(nodes.begin(), nodes.end(), [&then](const NodeRow& node) {
      return node.role == then.role && node.name == then.name;
    });
    if (now == nodes.end()) return Differs(stored, fmt::format("the {} {} takes no part here", then.role, then.name));
    QGPU_RETURN_IF_ERROR(CheckNode(stored, then, *now));
  }
  return absl::OkStatus();
}

int64_t NextAttempt(const RunReport& stored) {
  int64_t next = 1;
  for (const ItemRow& item : stored.items) {
    for (const AttemptRow& attempt : item.attempts) {
      const size_t dash = attempt.id.rfind('-');
      int64_t number = 0;
      if (dash == std::string::npos) continue;
      std::from_chars(attempt.id.data() + dash + 1, attempt.id.data() + attempt.id.size(), number);
      next = std::max(next, number + 1);
    }
  }
  return next;
}

}  // namespace qgpu
