// Who runs a run: a lock on the byte RUN of the file DATABASE.lock. The system takes it back when its owner ends,
// however that comes, so that a run whose coordinator was killed can be taken up and one that is running cannot.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace qgpu {

class RunLock {
 public:
  // kFailedPrecondition: another holds it, in this process or any other. Others: the file cannot be made or locked.
  static absl::StatusOr<RunLock> Take(const std::string& database_path, int64_t run_id);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();

 private:
  explicit RunLock(int file) : file_(file) {}
  int file_ = -1;
};

}  // namespace qgpu
