// qgpu-oracle: runs kernels without the model.
#include <cstdio>

#include "common/exit_code.h"
#include "common/version.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "oracle/serve/engines.h"
#include "oracle/serve/oracle_service.h"
#include "proto/server_flags.h"

int main(int argc, char** argv) {
  using namespace qgpu;
  CLI::App app{"qgpu-oracle: runs kernels natively and through the reference interpreter, for qgpu-coordinator."};
  app.set_version_flag("--version", VersionText("qgpu-oracle", ""));
  ServerOptions options;
  AddServerFlags(app, options);
  std::string job_path, reply_path;
  CLI::App* run_job = app.add_subcommand("run-job", "the process in which one engine runs")->group("");
  run_job->add_option("job", job_path)->required();
  run_job->add_option("reply", reply_path)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitGood : kExitUsage;
  }
  if (run_job->parsed()) {
    const absl::Status status = RunJobFile(job_path, reply_path);
    if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return status.ok() ? kExitGood : kExitInfrastructure;
  }
  const auto service = MakeOracleService(ExecutableDirectory() + "/qgpu-oracle");
  return ServeUntilStopped("qgpu-oracle", options, {service.get()});
}
