// A case of the drift suite: one text through one probe, measured by a worker position by position, judged here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/run/suite_case.h"
#include "evals/drift/probe.h"
#include "evals/drift/texts.h"

namespace qgpu {

struct DriftOptions {
  int64_t positions = 128;       // of each text, from its beginning; 0: all
  int64_t chunk = 64;            // fed at once, kept at once
  int64_t limit_ms = 3'600'000;  // a measurement, from the worker's loading of models to the last row
};

// What is measured where nobody says otherwise: every form and type on text alone, and after a launch in float32. After
// a launch only KL exactly 0 (split) and the machine ids' share are promised, and the type changes neither.
const std::vector<DriftProbe>& DefaultDriftProbes();
// Of the words: "default", "all", or names. Each once. kInvalidArgument listing the names there are.
absl::StatusOr<std::vector<DriftProbe>> DriftProbesNamed(const std::vector<std::string>& words);

struct DriftSuite {
  std::string name = "drift";
  std::string hash;                                     // SHA-256 over the name and the cases' ids and hashes, in order
  std::vector<std::shared_ptr<const SuiteCase>> cases;  // probe by probe: a worker loads a probe's models once
};
// Errors: kInternal where the kernel of the launches is not shipped.
absl::StatusOr<DriftSuite> MakeDriftSuite(const std::vector<DriftProbe>& probes, const std::vector<DriftText>& texts,
                                          const DriftOptions& options);

// The statistics of a complete measurement as an attempt's samples, computed from its rows.
std::vector<Sample> DriftSamples(const DriftRow& row);

}  // namespace qgpu
