// The engines that an oracle has, and which of them answers for the native side: native-cuda where there is a device,
// else native-cpu, unless told otherwise.
#pragma once

#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "common/status.h"
#include "lowering/ptx_cache/ptx_cache.h"
#include "oracle/golden/golden.h"
#include "proto/limits.h"
#include "qgpu/v1/engine_job.pb.h"

namespace qgpu {

struct EngineChoice {
  std::string native = "auto";  // auto, native-cuda, native-cpu, golden
  std::string golden;           // a golden file; with `auto` it answers
};

class EngineSet {
 public:
  // Looks for a device and reads the golden file. `program` is qgpu-oracle's own file, started again for every run.
  // kFailedPrecondition "native-cuda: not run: ..." where it is chosen and there is no device; a bad golden file or a
  // choice that makes no sense: kInvalidArgument, kNotFound.
  static absl::StatusOr<std::unique_ptr<EngineSet>> Make(const std::string& program, const EngineChoice& choice);

  // All of them, also those that cannot run here.
  const std::vector<v1::Engine>& engines() const { return engines_; }
  const v1::Engine& native() const;  // the one that answers

  // Compiles the request's kernel and runs it, in a process of its own. What happens to the kernel, and that the engine
  // has no device or no golden result, is in the reply. Thread safe.
  //   kInvalidArgument   no such engine, a bad request
  //   kUnavailable, ...  infrastructure
  absl::StatusOr<v1::EngineJobReply> Run(const std::string& engine, const v1::OracleRunRequest& request);

  // The PTX that Run would run.
  absl::StatusOr<PtxSource> Compile(const LaunchSpec& spec) { return cache_.Get(spec); }

 private:
  explicit EngineSet(std::string program) : program_(std::move(program)) {}
  void Add(const std::string& name, const std::string& witness, bool is_native, const std::string& not_run);
  absl::Status Choose(const EngineChoice& choice);
  v1::EngineJobReply AnswerFromGolden(const LaunchSpec& spec, const PtxSource& source) const;

  std::string program_;
  std::vector<v1::Engine> engines_;
  std::optional<GoldenAnswers> golden_;
  PtxCache cache_;
  std::counting_semaphore<kMaxOracleProcesses> processes_{kMaxOracleProcesses};
};

}  // namespace qgpu
