// The next token from logits: greedy, or drawn from the tokens that temperature, top-k and top-p leave.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/prng.h"
#include "common/status.h"

namespace qgpu {

struct SamplingOptions {
  double temperature = 0;  // 0: greedy, the rest is not used
  int64_t top_k = 0;  // only tokens whose logit is among the k highest (with all that tie for the last place); 0: all
  double top_p = 1;   // of these, the most probable ones that together reach this probability; at least one
  uint64_t seed = 0;
};

// kInvalidArgument naming the option: a temperature that is negative or not finite, top_k below 0, top_p not in (0, 1].
absl::Status CheckSamplingOptions(const SamplingOptions& options);

// Draws as Hugging Face's `generate` defines it (temperature, then top-k, then top-p), in double precision, with the
// project's own random numbers: the same options, seed and logits give the same tokens. Not thread-safe.
class Sampler {
 public:
  // Options as CheckSamplingOptions wants them.
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

  // The index of the next token; of equal ones the first is greedy's. Logits of minus infinity are never chosen.
  // kInvalidArgument: no logits, a NaN or plus infinity among them (its index is named), or all are minus infinity.
  absl::StatusOr<int32_t> Next(std::span<const float> logits);

 private:
  struct Candidate {
    double weight;  // the logit, then its probability but for a common factor
    int32_t index;
  };
  void KeepTopK(std::span<const float> logits);
  void KeepTopP();

  SamplingOptions options_;
  SplitMix64 random_;
  std::vector<Candidate> candidates_;
};

}  // namespace qgpu
