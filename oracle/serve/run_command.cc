#include <cstdio>
#include <filesystem>

#include "common/exit_code.h"
#include "common/file.h"
#include "common/json_text.h"
#include "oracle/serve/commands.h"
#include "proto/convert.h"

namespace qgpu {
namespace {

using nlohmann::ordered_json;

void Print(const ordered_json& json) { std::fputs((JsonText(json) + "\n").c_str(), stdout); }

struct Outcome {
  const char* name;
  ExitCode exit_code;
};

Outcome Describe(v1::OracleOutcome outcome) {
  switch (outcome) {
    case v1::ORACLE_OUTCOME_DONE:
      return {"done", kExitGood};
    case v1::ORACLE_OUTCOME_TRAP:
      return {"trap", kExitWrong};
    case v1::ORACLE_OUTCOME_BUDGET:
      return {"budget", kExitWrong};
    case v1::ORACLE_OUTCOME_TIMEOUT:
      return {"timeout", kExitWrong};
    case v1::ORACLE_OUTCOME_REFUSED:
      return {"refused", kExitUsage};
    case v1::ORACLE_OUTCOME_UNSUPPORTED:
      return {"unsupported", kExitUsage};
    case v1::ORACLE_OUTCOME_NOT_RUN:
      return {"not_run", kExitUsage};
    default:
      return {"crash", kExitInfrastructure};
  }
}

absl::StatusOr<LaunchSpec> ReadLaunch(const RunCommandOptions& options) {
  LaunchSpec spec;
  if (!options.launch.empty()) {
    QGPU_ASSIGN_OR_RETURN(spec, ReadLaunchSpec(options.launch));
  }
  const std::filesystem::path path(options.file);
  if (path.extension() != ".cu" && path.extension() != ".ptx") {
    return absl::InvalidArgumentError(options.file + ": expected a .cu or a .ptx file");
  }
  spec.source.language = path.extension() == ".ptx" ? SourceLanguage::kPtx : SourceLanguage::kCuda;
  spec.source.name = ValidUtf8(path.filename());  // it travels in a message
  QGPU_ASSIGN_OR_RETURN(spec.source.text, ReadFile(options.file, kMaxSourceBytes));
  return spec;
}

ordered_json ToJson(const v1::NativeDevice& device) {
  return {{"name", device.name()},
          {"compute_capability", device.compute_capability()},
          {"cuda_version", device.cuda_version()},
          {"driver_version", device.driver_version()},
          {"multiprocessors", device.multiprocessors()},
          {"sm_clock_khz", device.sm_clock_khz()},
          {"memory_clock_khz", device.memory_clock_khz()},
          {"ptx_version", device.ptx_version()},
          {"ptx_target", device.ptx_target()}};
}

}  // namespace

absl::StatusOr<int> RunCommand(EngineSet& engines, const RunCommandOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const LaunchSpec spec, ReadLaunch(options));
  const std::string engine = options.engine == "native" ? engines.native().name() : options.engine;
  QGPU_ASSIGN_OR_RETURN(const v1::EngineJobReply reply,
                        engines.Run(engine, ToMessage(spec, options.time_limit_s * 1000LL)));
  const v1::OracleResult& result = reply.result();
  const Outcome outcome = Describe(result.outcome());
  ordered_json json = {{"schema_version", 1},
                       {"engine", engine},
                       {"witness", result.witness()},
                       {"outcome", outcome.name},
                       {"message", result.message()}};
  if (result.outcome() == v1::ORACLE_OUTCOME_DONE) {
    json["memory"] = std::vector<uint32_t>(result.memory().begin(), result.memory().end());
  }
  if (result.has_device()) json["device"] = ToJson(result.device());
  json["compile_ns"] = result.compile_ns();
  json["run_ns"] = result.run_ns();
  Print(json);
  return outcome.exit_code;
}

int EnginesCommand(const EngineSet& engines) {
  ordered_json list = ordered_json::array();
  for (const v1::Engine& engine : engines.engines()) {
    list.push_back({{"name", engine.name()},
                    {"witness", engine.witness()},
                    {"native", engine.is_native()},
                    {"answers", engine.answers_native()},
                    {"not_run", engine.not_run()}});
  }
  Print({{"schema_version", 1}, {"engines", list}});
  return kExitGood;
}

}  // namespace qgpu
