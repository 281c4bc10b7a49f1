#include "coordinator/store/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "fmt/format.h"

namespace qgpu {

absl::StatusOr<RunLock> RunLock::Take(const std::string& database_path, int64_t run_id) {
  // A file of its own: SQLite's locks on the database end when any descriptor of it is closed. By its real name, so
  // that a link to the database leads to the same lock.
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(database_path, error);
  const std::string path = (error ? database_path : real.string()) + ".lock";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) {
    return absl::FailedPreconditionError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  }
  RunLock lock(file);
  struct flock region = {};
  region.l_type = F_WRLCK;
  region.l_whence = SEEK_SET;
  region.l_start = run_id;
  region.l_len = 1;
  // Of the open file, not of the process: a second store of this process is somebody else too.
  if (fcntl(file, F_OFD_SETLK, &region) == 0) return lock;
  if (errno != EAGAIN && errno != EACCES) {
    return absl::UnavailableError(fmt::format("cannot lock {}: {}", path, std::strerror(errno)));
  }
  return absl::FailedPreconditionError(
      fmt::format("run {} of {} is being run by another coordinator", run_id, database_path));
}

RunLock::RunLock(RunLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

RunLock::~RunLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace qgpu
