// A server program of the project as a child of this one: started on loopback and any free port, found by the line it
// prints, ended with us whatever happens to us.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/address.h"

namespace qgpu {

class LocalProgram {
 public:
  // Starts `path` with `arguments` and the flags that tie it to us, and waits until it listens, at most `ready_ms`.
  // The child's stderr is ours.
  //   kFailedPrecondition  there is no such program, or it ended with exit code 2: what it was given is wrong, it said
  //   so kUnavailable         it could not be started, ended otherwise, or does not listen in time
  static absl::StatusOr<std::unique_ptr<LocalProgram>> Start(const std::string& path,
                                                             const std::vector<std::string>& arguments,
                                                             int64_t ready_ms = 120'000);
  ~LocalProgram();

  const Address& address() const { return address_; }
  // How it ended ("died of signal 9 (Killed)"), waiting for it at most `wait_ms`; empty while it runs.
  std::string Ended(int64_t wait_ms);
  // Closes its stdin, which asks it to end, then kills it.
  void Stop();

 private:
  LocalProgram() = default;
  absl::Status Spawn(const std::string& path, const std::vector<std::string>& arguments);
  absl::StatusOr<std::string> ReadReadyLine(int64_t ready_ms);
  absl::Status StartFailure(const std::string& what);

  std::string path_;
  pid_t pid_ = -1;
  int stdin_ = -1, stdout_ = -1;
  int wait_status_ = 0;
  bool is_reaped_ = false;
  Address address_;
};

}  // namespace qgpu
