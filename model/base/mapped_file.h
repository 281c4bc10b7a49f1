// A file mapped for reading that other programs may shorten at any time. Touching a mapped page that is no longer there
// raises SIGBUS, which would end the program; here it is an error of the read.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/status.h"

namespace qgpu {

class MappedFile {
 public:
  // Maps the file. kNotFound, kPermissionDenied, kUnavailable: it cannot be opened or mapped. kInvalidArgument: not a
  // regular file with content. Sets the process's handler of SIGBUS; what does not concern a MappedFile goes on to the
  // handler before.
  static absl::StatusOr<std::unique_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  // To be touched in Read only.
  std::string_view bytes() const { return {begin_, size_}; }

  // Runs `read`, which may touch bytes(). kUnavailable, naming the file: it has become shorter or a page could not be
  // read, and `read` may have seen zeros in its place. Thread-safe; not within another Read of the same thread.
  absl::Status Read(const std::function<void()>& read) const;

  // Gives back the memory of the pages that were touched; they stay in the page cache.
  void ReleasePages() const;

 private:
  friend struct SigbusGuard;
  MappedFile() = default;

  std::string path_;
  int fd_ = -1;
  char* begin_ = nullptr;
  uint64_t size_ = 0;
  mutable std::atomic<bool> is_torn_ = false;  // zeros lie where pages could not be read
};

}  // namespace qgpu
