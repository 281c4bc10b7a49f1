// A kernel's body made self-contained, PTX to PTX, before anything else looks at it:
//   - every call becomes the body of the device function. Its .param variables become registers where all accesses
//     agree on their pieces, and local memory otherwise;
//   - brx.idx becomes a tree of comparisons and branches;
//   - what threads do together and is predicated (a barrier, a shuffle, a call, ...) gets a branch around it.
// What such a rewritten instruction stands for keeps its place in the source.
#pragma once

#include "common/status.h"
#include "lowering/ptx/ptx.h"

namespace qgpu::lower {

// kUnimplemented for recursion, calls through pointers and functions without a body, naming function and line;
// kInvalidArgument for calls that do not fit the function, and where the body grows beyond all bounds.
absl::StatusOr<ptx::Function> InlineCalls(const ptx::Module& module, const ptx::Function& kernel);

}  // namespace qgpu::lower
