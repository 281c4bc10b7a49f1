#include "reports/drift_groups.h"

#include <algorithm>
#include <cmath>

#include "evals/drift/probe.h"
#include "fmt/format.h"

namespace qgpu {
namespace {

bool AllFinite(const TextDrift& text) {
  return std::all_of(text.rows.begin(), text.rows.end(), [](const RowDrift& row) {
    return std::isfinite(row.kl) && std::isfinite(row.machine_share) && std::isfinite(row.base_surprise) &&
           std::isfinite(row.merged_surprise);
  });
}

DriftSummary SummaryOf(const std::vector<const ItemRow*>& items, TextDrift DriftRow::* part) {
  DriftStatistics statistics;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::vector<RowDrift>& rows = ((*items[i]->drift).*part).rows;
    if (rows.empty()) return {};
    for (size_t row = 0; row < rows.size(); ++row) {
      // Numbers for names: nothing that a text is called can be in the way.
      const absl::Status added = statistics.Append(std::to_string(i), static_cast<int64_t>(row), rows[row]);
      if (!added.ok()) return {};
    }
  }
  return statistics.Summarize();
}

// What the headline says of one probe on one worker, over its repetitions.
struct KlEntry {
  std::string probe, value, label;
  std::vector<std::string> notes;
  bool is_zero = false;  // nothing but complete, passed measurements of exactly 0

  std::string Text() const {
    std::string text = fmt::format("{} ({}", value, label);
    for (size_t i = 0; i < notes.size(); ++i) text += (i == 0 ? "; " : ", ") + notes[i];
    return text + ")";
  }
};

// "1e-3", or "1e-3 to 2e-3" where repetitions differ.
std::string Range(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least == *most ? FormatKl(*least) : FormatKl(*least) + " to " + FormatKl(*most);
}

bool IsDenseBfloat16(const std::string& probe) {
  const auto known = DriftProbeFromName(probe);
  return known.ok() && known->form == DriftProbe::Form::kDense && known->bfloat16 && !known->after_launch;
}

KlEntry EntryOf(const std::vector<const DriftGroup*>& repetitions) {
  KlEntry entry;
  entry.probe = repetitions[0]->probe;
  entry.label = ProbeLabel(entry.probe);
  size_t items = 0, counted = 0;
  bool failed = false;
  std::vector<double> drift, noise;
  for (const DriftGroup* group : repetitions) {
    items += group->items.size();
    counted += group->counted.size();
    failed |= std::any_of(group->items.begin(), group->items.end(),
                          [](const ItemRow* item) { return item->status == CaseStatus::kFail; });
    if (group->drift.positions > 0) drift.push_back(group->drift.mean);
    if (group->noise.positions > 0) noise.push_back(group->noise.mean);
  }
  if (drift.empty()) {
    entry.value = "incomplete";
    return entry;
  }
  entry.value = Range(drift);
  if (IsDenseBfloat16(entry.probe) && noise.size() == drift.size()) {
    entry.notes.push_back("base's own " + Range(noise));
  }
  if (failed) entry.notes.push_back("FAILED");
  if (counted < items) entry.notes.push_back(fmt::format("incomplete: {} of {} texts", counted, items));
  entry.is_zero = entry.value == "0" && entry.notes.empty();
  return entry;
}

// Entries of one form that all are 0 become one, named after the form alone.
std::vector<KlEntry> Joined(const std::vector<KlEntry>& entries) {
  std::vector<KlEntry> joined;
  for (size_t i = 0; i < entries.size();) {
    const auto form = [](const KlEntry& entry) { return entry.probe.substr(0, entry.probe.find('-')); };
    size_t end = i;
    while (end < entries.size() && form(entries[end]) == form(entries[i])) ++end;
    const bool zero =
        std::all_of(entries.begin() + static_cast<int64_t>(i), entries.begin() + static_cast<int64_t>(end),
                    [](const KlEntry& entry) { return entry.is_zero; });
    if (zero && end - i > 1) {
      joined.push_back(entries[i]);
      joined.back().label = form(entries[i]);
      i = end;
    } else {
      while (i < end) joined.push_back(entries[i++]);
    }
  }
  return joined;
}

// Place of the probe among all there are; behind them of one that is not known.
size_t Order(const std::string& probe) {
  const std::vector<DriftProbe>& all = AllDriftProbes();
  const auto found =
      std::find_if(all.begin(), all.end(), [&probe](const DriftProbe& known) { return known.Name() == probe; });
  return static_cast<size_t>(found - all.begin());
}

std::string MeanKlOfWorker(const std::vector<DriftGroup>& groups, const std::string& worker) {
  std::vector<KlEntry> entries;
  std::vector<std::string> probes;
  for (const DriftGroup& group : groups) {
    if (group.worker != worker || std::find(probes.begin(), probes.end(), group.probe) != probes.end()) continue;
    probes.push_back(group.probe);
    std::vector<const DriftGroup*> repetitions;
    for (const DriftGroup& other : groups) {
      if (other.worker == worker && other.probe == group.probe) repetitions.push_back(&other);
    }
    entries.push_back(EntryOf(repetitions));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const KlEntry& a, const KlEntry& b) { return Order(a.probe) < Order(b.probe); });
  std::string text;
  for (const KlEntry& entry : Joined(entries)) text += (text.empty() ? "" : ", ") + entry.Text();
  return text;
}

}  // namespace

bool DriftItemCounts(const ItemRow& item) {
  return (item.status == CaseStatus::kPass || item.status == CaseStatus::kFail) && item.drift.has_value() &&
         item.drift->complete() && AllFinite(item.drift->drift) && AllFinite(item.drift->noise);
}

std::vector<DriftGroup> DriftGroups(const RunReport& report) {
  std::vector<DriftGroup> groups;
  for (const ItemRow& item : report.items) {
    if (item.kind != SuiteKind::kDrift) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&item](const DriftGroup& known) {
      return known.suite == item.suite && known.probe == item.kernel && known.worker == item.worker &&
             known.repetition == item.repetition;
    });
    if (group == groups.end()) {
      group = groups.insert(groups.end(),
                            DriftGroup{item.suite, item.kernel, item.worker, item.repetition, {}, {}, {}, {}});
    }
    group->items.push_back(&item);
    if (DriftItemCounts(item)) group->counted.push_back(&item);
  }
  for (DriftGroup& group : groups) {
    group.drift = SummaryOf(group.counted, &DriftRow::drift);
    group.noise = SummaryOf(group.counted, &DriftRow::noise);
    if (group.noise.positions != group.drift.positions) group.noise = {};
  }
  return groups;
}

std::string ProbeLabel(const std::string& probe) {
  const auto known = DriftProbeFromName(probe);
  if (!known.ok()) return probe;
  return fmt::format("{} {}{}", known->form == DriftProbe::Form::kSplit ? "split" : "dense",
                     known->bfloat16 ? "bfloat16" : "float32", known->after_launch ? " after a launch" : "");
}

std::string FormatKl(double kl) { return kl == 0 ? "0" : fmt::format("{:.2e}", kl); }

std::string MeanKl(const RunReport& report) {
  const std::vector<DriftGroup> groups = DriftGroups(report);
  if (groups.empty()) return "not run";
  std::vector<std::pair<std::string, std::string>> workers;  // name, figure
  for (const DriftGroup& group : groups) {
    const auto is_known = [&group](const auto& known) { return known.first == group.worker; };
    if (std::any_of(workers.begin(), workers.end(), is_known)) continue;
    workers.emplace_back(group.worker, MeanKlOfWorker(groups, group.worker));
  }
  const bool agree = std::all_of(workers.begin(), workers.end(),
                                 [&workers](const auto& worker) { return worker.second == workers[0].second; });
  if (agree) return workers[0].second;
  std::string text;
  for (const auto& [worker, figure] : workers)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", worker, figure);
  return text;
}

}  // namespace qgpu
