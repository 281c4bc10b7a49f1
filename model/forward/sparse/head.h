// The tied head: final RMSNorm, then the machine rows of the embedding give the logits.
#pragma once

#include <vector>

#include "model/forward/sparse/layer.h"

namespace qgpu::sparse {

template <typename Number>
class Head {
 public:
  explicit Head(const Circuit& circuit);

  // The machine id with the largest logit for the residual x[0 .. W), the first of equals. When `margin` is given it
  // becomes the distance to the largest logit of another id.
  int32_t Argmax(const float* x, Workspace& workspace, float* margin);

 private:
  int hidden_;
  float eps_;
  std::vector<float> scale_;
  ColumnMatrix rows_;
  int32_t ids_;
  std::vector<float> logits_;  // padded to whole blocks
};

}  // namespace qgpu::sparse
