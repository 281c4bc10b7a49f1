// The sparse executor: the split form's forward pass of machine tokens, from the circuit's non-zero weights.
//
// It computes what the layers of Qwen3.5 compute (RMSNorm, Gated DeltaNet, SwiGLU, tied head), in floating point, and
// leaves out only products with an exact zero: weights that are not stored, and activations that are 0. Results differ
// from a dense evaluation by the order of summation alone.
#pragma once

#include <memory>

#include "model/forward/executor.h"
#include "model/weights/circuit.h"

namespace qgpu {

// An executor of a valid circuit (ValidateCircuit), for float32 or bfloat16 (in bfloat16 activations are rounded where
// the transformers library rounds them, sums and recurrent states are float32). Feed fails with kInvalidArgument on an
// id that is none of the circuit's, ReadState on a layer or head that it does not have; a failed call changes nothing.
// Deterministic, the same on every machine up to the C library's exp and log1p. Not thread-safe; any number of
// executors can share a circuit.
std::unique_ptr<Executor> MakeSparseExecutor(std::shared_ptr<const Circuit> circuit, DataType type);

// The same, watching how near the model comes to writing another token: the difference between the largest logit and
// that of the next best id. Finding the largest costs twice the time then.
std::unique_ptr<Executor> MakeMarginWatchingExecutor(std::shared_ptr<const Circuit> circuit, DataType type);
// At the last position fed, and the smallest of all positions since the executor was made. (Between the host's tokens
// the model has nothing to write, and a margin means nothing.) `executor` comes from MakeMarginWatchingExecutor.
float LastMargin(const Executor& executor);
float SmallestMargin(const Executor& executor);

}  // namespace qgpu
