// Runs one untrusted-input program so that it can compute and nothing else: it reads what it is given, writes into one
// scratch folder, opens no socket, starts no process, signals nobody, and ends within its limits.
//
// Three layers, each useful without the others: Landlock (files; Linux 5.13 and later), seccomp (system calls) and
// resource limits with a wall clock. A kernel that lacks a layer gets the rest; ProbeSandbox says which there are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace qgpu {

struct SandboxCommand {
  std::string program;                 // an ELF file; run under its own name, not through PATH
  std::vector<std::string> arguments;  // without argv[0]
  std::vector<std::string> readable;   // files and folders it may read and map, beside the program and `scratch`
  std::string scratch;                 // working folder, and the only place it may write to
  int wall_ms = 20000;
  int cpu_seconds = 15;
  uint64_t address_space_bytes = uint64_t{1} << 30;
  uint64_t file_bytes = uint64_t{4} << 20;  // size of any one file it writes
  size_t message_bytes = 32 << 10;          // of stdout and stderr together; what exceeds it is dropped
};

struct SandboxOutcome {
  enum class End { kExited, kSignal, kWallTime, kCpuTime, kFileSize };
  End end = End::kExited;
  int code = 0;  // exit status, or the signal's number
  std::string messages;
};

// Runs `command` to its end; it leaves no process behind. Safe to call from several threads.
// kUnavailable when the program could not be started (which step failed, and why). Limits that were reached, crashes
// and exit codes are outcomes, not errors.
absl::StatusOr<SandboxOutcome> RunSandboxed(const SandboxCommand& command);

struct SandboxLayers {
  int landlock_abi = 0;  // 0: the kernel has no Landlock, or it is switched off
  bool seccomp = false;

  // One line for `qgpu doctor`: "Landlock (ABI 7), seccomp, resource limits", or what is missing and what follows.
  std::string Describe() const;
};
SandboxLayers ProbeSandbox();

// For tests: as RunSandboxed, but as on a kernel without some of the layers.
absl::StatusOr<SandboxOutcome> RunSandboxedWith(const SandboxLayers& layers, const SandboxCommand& command);

}  // namespace qgpu
