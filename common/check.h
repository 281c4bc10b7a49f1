// QGPU_CHECK(condition, message): ends the program when one of our own invariants is broken. Never for what a client, a
// file or a kernel contains; those are absl::Status.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "fmt/format.h"

#define QGPU_CHECK(condition, message)                                                                   \
  do {                                                                                                   \
    if (!(condition)) [[unlikely]] {                                                                     \
      fmt::print(stderr, "{}:{}: internal error: {} ({})\n", __FILE__, __LINE__, (message), #condition); \
      std::abort();                                                                                      \
    }                                                                                                    \
  } while (false)
