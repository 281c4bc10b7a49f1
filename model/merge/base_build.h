// A base model and the circuit for it: what `qgpu build` makes, `qgpu inspect` foretells and a worker hosts.
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

// The base in `directory`. Errors of Checkpoint::Open; kFailedPrecondition, with the reason, for one that cannot carry
// the circuit or does already.
absl::StatusOr<std::shared_ptr<const Checkpoint>> OpenBase(const std::string& directory);

// The same with its circuit, built for it. Errors of OpenBase and of BuildCircuit.
absl::StatusOr<BaseBuild> BuildForBase(const std::string& directory);

// What becomes of the base in the dense form, some lines: sizes, what is padded, parameters and bytes.
std::string DescribeDenseForm(const BaseBuild& build);

}  // namespace qgpu
