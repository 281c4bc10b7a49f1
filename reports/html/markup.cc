#include "reports/html/markup.h"

#include <algorithm>

#include "fmt/format.h"
#include "reports/printable.h"

namespace qgpu {

std::string Escape(std::string_view text) {
  std::string escaped;
  for (char c : Printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string EscapeLines(std::string_view text) {
  std::string escaped;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (start > 0) escaped += '\n';
    escaped += Escape(text.substr(start, end - start));
    start = end + 1;
  }
  return escaped;
}

std::string Cell(const std::string& html) { return "<td>" + html + "</td>"; }
std::string NumberCell(const std::string& html) { return "<td class=\"n\">" + html + "</td>"; }

std::string StatusCell(std::optional<CaseStatus> status) {
  return fmt::format("<td class=\"{}\">{}</td>", StatusClass(status), StatusText(status));
}

const char* StatusClass(std::optional<CaseStatus> status) { return status == CaseStatus::kPass ? "pass" : "bad"; }
const char* StatusText(std::optional<CaseStatus> status) {
  return status.has_value() ? CaseStatusName(*status) : "not finished";
}

std::string WithCommas(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace qgpu
