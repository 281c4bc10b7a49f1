// A folder that is made file by file and appears when it is complete: until then it is "<out>.partial", with a journal
// of the files that are whole. Killed at any time, it can be taken up again where it stood.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/status.h"

namespace qgpu {

class PartialFolder {
 public:
  struct File {
    uint64_t bytes = 0;
    std::string sha256;
  };

  // Makes or takes up `<out>.partial`, locked against other processes. Files that an interrupted run of the same
  // `identity` completed are kept after they were hashed again; everything else in it is removed. kAlreadyExists: `out`
  // exists, or `<out>.partial` does and is not ours. kFailedPrecondition: another process is at it. Errors of the file
  // system.
  static absl::StatusOr<std::unique_ptr<PartialFolder>> Open(const std::string& out, const std::string& identity);
  ~PartialFolder();
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const std::string& path() const { return path_; }
  std::map<std::string, File> files() const;  // all that are whole
  bool has(const std::string& name) const { return files_.contains(name); }
  absl::StatusOr<uint64_t> FreeBytes() const;  // of the file system

  // Writes a small file, whole; the journal does not keep it.
  absl::Status WriteText(const std::string& name, const std::string& text);
  // Takes a file that was written and synced under PartName(name).
  std::string PartName(const std::string& name) const { return path_ + "/" + name + ".part"; }
  absl::Status Complete(const std::string& name, const std::string& sha256);

  // The complete folder becomes `out`, all at once.
  absl::Status Publish();
  // Removes the folder and everything in it.
  void Discard();

 private:
  PartialFolder(std::string out, std::string identity);
  absl::Status Lock();
  absl::Status TakeUp();
  absl::Status WriteJournal() const;

  std::string out_, path_, identity_;
  int lock_ = -1;
  std::map<std::string, File> files_;  // in the journal
  std::map<std::string, File> texts_;  // not in it
};

}  // namespace qgpu
