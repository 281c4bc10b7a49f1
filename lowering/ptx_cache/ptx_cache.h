// Sources to PTX, once for each source: a suite asks for the same kernel many times, and the compiler is the slowest
// stage of all.
#pragma once

#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/status.h"
#include "kernels/launch_spec.h"

namespace qgpu {

// A kernel file as PTX, and which of its kernels was asked for.
struct PtxSource {
  std::string ptx_name;  // for messages
  std::string ptx;
  std::string entry;                         // name in the PTX; as asked for where the source is PTX
  std::string kernel;                        // CUDA's name; empty where the source is PTX
  std::vector<std::string> parameter_names;  // CUDA's; empty where the source is PTX
};

// Thread safe. Holds the last `capacity` CUDA sources; a failed compilation is kept as well.
class PtxCache {
 public:
  explicit PtxCache(size_t capacity = 128) : capacity_(capacity) {}

  // The PTX of spec.source and the entry of spec.kernel. Errors are those of CompileCudaToPtx and FindKernel; what is
  // not about the source (kUnavailable, kFailedPrecondition) is forgotten again.
  absl::StatusOr<PtxSource> Get(const LaunchSpec& spec);

 private:
  struct Compiled;
  using Future = std::shared_future<std::shared_ptr<const Compiled>>;

  size_t capacity_;
  std::mutex mutex_;
  std::unordered_map<std::string, Future> by_hash_;
  std::list<std::string> oldest_first_;
};

}  // namespace qgpu
