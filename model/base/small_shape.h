// For tests: a base of two layers, small enough for every checkpoint that a test writes.
#pragma once

#include "model/base/random_base.h"

namespace qgpu {

inline ModelShape SmallShape() {
  ModelShape shape = EmbeddedBaseShape();
  shape.vocabulary = 300;
  shape.hidden = 32;
  shape.intermediate = 48;
  shape.layers = {LayerType::kLinearAttention, LayerType::kFullAttention};
  shape.linear_key_heads = 1;
  shape.linear_key_dim = 16;
  shape.linear_value_dim = 24;
  shape.tied_head = false;
  return shape;
}

}  // namespace qgpu
