// Exit codes, the same on every program of the project.
#pragma once

#include "absl/status/status.h"

namespace qgpu {

enum ExitCode : int {
  kExitGood = 0,            // everything asked for was done and is right
  kExitWrong = 1,           // a wrong answer: a disagreement, a trap, an exhausted token budget
  kExitUsage = 2,           // usage or configuration: bad flag, file, kernel, checkpoint, database, occupied port
  kExitRegression = 3,      // right answers, but worse than the baseline
  kExitInfrastructure = 4,  // nothing can be concluded: a peer was lost, the disk is full
  kExitNoBaseline = 5,      // no comparable baseline
};

// How a program ends on an error: kAborted (a launch that trapped or ran out of its budget) and kDataLoss (a
// disagreement) are wrong answers; kUnavailable, kDeadlineExceeded, kInternal and kResourceExhausted are
// infrastructure; everything else is the user's to correct.
inline ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitGood;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDataLoss:
      return kExitWrong;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kResourceExhausted:
      return kExitInfrastructure;
    default:
      return kExitUsage;
  }
}

}  // namespace qgpu
