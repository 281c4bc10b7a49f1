// Shrinks a launch on which engines disagree: fewer statements, shorter expressions, smaller numbers, a smaller shape,
// less data, as long as they still disagree. It knows no C++ beyond lines, braces and parentheses; what does not
// compile any more does not disagree.
#pragma once

#include <functional>
#include <string>

#include "kernels/launch_spec.h"
#include "tests/differential/random_kernels.h"

namespace qgpu {

struct ShrinkLimits {
  int attempts = 3000;
  double seconds = 300;
};

struct Shrunk {
  LaunchSpec spec;
  int attempts = 0;
  bool is_smallest = false;  // nothing that was tried makes it smaller; otherwise a limit ended the search
};

// `spec` is a launch of the kernel `kernel_text`, which stands in its file after `prelude`. A line of the kernel that
// ends in "//!" is only taken away together with the block around it.
Shrunk Shrink(const LaunchSpec& spec, const std::string& prelude, const std::string& kernel_text,
              const std::function<bool(const LaunchSpec&)>& disagrees, const ShrinkLimits& limits = {});

// The launch for people: source and launch description.
std::string FormatLaunch(const LaunchSpec& spec);

}  // namespace qgpu
