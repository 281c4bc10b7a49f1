// A trap in words, the same wherever it is shown.
#pragma once

#include <span>
#include <string>

#include "machine/isa/machine_launch.h"

namespace qgpu {

// "address out of range", "misaligned address", "barrier divergence".
const char* TrapName(TrapKind kind);

// "k.cu:8", or of PTX that somebody compiled "k.ptx:39, k.cu:8", or what of it is known; "" where nothing is.
// `source_name` is the file that was given, .cu or .ptx.
std::string SourcePlace(const SlotOrigin& origin, const std::string& source_name);

// Fills in where the threads of the current thread block wait, from the tokens that the machine wrote up to the trap:
// the first waiting thread with its block, and the first that waits elsewhere. Any sequence of tokens is read.
void LocateBarrierDivergence(const MachineLaunch& launch, std::span<const Token> tokens, TrapReport& trap);

// "misaligned address: byte address 83 (0x53), by thread (2, 0, 0) of thread block (1, 0, 0), k.cu:8 (st.global.u32
// [%rd1], %r3)"; "barrier divergence: thread (0, 0, 0) of thread block (0, 0, 0) waits at k.cu:4 (bar.sync 0), thread
// (1, 0, 0) at k.cu:7 (bar.sync 0)"; "the kernel executed trap, in thread (5, 0, 0) of thread block (0, 0, 0), k.cu:9
// (trap;)". Places are SourcePlace's.
std::string DescribeTrap(const TrapReport& trap, const Program& program, const std::string& source_name);

}  // namespace qgpu
