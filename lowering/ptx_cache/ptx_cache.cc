#include "lowering/ptx_cache/ptx_cache.h"

#include <algorithm>

#include "common/sha256.h"
#include "lowering/cuda_to_ptx/cuda_to_ptx.h"

namespace qgpu {

struct PtxCache::Compiled {
  absl::StatusOr<CompiledPtx> result;
};

absl::StatusOr<PtxSource> PtxCache::Get(const LaunchSpec& spec) {
  if (spec.source.language == SourceLanguage::kPtx) {
    return PtxSource{spec.source.name, spec.source.text, spec.kernel, "", {}};
  }
  const std::string hash = Sha256Hex(fmt::format("{}\n{}", spec.source.name, spec.source.text));
  std::promise<std::shared_ptr<const Compiled>> promise;
  Future future;
  bool is_mine = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = by_hash_.find(hash);
    if (found != by_hash_.end()) {
      future = found->second;
    } else {
      is_mine = true;
      future = promise.get_future().share();
      by_hash_.emplace(hash, future);
      oldest_first_.push_back(hash);
      if (oldest_first_.size() > capacity_) {
        by_hash_.erase(oldest_first_.front());
        oldest_first_.pop_front();
      }
    }
  }
  if (is_mine) promise.set_value(std::make_shared<const Compiled>(Compiled{CompileCudaToPtx(spec.source)}));
  const std::shared_ptr<const Compiled> compiled = future.get();
  if (!compiled->result.ok()) {
    if (is_mine && !absl::IsInvalidArgument(compiled->result.status())) {
      std::lock_guard lock(mutex_);
      by_hash_.erase(hash);
      oldest_first_.remove(hash);
    }
    return compiled->result.status();
  }
  QGPU_ASSIGN_OR_RETURN(const CompiledKernel* kernel, FindKernel(*compiled->result, spec.kernel));
  return PtxSource{spec.source.name + ".ptx", compiled->result->ptx, kernel->ptx_name, kernel->name,
                   kernel->ParameterNames()};
}

}  // namespace qgpu
