// How this program's OpenMP threads wait for work.
#pragma once

namespace qgpu {

// Starts this program again, in its place, with OMP_WAIT_POLICY=PASSIVE, unless that variable is set or starting fails.
// OpenMP's threads otherwise spin between libtorch's kernels, and on cores that others use as well a forward pass then
// takes up to a hundred times as long. The variable is read when the library is loaded, before main: hence the new
// start, which must come before anything was read or written.
void RestartWithPassiveWaiting(char** argv);

}  // namespace qgpu
