// qgpu-oracle: runs kernels without the model.
#include <unistd.h>

#include <cstdio>

#include "common/command_line.h"
#include "common/version.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "oracle/serve/commands.h"
#include "oracle/serve/engines.h"
#include "oracle/serve/oracle_service.h"
#include "proto/server_flags.h"

namespace qgpu {
namespace {

int ExitWith(const absl::Status& status) {
  fmt::print(stderr, "qgpu-oracle: {}\n", std::string(status.message()));
  return ExitCodeFor(status);
}

// Ends without cleaning up: a kernel that still runs on a device would have to be waited for.
[[noreturn]] void RunJobAndExit(const std::string& job_path, const std::string& reply_path) {
  const absl::Status status = RunJobFile(job_path, reply_path);
  if (!status.ok()) fmt::print(stderr, "{}\n", std::string(status.message()));
  std::fflush(stderr);
  _exit(status.ok() ? kExitGood : kExitInfrastructure);
}

struct Flags {
  ServerOptions server;
  EngineChoice choice;
  RunCommandOptions run;
  RecordCommandOptions record;
  std::string job_path, reply_path;
};

void AddGolden(CLI::App& app, EngineChoice& choice) {
  app.add_option("--golden", choice.golden, "golden file that answers in place of a device (docs/formats/golden.md)");
}

int Run(int argc, char** argv) {
  CLI::App app{"qgpu-oracle: runs kernels natively and through the reference interpreter, for qgpu-coordinator."};
  app.set_version_flag("--version", VersionText("qgpu-oracle", ""));
  Flags flags;
  AddServerFlags(app, flags.server);
  app.add_option("--native", flags.choice.native,
                 "who runs natively; auto: the golden file if one is given, else native-cuda where there is a device, "
                 "else native-cpu")
      ->check(CLI::IsMember({"auto", kEngineNativeCuda, kEngineNativeCpu, kEngineGolden}))
      ->capture_default_str();
  AddGolden(app, flags.choice);
  app.add_subcommand("serve", "be a server; what happens without a subcommand, too")->fallthrough();
  const CLI::App* engines = app.add_subcommand("engines", "what there is to run kernels, as JSON")->fallthrough();

  CLI::App* run = app.add_subcommand("run", "one launch, as JSON")->fallthrough();
  run->add_option("file", flags.run.file, ".cu or .ptx")->required();
  run->add_option("--launch", flags.run.launch, "launch description (docs/formats/launch.md)");
  run->add_option("--engine", flags.run.engine, "who runs it; native: as --native says")
      ->check(CLI::IsMember({"native", kEngineNativeCuda, kEngineNativeCpu, kEngineGolden, kEngineInterpreter}))
      ->capture_default_str();
  run->add_option("--time-limit", flags.run.time_limit_s, "seconds")->check(CLI::Range(1, 600))->capture_default_str();

  CLI::App* record = app.add_subcommand("record", "what a suite computes on the GPU of this machine, as a golden file");
  record->add_option("suite", flags.record.suite, "an embedded suite, or a suite file")->capture_default_str();
  record->add_option("--out", flags.record.out, "golden file to write")->required();
  record->add_option("--time-limit", flags.record.time_limit_s, "seconds for a launch")
      ->check(CLI::Range(1, 600))
      ->capture_default_str();

  CLI::App* run_job = app.add_subcommand("run-job", "the process in which one engine runs")->group("");
  run_job->add_option("job", flags.job_path)->required();
  run_job->add_option("reply", flags.reply_path)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndOfParse("qgpu-oracle", app, error);
  }
  if (run_job->parsed()) RunJobAndExit(flags.job_path, flags.reply_path);

  KernelSuite suite;
  if (record->parsed()) {  // a misspelt suite is said on a machine without a device, too
    auto loaded = LoadSuite(flags.record.suite);
    if (!loaded.ok()) return ExitWith(loaded.status());
    suite = *std::move(loaded);
    flags.choice = {kEngineNativeCuda, ""};
  }
  const auto set = EngineSet::Make(ExecutableDirectory() + "/qgpu-oracle", flags.choice);
  if (!set.ok()) return ExitWith(set.status());
  if (engines->parsed()) return EnginesCommand(**set);
  if (run->parsed() || record->parsed()) {
    const auto exit_code = run->parsed() ? RunCommand(**set, flags.run) : RecordCommand(**set, suite, flags.record);
    return exit_code.ok() ? *exit_code : ExitWith(exit_code.status());
  }
  const auto service = MakeOracleService(**set);
  return ServeUntilStopped("qgpu-oracle", flags.server, {service.get()});
}

}  // namespace
}  // namespace qgpu

int main(int argc, char** argv) { return qgpu::Run(argc, argv); }
