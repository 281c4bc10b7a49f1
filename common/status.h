// Errors cross every boundary of the project as absl::Status. The code says what the caller should do next (see
// common/exit_code.h for how programs end on each); the message says place, limit and what was needed.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

#define QGPU_CONCAT_INNER(a, b) a##b
#define QGPU_CONCAT(a, b) QGPU_CONCAT_INNER(a, b)

// Returns the error of `expr` (an absl::Status) from the enclosing function.
#define QGPU_RETURN_IF_ERROR(expr)               \
  do {                                           \
    ::absl::Status qgpu_status_ = (expr);        \
    if (!qgpu_status_.ok()) return qgpu_status_; \
  } while (false)

// QGPU_ASSIGN_OR_RETURN(auto x, F()): x takes F's value, or the enclosing function returns F's error.
#define QGPU_ASSIGN_OR_RETURN(lhs, expr) QGPU_ASSIGN_OR_RETURN_IMPL(QGPU_CONCAT(qgpu_or_, __LINE__), lhs, expr)
#define QGPU_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return tmp.status();              \
  lhs = std::move(tmp).value()
