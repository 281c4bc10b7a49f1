// A case of a kernel suite: lowered, interpreted and run by the oracle once, then launched on workers and judged.
#pragma once

#include <memory>

#include "coordinator/run/suite_case.h"
#include "kernels/suite.h"

namespace qgpu {

struct KernelOptions {
  bool replay = true;                 // compare every position
  int64_t launch_limit_ms = 120'000;  // a launch of the model
  int64_t native_limit_ms = 20'000;   // a run of one of the oracle's engines
};

// Preparing asks the oracle for its interpreter's run, lowers and interprets the case here, and asks the oracle for its
// native run; the native engine has no part where a trap is expected or the token budget does not suffice. A kernel
// that is refused (which may be what is expected), or that the oracle cannot run, is settled without a launch. An
// attempt is one launch; one that writes many more tokens than the reference is stopped.
std::shared_ptr<const SuiteCase> MakeKernelCase(KernelCase kernel_case, const KernelOptions& options);

}  // namespace qgpu
