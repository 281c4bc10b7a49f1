// Every integer instruction that works on registers, with every type and modifier it has, as small kernels: operands
// from memory, the instruction, results to memory.
#pragma once

#include <string>
#include <vector>

#include "common/prng.h"
#include "kernels/launch_spec.h"

namespace qgpu {

// "add.u32 {D32}, {S32}, {S32};": one instruction, or several. Operands are {D16}, {D32}, {D64}, {DP} (results),
// {S16}, {S32}, {S64}, {SP} (sources of so many bits, or predicates) and {N32} (a source that is mostly small: an
// amount, a length).
std::vector<std::string> AllInstructionForms();

struct FormKernel {
  std::string ptx;  // one entry, k(out, in)
  int sources = 0, results = 0;
};
// `immediate`: the last source that can be one is a number; `guarded`: by a predicate from memory, so that results also
// keep what they held.
FormKernel KernelOfForm(const std::string& form, bool immediate, bool guarded, SplitMix64& random);

// A launch of `threads` threads, each with operands of its own: extreme ones, near ones, any.
LaunchSpec LaunchOfForm(const FormKernel& kernel, int threads, SplitMix64& random);

}  // namespace qgpu
