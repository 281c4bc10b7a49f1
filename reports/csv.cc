#include "reports/csv.h"

#include <set>

#include "fmt/format.h"

namespace qgpu {
namespace {

std::string Field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string ColumnName(const Sample& sample) { return sample.metric + "_" + sample.unit; }

const std::vector<std::string> kFixedColumns = {"run",
                                                "suite",
                                                "kernel",
                                                "case",
                                                "worker",
                                                "repetition",
                                                "attempt",
                                                "status",
                                                "end",
                                                "tokens_count",
                                                "passes_count",
                                                "host_tokens_count",
                                                "positions_checked_count",
                                                "mismatches_count",
                                                "odd_one_out",
                                                "native_witness",
                                                "base",
                                                "first_mismatch_position",
                                                "first_differing_word",
                                                "message"};

std::vector<std::string> FixedFields(const RunReport& report, const ItemRow& item, const AttemptRow* attempt) {
  std::vector<std::string> fields = {std::to_string(report.run.id),
                                     item.suite,
                                     item.kernel,
                                     item.case_name,
                                     item.worker,
                                     std::to_string(item.repetition),
                                     attempt == nullptr ? "0" : std::to_string(attempt->number),
                                     attempt == nullptr ? "not run" : CaseStatusName(attempt->status)};
  const LaunchRow launch = attempt == nullptr ? LaunchRow{} : attempt->launch.value_or(LaunchRow{});
  const bool ran = attempt != nullptr && attempt->launch.has_value();
  fields.push_back(launch.end);
  for (const int64_t count :
       {launch.tokens, launch.passes, launch.host_tokens, launch.positions_checked, launch.mismatches}) {
    fields.push_back(ran ? std::to_string(count) : "");
  }
  fields.push_back(launch.odd_one_out);
  fields.push_back(launch.native_witness);
  fields.push_back(BaseOf(report, item.worker));
  fields.push_back(launch.token_difference.has_value() ? std::to_string(launch.token_difference->position) : "");
  const bool has_word = launch.word_difference.has_value() && launch.word_difference->word >= 0;
  fields.push_back(has_word ? std::to_string(launch.word_difference->word) : "");
  fields.push_back(attempt == nullptr ? "" : attempt->message);
  return fields;
}

}  // namespace

std::string CsvLine(const std::vector<std::string>& fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += Field(fields[i]);
  }
  return line + "\r\n";
}

std::string WriteCsv(const RunReport& report) {
  std::set<std::string> metrics;
  for (const ItemRow& item : report.items) {
    for (const AttemptRow& attempt : item.attempts) {
      for (const Sample& sample : attempt.samples) metrics.insert(ColumnName(sample));
    }
  }
  std::vector<std::string> header = kFixedColumns;
  header.insert(header.end(), metrics.begin(), metrics.end());
  std::string csv = CsvLine(header);
  const auto add_row = [&](const ItemRow& item, const AttemptRow* attempt) {
    std::vector<std::string> fields = FixedFields(report, item, attempt);
    for (const std::string& metric : metrics) {
      std::string value;
      for (const Sample& sample : attempt == nullptr ? std::vector<Sample>{} : attempt->samples) {
        if (ColumnName(sample) == metric) value = fmt::format("{}", sample.value);
      }
      fields.push_back(value);
    }
    csv += CsvLine(fields);
  };
  for (const ItemRow& item : report.items) {
    if (item.attempts.empty()) add_row(item, nullptr);
    for (const AttemptRow& attempt : item.attempts) add_row(item, &attempt);
  }
  return csv;
}

}  // namespace qgpu
