// The drift suite: which forms and types of a merged model are compared with its base on which texts, and what each
// comparison promises. Shared by the coordinator, which plans and judges, and the worker, which measures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "evals/drift/statistics.h"

namespace qgpu {

// Names: "split-float32", "split-bfloat16", "dense-float32", "dense-bfloat16", and with "-after-launch" behind them.
struct DriftProbe {
  enum class Form { kSplit, kDense };
  Form form = Form::kSplit;
  bool bfloat16 = false;      // type of the merged model; else float32
  bool after_launch = false;  // a launch precedes the text in the same conversation; the base is not fed it

  std::string Name() const;
  bool operator==(const DriftProbe&) const = default;
};
// kInvalidArgument listing the names there are.
absl::StatusOr<DriftProbe> DriftProbeFromName(const std::string& name);
// All of them, those that share models beside each other.
const std::vector<DriftProbe>& AllDriftProbes();

}  // namespace qgpu
