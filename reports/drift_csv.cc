#include "reports/drift_csv.h"

#include "fmt/format.h"
#include "reports/csv.h"
#include "reports/drift_groups.h"
#include "reports/printable.h"

namespace qgpu {
namespace {

const char* Boolean(bool value) { return value ? "1" : "0"; }

std::vector<std::string> PositionFields(const DriftRow& drift, size_t i) {
  const RowDrift& row = drift.drift.rows[i];
  std::vector<std::string> fields = {std::to_string(i),
                                     fmt::format("{}", row.kl),
                                     fmt::format("{}", row.machine_share),
                                     fmt::format("{}", row.base_surprise),
                                     fmt::format("{}", row.merged_surprise),
                                     Boolean(row.same_top),
                                     std::to_string(row.top_overlap)};
  if (i < drift.noise.rows.size()) {
    const RowDrift& noise = drift.noise.rows[i];
    fields.insert(fields.end(), {fmt::format("{}", noise.kl), fmt::format("{}", noise.base_surprise),
                                 fmt::format("{}", noise.merged_surprise), Boolean(noise.same_top),
                                 std::to_string(noise.top_overlap)});
  } else {
    fields.insert(fields.end(), 5, "");
  }
  fields.push_back(i < drift.predicted.size() ? Printable(drift.predicted[i]) : "");
  return fields;
}

}  // namespace

std::string WriteDriftCsv(const RunReport& report) {
  std::string csv = CsvLine({"run",
                             "suite",
                             "probe",
                             "text",
                             "worker",
                             "repetition",
                             "base",
                             "measurement",
                             "complete",
                             "position",
                             "kl_nats",
                             "machine_share",
                             "base_surprise_nats",
                             "merged_surprise_nats",
                             "same_top1_boolean",
                             "top5_overlap_count",
                             "noise_kl_nats",
                             "noise_base_surprise_nats",
                             "noise_surprise_nats",
                             "noise_same_top1_boolean",
                             "noise_top5_overlap_count",
                             "next_token"});
  for (const ItemRow& item : report.items) {
    if (item.kind != SuiteKind::kDrift || !item.drift.has_value()) continue;
    const std::vector<std::string> of_item = {std::to_string(report.run.id),
                                              item.suite,
                                              item.kernel,
                                              item.case_name,
                                              item.worker,
                                              std::to_string(item.repetition),
                                              BaseOf(report, item.worker),
                                              item.drift->measurement,
                                              Boolean(DriftItemCounts(item))};
    for (size_t i = 0; i < item.drift->drift.rows.size(); ++i) {
      std::vector<std::string> fields = of_item;
      for (std::string& field : PositionFields(*item.drift, i)) fields.push_back(std::move(field));
      csv += CsvLine(fields);
    }
  }
  return csv;
}

}  // namespace qgpu
