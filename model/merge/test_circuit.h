// For tests of what merges or exports a circuit: synthetic circuits made fit for the dense form.
#pragma once

#include "model/weights/circuit.h"

namespace qgpu {

// The circuit with one more added dimension, read and written by nothing, as its text flag; the base is one dimension
// narrower, so that the constants still fill the norm.
Circuit WithFreeTextFlag(Circuit circuit);

// The circuit with `count` more added dimensions that nothing reads or writes. It runs no machine tokens any more,
// since its constants no longer fill the norm; text does not care.
Circuit WithUnusedDimensions(Circuit circuit, int32_t count);

}  // namespace qgpu
