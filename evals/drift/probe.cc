#include "evals/drift/probe.h"

namespace qgpu {

std::string DriftProbe::Name() const {
  std::string name = form == Form::kSplit ? "split" : "dense";
  name += bfloat16 ? "-bfloat16" : "-float32";
  if (after_launch) name += "-after-launch";
  return name;
}

const std::vector<DriftProbe>& AllDriftProbes() {
  static const std::vector<DriftProbe> all = [] {
    std::vector<DriftProbe> probes;
    for (const DriftProbe::Form form : {DriftProbe::Form::kSplit, DriftProbe::Form::kDense}) {
      for (const bool bfloat16 : {false, true}) {
        for (const bool after_launch : {false, true}) probes.push_back({form, bfloat16, after_launch});
      }
    }
    return probes;
  }();
  return all;
}

absl::StatusOr<DriftProbe> DriftProbeFromName(const std::string& name) {
  std::string names;
  for (const DriftProbe& probe : AllDriftProbes()) {
    if (probe.Name() == name) return probe;
    names += (names.empty() ? "" : ", ") + probe.Name();
  }
  constexpr size_t kShown = 64;
  return absl::InvalidArgumentError(
      fmt::format("no drift probe is called \"{}\"; there are {}", name.substr(0, kShown), names));
}

}  // namespace qgpu
