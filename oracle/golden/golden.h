// Golden files: what a device computed for the launches of a suite, with what is needed to tell whether it answers a
// launch of today (docs/formats/golden.md). They stand in for the device on machines that have none. A file is
// untrusted input: whatever is in it, reading it ends in a file that keeps every rule here, or in an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/status.h"
#include "kernels/launch_spec.h"
#include "oracle/native_cuda/cuda_device.h"

namespace qgpu {

inline constexpr size_t kMaxGoldenBytes = size_t{16} << 20;
inline constexpr size_t kMaxGoldenResults = 20'000;

// What has to be the same for a result to be the answer: SHA-256 of each.
struct GoldenKey {
  std::string source;  // the kernel file's text
  std::string ptx;     // as compiled; the same text where the source is PTX
  std::string launch;  // entry, shape, arguments; neither the token budget nor which buffers are shown
  auto operator<=>(const GoldenKey&) const = default;
};
GoldenKey KeyOf(const LaunchSpec& spec, const std::string& ptx, const std::string& entry);

struct GoldenResult {
  std::string case_id;  // "dot/demo"
  std::string entry;    // the kernel's name in the PTX
  GoldenKey key;
  std::string ptx_version, ptx_target;  // "6.4", "sm_75"
  MemoryImage memory;                   // every word of the arena after the launch
};

struct GoldenFile {
  std::string recorded;  // "2026-11-30T10:15:00Z"
  std::string recorder;  // "qgpu-oracle 0.1.0, commit 0123456789ab"
  std::string suite, suite_hash;
  CudaDevice device;
  std::vector<GoldenResult> results;
};

std::string GoldenToJson(const GoldenFile& file);
// kInvalidArgument naming `origin`, the place and what is wrong.
absl::StatusOr<GoldenFile> GoldenFromJson(const std::string& json, const std::string& origin);

// Answers launches from one file.
class GoldenAnswers {
 public:
  static absl::StatusOr<GoldenAnswers> Read(const std::string& path);

  // The result of exactly this launch of exactly this PTX of exactly this source.
  // kNotFound "not in the golden file ...", saying which of the three is another.
  absl::StatusOr<const GoldenResult*> Find(const LaunchSpec& spec, const std::string& ptx,
                                           const std::string& entry) const;

  const GoldenFile& file() const { return file_; }
  // "golden (recorded 2026-11-30T10:15:00Z on Tesla T4, ...; file 0123456789ab)", with the file's SHA-256 shortened.
  const std::string& witness() const { return witness_; }

 private:
  std::string path_, witness_;
  GoldenFile file_;
  std::map<GoldenKey, size_t> by_key_;  // index into file_.results
};

}  // namespace qgpu
