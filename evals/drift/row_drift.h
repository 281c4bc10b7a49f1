// One position of text: two next-token distributions compared, in double precision. Base and merged model give a row of
// logits each; the merged model's is longer by the machine's ids.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"

namespace qgpu {

inline constexpr int kTopOverlap = 5;

struct RowDrift {
  // KL(base || merged) in nats over the base's vocabulary: the merged distribution is that of the base's ids alone,
  // brought to a sum of 1. Exactly 0 for equal logits; otherwise rounding is some 1e-15, which may leave a KL of 0 just
  // below it.
  double kl = 0;
  double machine_share = 0;  // probability of all machine ids together
  // -log p(next token), over each model's whole vocabulary.
  double base_surprise = 0, merged_surprise = 0;
  bool same_top = false;  // the likeliest of the base's ids; the lowest of equal ones
  int top_overlap = 0;    // how many of the kTopOverlap likeliest are in both
};

// kInvalidArgument: an empty base row, a merged row that is shorter, a next token outside the base's vocabulary.
// kDataLoss: a logit that is no finite number, saying whose and which id's. The caller knows the position and puts it
// in front.
absl::StatusOr<RowDrift> CompareRows(std::span<const float> base, std::span<const float> merged, int64_t next_token,
                                     const char* merged_name = "merged model");

}  // namespace qgpu
