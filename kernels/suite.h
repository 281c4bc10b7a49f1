// Suites: which kernels are run, on which arguments, and what is expected of the run. Suites and kernels are embedded
// into the programs, so that nothing needs to be installed beside them; docs/formats/suite.md describes the files.
// A suite holds no expected outputs: engines are compared with each other (and in kernels_test.cc with plain C++).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"

namespace qgpu {

struct KernelCase {
  enum class Expect {
    kResult,   // the launch ends with DONE
    kTrap,     // the machine ends it with TRAP; native engines do not take part
    kRefusal,  // the kernel is refused before anything runs
  };
  std::string suite;
  std::string kernel;     // short name, also the .cu file's
  std::string case_name;  // unique within (suite, kernel)
  LaunchSpec spec;        // with the source's text
  Expect expect = Expect::kResult;
  std::string expect_text;  // must occur in the trap's or refusal's message; may be empty
  std::string hash;         // SHA-256 of everything above but `suite`

  std::string Id() const { return kernel + "/" + case_name; }
};

struct KernelSuite {
  std::string name;
  std::string hash;  // SHA-256 over the name and the cases' ids and hashes, in order
  std::vector<KernelCase> cases;

  std::vector<std::string> KernelNames() const;  // in order of first appearance
};

// Text of the kernel file `name` ("dot.cu"), or an error naming where it was looked for.
using KernelSourceReader = std::function<absl::StatusOr<std::string>(const std::string& name)>;

// Parses a suite file. kInvalidArgument naming `origin`, the place in the JSON, and what is wrong.
absl::StatusOr<KernelSuite> ParseSuite(const std::string& json_text, const std::string& origin,
                                       const KernelSourceReader& read_source);

// A suite by name ("kernels") from what is embedded, or from a file when `name_or_path` ends in ".json" (its kernels
// are then read from the folder its "sources" key names, relative to the file). kNotFound listing the embedded suites
// after `other_names`, those that the caller knows besides; or ParseSuite's errors.
absl::StatusOr<KernelSuite> LoadSuite(const std::string& name_or_path,
                                      const std::vector<std::string>& other_names = {});

std::vector<std::string> EmbeddedSuiteNames();
// Text of an embedded kernel file, "dot.cu". kNotFound.
absl::StatusOr<std::string> EmbeddedKernelSource(const std::string& file_name);

}  // namespace qgpu
