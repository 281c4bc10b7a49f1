// The oracle's engines, each run in a process of its own: RunInChild on the server's side, RunJobFile in the child.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "qgpu/v1/engine_job.pb.h"

namespace qgpu {

inline constexpr const char* kEngineNativeCpu = "native-cpu";
inline constexpr const char* kEngineInterpreter = "interpreter";
inline constexpr int kDefaultEngineTimeMs = 10'000;
inline constexpr int kMaxEngineTimeMs = 600'000;

// What this oracle has, with the witness's name on this machine.
std::vector<v1::Engine> Engines();

// The job that runs `spec` (whose PTX is `source`) on `engine`.
v1::EngineJob MakeJob(const std::string& engine, const v1::OracleRunRequest& request, const PtxSource& source);

// Runs the job here, in this process. Whatever the kernel does is in the reply.
v1::EngineJobReply RunJob(const v1::EngineJob& job);

// Runs the job in a sandboxed child, `program run-job JOB REPLY`, within the job's time limit. A child that crashes or
// hangs is an outcome. kUnavailable when none could be started, kInternal when it left no reply.
absl::StatusOr<v1::EngineJobReply> RunInChild(const std::string& program, const v1::EngineJob& job);

// The child's side: reads the job, runs it, writes the reply.
absl::Status RunJobFile(const std::string& job_path, const std::string& reply_path);

}  // namespace qgpu
