#include "model/merge/partial_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/file.h"
#include "common/sha256.h"
#include "model/base/file_hash.h"
#include "model/base/untrusted_json.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kJournal = "qgpu_export.json";
constexpr size_t kMaxJournalBytes = size_t{16} << 20;

absl::Status FileSystemError(const std::string& what, int error) {
  const std::string message = fmt::format("{}: {}", what, std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

// Files that the journal of an interrupted run with this identity lists; none where there is no such run.
std::map<std::string, PartialFolder::File> ReadJournal(const std::string& path, const std::string& identity) {
  std::map<std::string, PartialFolder::File> files;
  const absl::StatusOr<std::string> text = ReadUntrustedText(path, kMaxJournalBytes);
  const absl::StatusOr<json> journal = text.ok() ? ParseUntrustedJson(*text) : text.status();
  if (!journal.ok() || !journal->is_object() || journal->value("identity", json()) != json(identity)) return files;
  const json listed = journal->value("files", json::object());
  if (!listed.is_object()) return files;
  for (const auto& [name, entry] : listed.items()) {
    if (name.find('/') != name.npos || !entry.is_object()) continue;
    const json bytes = entry.value("bytes", json()), digest = entry.value("sha256", json());
    if (bytes.is_number_unsigned() && digest.is_string()) files[name] = {bytes, digest};
  }
  return files;
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileSystemError("cannot open " + path, errno);
  const int failed = fsync(fd) != 0 ? errno : 0;
  close(fd);
  return failed != 0 ? FileSystemError("cannot sync " + path, failed) : absl::OkStatus();
}

}  // namespace

PartialFolder::PartialFolder(std::string out, std::string identity)
    : out_(std::move(out)), path_(out_ + ".partial"), identity_(std::move(identity)) {}

PartialFolder::~PartialFolder() {
  if (lock_ >= 0) close(lock_);
}

absl::StatusOr<std::unique_ptr<PartialFolder>> PartialFolder::Open(const std::string& out,
                                                                   const std::string& identity) {
  const std::string clean = fs::path(out + "/").parent_path().lexically_normal();
  std::unique_ptr<PartialFolder> folder(new PartialFolder(clean, identity));
  std::error_code error;
  fs::create_directories(folder->path_, error);
  if (error) return FileSystemError("cannot create " + folder->path_, error.value());
  QGPU_RETURN_IF_ERROR(folder->Lock());
  if (fs::exists(clean, error)) {
    fs::remove(folder->path_, error);  // only if empty
    return absl::AlreadyExistsError(fmt::format("{} exists; remove it or name another directory", clean));
  }
  QGPU_RETURN_IF_ERROR(folder->TakeUp());
  return folder;
}

absl::Status PartialFolder::Lock() {
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) return FileSystemError("cannot open " + path_, errno);
  struct stat locked, named;
  const bool is_free = flock(lock_, LOCK_EX | LOCK_NB) == 0;
  // Whoever had the lock may have renamed or removed the folder since it was opened.
  const bool is_same = is_free && fstat(lock_, &locked) == 0 && stat(path_.c_str(), &named) == 0 &&
                       locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
  if (is_same) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("{} is being written by another process", path_));
}

// Whatever the journal says, only what lies in the folder is kept or removed.
absl::Status PartialFolder::TakeUp() {
  const std::string journal = path_ + "/" + kJournal;
  std::map<std::string, File> listed = ReadJournal(journal, identity_);
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    found.push_back(at->path());
  }
  if (error) return FileSystemError("cannot list " + path_, error.value());
  const bool is_ours = found.empty() || std::any_of(found.begin(), found.end(), [](const fs::path& path) {
                         return path.filename().string().starts_with(kJournal);
                       });
  if (!is_ours) {
    return absl::AlreadyExistsError(
        fmt::format("{} exists and is no interrupted export; remove it or name another directory", path_));
  }
  for (const fs::path& path : found) {
    const std::string name = path.filename();
    const auto entry = listed.find(name);
    const bool is_whole = entry != listed.end() && fs::is_regular_file(fs::symlink_status(path, error)) &&
                          fs::file_size(path, error) == entry->second.bytes &&
                          FileSha256(path).value_or("") == entry->second.sha256;
    if (is_whole) {
      files_[name] = entry->second;
    } else if (name != kJournal) {
      fs::remove_all(path, error);
    }
  }
  return WriteJournal();
}

std::map<std::string, PartialFolder::File> PartialFolder::files() const {
  std::map<std::string, File> all = texts_;
  all.insert(files_.begin(), files_.end());
  return all;
}

absl::StatusOr<uint64_t> PartialFolder::FreeBytes() const {
  struct statvfs figures;
  if (statvfs(path_.c_str(), &figures) != 0) return FileSystemError("cannot ask for the space at " + path_, errno);
  return uint64_t{figures.f_bavail} * figures.f_frsize;
}

absl::Status PartialFolder::WriteText(const std::string& name, const std::string& text) {
  QGPU_RETURN_IF_ERROR(WriteFileAtomically(path_ + "/" + name, text));
  texts_[name] = {text.size(), Sha256Hex(text)};
  return absl::OkStatus();
}

absl::Status PartialFolder::Complete(const std::string& name, const std::string& sha256) {
  const std::string part = PartName(name);
  std::error_code error;
  const uint64_t bytes = fs::file_size(part, error);
  if (error || std::rename(part.c_str(), (path_ + "/" + name).c_str()) != 0) {
    return FileSystemError("cannot rename " + part, error ? error.value() : errno);
  }
  files_[name] = {bytes, sha256};
  return WriteJournal();
}

absl::Status PartialFolder::WriteJournal() const {
  json files = json::object();
  for (const auto& [name, file] : files_) files[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  return WriteFileAtomically(path_ + "/" + kJournal, json{{"identity", identity_}, {"files", files}}.dump(1) + "\n");
}

// The journal goes last: a folder that is complete but for its name can still be taken up.
absl::Status PartialFolder::Publish() {
  QGPU_RETURN_IF_ERROR(SyncFolder(path_));
  if (std::rename(path_.c_str(), out_.c_str()) != 0) {
    return FileSystemError(fmt::format("cannot rename {} to {}", path_, out_), errno);
  }
  unlink((out_ + "/" + kJournal).c_str());
  return SyncFolder(fs::path(out_).has_parent_path() ? fs::path(out_).parent_path().string() : ".");
}

void PartialFolder::Discard() {
  std::error_code error;
  fs::remove_all(path_, error);
}

}  // namespace qgpu
