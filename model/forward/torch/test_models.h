// What the tests of this folder run: a small random base and a synthetic circuit that fits on it.
#pragma once

#include <string>

#include "model/base/model_shape.h"
#include "model/weights/circuit.h"

namespace qgpu {

// The circuit with one more added dimension, read and written by nothing, as its text flag; the base is one dimension
// narrower, so that the constants still fill the norm.
Circuit WithFreeTextFlag(Circuit circuit);

// The embedded base's shape with `hidden` dimensions, two layers and a small vocabulary.
ModelShape SmallBaseShape(int64_t hidden);

// Writes a random base of that shape, float32, into a fresh directory of the running test.
std::string WriteTestBase(const ModelShape& shape);

}  // namespace qgpu
