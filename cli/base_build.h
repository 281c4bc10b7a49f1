// A base model and the circuit for it: what `qgpu build` makes and `qgpu inspect` foretells.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "model/base/checkpoint.h"
#include "model/weights/circuit.h"

namespace qgpu {

struct BuiltCircuit;  // model/weights/build_circuit.h

struct BaseBuild {
  std::shared_ptr<const Checkpoint> base;
  std::shared_ptr<const BuiltCircuit> built;
  std::shared_ptr<const Circuit> circuit;  // of `built`
  ModelShape dense;                        // of both merged into one checkpoint
};

// Opens the base in `directory` and builds its circuit. Errors of Checkpoint::Open and of BuildCircuit;
// kFailedPrecondition, with the reason, for a base that cannot carry the circuit.
absl::StatusOr<BaseBuild> BuildForBase(const std::string& directory);

// What becomes of the base in the dense form, some lines: sizes, what is padded, parameters and bytes.
std::string DescribeDenseForm(const BaseBuild& build);

}  // namespace qgpu
