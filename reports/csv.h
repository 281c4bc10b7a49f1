// report.csv: one row for each attempt, RFC 4180, with the unit in the name of every column that has one.
#pragma once

#include <string>
#include <vector>

#include "reports/rows.h"

namespace qgpu {

// Header row and one row for each attempt (for each item without any, one row with the status "not run"). Columns
// are fixed; metrics follow them in alphabetical order, empty where an attempt did not measure them.
std::string WriteCsv(const RunReport& report);

// One row of a file, with its line end; quoted where a field needs it.
std::string CsvLine(const std::vector<std::string>& fields);

}  // namespace qgpu
