// drift.csv: every position of every drift measurement, RFC 4180, with the unit in the name of every column that has
// one.
#pragma once

#include <string>

#include "reports/rows.h"

namespace qgpu {

// Header row and one row for each position that was measured, of complete measurements and others ("complete" says
// which). The noise floor's columns are empty where it was not measured. `next_token` is written out where it does not
// show as itself (Printable), so that every row is one line; it may begin with what a spreadsheet takes for a formula.
std::string WriteDriftCsv(const RunReport& report);

}  // namespace qgpu
