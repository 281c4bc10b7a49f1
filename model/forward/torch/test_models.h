// Small random bases for the tests of this folder.
#pragma once

#include <string>

#include "model/base/model_shape.h"

namespace qgpu {

// The embedded base's shape with `hidden` dimensions, two layers and a small vocabulary.
ModelShape SmallBaseShape(int64_t hidden);

// Writes a random base of that shape, float32, into a fresh directory of the running test.
std::string WriteTestBase(const ModelShape& shape);

}  // namespace qgpu
