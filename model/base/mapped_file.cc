#include "model/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "common/check.h"

namespace qgpu {

// What the signal handler knows of the read in progress.
struct SigbusGuard {
  static thread_local const MappedFile* reading;
  static struct sigaction before;

  // Puts zeros where the file has no pages any more, so that the read can run to its end and be refused there.
  static bool PutZeros(const char* at) {
    const MappedFile* file = reading;
    if (file == nullptr || at < file->begin_ || at >= file->begin_ + file->size_) return false;
    file->is_torn_.store(true);
    const uint64_t page_size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t first = static_cast<uint64_t>(at - file->begin_) / page_size * page_size;
    return mmap(file->begin_ + first, file->size_ - first, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
  }

  static void Handle(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    const bool is_ours = PutZeros(static_cast<const char*>(info->si_addr));
    errno = error;
    if (is_ours) return;
    if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
    sigaction(SIGBUS, &before, nullptr);  // the access is tried again, and ends as it would have without us
  }

  static bool Install() {
    struct sigaction action = {};
    action.sa_sigaction = Handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    QGPU_CHECK(sigaction(SIGBUS, &action, &before) == 0, "no handler of SIGBUS");
    return true;
  }
};
thread_local const MappedFile* SigbusGuard::reading = nullptr;
struct sigaction SigbusGuard::before;

absl::StatusOr<std::unique_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  [[maybe_unused]] static const bool is_installed = SigbusGuard::Install();
  std::unique_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe does not wait for its writer
  if (file->fd_ < 0) {
    const int error = errno;
    const std::string message = fmt::format("cannot open {}: {}", path, std::strerror(error));
    if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
    if (error == ELOOP || error == ENAMETOOLONG) return absl::InvalidArgumentError(message);
    return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }
  struct stat info;
  if (fstat(file->fd_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) {
    return absl::InvalidArgumentError(path + ": not a regular file with content");
  }
  void* mapping = mmap(nullptr, info.st_size, PROT_READ, MAP_SHARED, file->fd_, 0);
  if (mapping == MAP_FAILED) {
    return absl::UnavailableError(fmt::format("cannot map {}: {}", path, std::strerror(errno)));
  }
  file->begin_ = static_cast<char*>(mapping);
  file->size_ = info.st_size;
  return file;
}

MappedFile::~MappedFile() {
  if (begin_ != nullptr) munmap(begin_, size_);
  if (fd_ >= 0) close(fd_);
}

absl::Status MappedFile::Read(const std::function<void()>& read) const {
  QGPU_CHECK(SigbusGuard::reading == nullptr, path_);
  {
    struct Scope {
      ~Scope() { SigbusGuard::reading = nullptr; }
    } scope;
    SigbusGuard::reading = this;
    read();
  }
  // The end of the last page is zeros without a signal, and another thread's read may have put the zeros there.
  struct stat info;
  const bool is_whole = fstat(fd_, &info) == 0 && static_cast<uint64_t>(info.st_size) >= size_;
  if (is_whole && !is_torn_.load()) return absl::OkStatus();
  return absl::UnavailableError(
      is_whole
          ? fmt::format("{}: a part of the file could not be read", path_)
          : fmt::format("{}: the file had {} bytes when it was opened and has {} now; something else is writing it",
                        path_, size_, info.st_size));
}

void MappedFile::ReleasePages() const { madvise(begin_, size_, MADV_DONTNEED); }

}  // namespace qgpu
