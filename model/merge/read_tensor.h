// For tests: tensors as nested lists.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/base/model_shape.h"

namespace qgpu {

// A whole tensor, [rows][row_size].
inline std::vector<std::vector<float>> ReadTensor(const TensorSource& source, const std::string& name) {
  for (const TensorSpec& spec : source.tensors()) {
    if (spec.name != name) continue;
    std::vector<std::vector<float>> out(spec.rows(), std::vector<float>(spec.row_size()));
    for (int64_t row = 0; row < spec.rows(); ++row) EXPECT_TRUE(source.ReadRows(spec, row, 1, out[row].data()).ok());
    return out;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

}  // namespace qgpu
