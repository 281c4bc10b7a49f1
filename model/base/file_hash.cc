#include "model/base/file_hash.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "common/check.h"
#include "openssl/evp.h"

namespace qgpu {

absl::StatusOr<std::string> FileSha256(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::string message = fmt::format("cannot open {}: {}", path, std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
  }
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } closer{fd};
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{} is not a regular file", path));
  }
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  QGPU_CHECK(EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) == 1, "SHA-256 is unavailable");
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
    if (got == 0) break;
    QGPU_CHECK(EVP_DigestUpdate(digest.get(), buffer.data(), got) == 1, path);
  }
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  QGPU_CHECK(EVP_DigestFinal_ex(digest.get(), bytes, &size) == 1, path);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

}  // namespace qgpu
