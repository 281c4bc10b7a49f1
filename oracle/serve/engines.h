// The oracle's engines, each run in a process of its own: RunInChild on the server's side, RunJobFile in the child.
#pragma once

#include <string>

#include "common/status.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "qgpu/v1/engine_job.pb.h"

namespace qgpu {

inline constexpr const char* kEngineNativeCuda = "native-cuda";
inline constexpr const char* kEngineNativeCpu = "native-cpu";
inline constexpr const char* kEngineGolden = "golden";
inline constexpr const char* kEngineInterpreter = "interpreter";
inline constexpr int kDefaultEngineTimeMs = 10'000;
inline constexpr int kMaxEngineTimeMs = 600'000;

// Beyond the engine's own limit the child gets this much for starting and compiling. Drivers take seconds to start on
// machines of many devices.
inline constexpr int kChildGraceMs = 10'000;
inline constexpr int kCudaGraceMs = 40'000;

// How long the request lets an engine run.
int EngineTimeMs(const v1::OracleRunRequest& request);

// The job that runs `spec` (whose PTX is `source`) on `engine`.
v1::EngineJob MakeJob(const std::string& engine, const v1::OracleRunRequest& request, const PtxSource& source);

// Runs the job here, in this process. Whatever the kernel does is in the reply; kUnavailable where a device failed.
absl::StatusOr<v1::EngineJobReply> RunJob(const v1::EngineJob& job);

// Runs the job in a child, `program run-job JOB REPLY`, within the job's time limit. The child is sandboxed, except for
// native-cuda, whose driver needs the machine's devices. A child that crashes or hangs is an outcome. kUnavailable when
// none could be started or its device failed, kInternal when it left no reply. `grace_ms` 0: the engine's.
absl::StatusOr<v1::EngineJobReply> RunInChild(const std::string& program, const v1::EngineJob& job, int grace_ms = 0);

// The child's side: reads the job, runs it, writes the reply.
absl::Status RunJobFile(const std::string& job_path, const std::string& reply_path);

// An engine's refusal of a kernel, as an outcome.
void SetRefusal(const absl::Status& status, v1::OracleResult& result);

}  // namespace qgpu
