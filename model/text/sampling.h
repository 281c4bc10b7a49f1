// The next token from logits: greedy, or drawn from the tokens that temperature, top-k and top-p leave.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/prng.h"
#include "common/status.h"

namespace qgpu {

struct SamplingOptions {
  double temperature = 0;  // 0: greedy; top_k, top_p, min_p and the seed are not used
  int64_t top_k = 0;  // only tokens whose logit is among the k highest (with all that tie for the last place); 0: all
  double top_p = 1;   // of these, the most probable ones that together reach this probability; at least one
  double min_p = 0;   // of these, the ones that are at least so many times as probable as the most probable one
  double repetition_penalty = 1;  // logits of ids that occurred are divided by it, negative ones multiplied
  uint64_t seed = 0;
};

// kInvalidArgument naming the option: a temperature that is negative or not finite, top_k below 0, top_p not in (0, 1],
// min_p not in [0, 1], a repetition penalty that is not a finite number above 0.
absl::Status CheckSamplingOptions(const SamplingOptions& options);

// Draws as Hugging Face's `generate` defines it (repetition penalty in float32; temperature, then top-k,
// top-p and min-p in double precision), with the
// project's own random numbers: the same options, seed and logits give the same tokens. Not thread-safe.
class Sampler {
 public:
  // Options as CheckSamplingOptions wants them.
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

  // The index of the next token; of equal ones the first is greedy's. Logits of minus infinity are never chosen. `seen`
  // are the ids that the repetition penalty is for, none twice; those that have no logit do not matter.
  // kInvalidArgument: no logits, a NaN or plus infinity among them (its index is named), or all are minus infinity.
  absl::StatusOr<int32_t> Next(std::span<const float> logits, std::span<const int32_t> seen = {});

 private:
  struct Candidate {
    double weight;  // the logit, then its probability but for a common factor
    int32_t index;
  };
  void KeepTopK(std::span<const float> logits);
  void KeepTopP();
  void KeepMinP();

  SamplingOptions options_;
  SplitMix64 random_;
  std::vector<Candidate> candidates_;
  std::vector<float> penalized_;
};

}  // namespace qgpu
