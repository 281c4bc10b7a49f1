// `qgpu doctor`: what this machine has of the things the project uses, and what to do about what is missing.
#pragma once

#include <string>
#include <vector>

namespace qgpu {

struct Finding {
  enum class State { kFound, kMissing };
  std::string name;
  State state = State::kMissing;
  bool required = false;  // without it `qgpu run` does not work; other things are only missed by some commands
  std::string detail;     // version and place of what was found, or what does not work without it
  std::string remedy;     // empty when found
};

// Where to look. The defaults are this machine's; tests look elsewhere.
struct DoctorPlaces {
  std::string search_path;  // like $PATH
  std::string circuit;      // the circuit file
  std::string environment;  // the project's virtual environment
  std::string cuda_driver = "libcuda.so.1";
};
DoctorPlaces DefaultDoctorPlaces();

// Looks at everything, in a fixed order. Runs `--version` of programs it finds and opens a socket on loopback; changes
// nothing.
std::vector<Finding> Diagnose(const DoctorPlaces& places);

// One line a finding, then one with the remedy of each that is missing.
std::string FormatFindings(const std::vector<Finding>& findings);
std::string FindingsToJson(const std::vector<Finding>& findings);

// True when everything required was found.
bool CanRun(const std::vector<Finding>& findings);

}  // namespace qgpu
