#include "common/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace qgpu {
namespace {

absl::Status FileError(std::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message = fmt::format("{} {}: {}", what, path, std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(message);
  if (error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG) return absl::InvalidArgumentError(message);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("cannot open", path);
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(fmt::format("{} is a directory; a file is expected", path));
  }
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      absl::Status error = FileError("cannot read", path);
      close(fd);
      return error;
    }
    if (got == 0) break;
    if (bytes.size() + got > max_bytes) {
      close(fd);
      return absl::InvalidArgumentError(fmt::format("{} is larger than the limit of {} bytes", path, max_bytes));
    }
    bytes.append(buffer, got);
  }
  close(fd);
  return bytes;
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.tmp.{}", path, getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FileError("cannot create", temporary);
  absl::Status status;
  while (status.ok() && !bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno != EINTR) status = FileError("cannot write", temporary);
    if (put > 0) bytes.remove_prefix(put);
  }
  if (status.ok() && fsync(fd) != 0) status = FileError("cannot sync", temporary);
  if (close(fd) != 0 && status.ok()) status = FileError("cannot close", temporary);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = FileError("cannot rename to", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace qgpu
