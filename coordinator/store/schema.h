// The schema, and the steps that led to it. Version n of the database is what the first n steps make; a step is never
// changed once it was released.
#pragma once

#include <vector>

namespace qgpu {

// "QGPU" in the database header: another program's file is not taken for one of ours.
inline constexpr int kApplicationId = 0x51475055;

// SQL of every step. The schema version (`user_version`) is their number.
const std::vector<const char*>& SchemaSteps();

}  // namespace qgpu
