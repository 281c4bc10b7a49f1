// Pieces of HTML that every section needs. All text of others goes through Escape.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reports/rows.h"

namespace qgpu {

// In one line, safe between tags and in quoted attributes: what does not show as itself is written out (Printable).
std::string Escape(std::string_view text);
// The same, keeping line ends, for <pre>.
std::string EscapeLines(std::string_view text);

// A table cell around HTML, and one with a number.
std::string Cell(const std::string& html);
std::string NumberCell(const std::string& html);
std::string StatusCell(std::optional<CaseStatus> status);

// "pass" or "bad", a class of the style sheet.
const char* StatusClass(std::optional<CaseStatus> status);
// The status's name; "not finished" without one.
const char* StatusText(std::optional<CaseStatus> status);

// "1,234,567"
std::string WithCommas(int64_t number);

}  // namespace qgpu
