// qgpu-canary-worker: looks like qgpu-worker, cheats at launches as $QGPU_CANARY says, and at drift as
// $QGPU_DRIFT_CANARY says ("no-base": it has no text side). For tests only.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/exit_code.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "proto/server_flags.h"
#include "tests/canary/canary_runner.h"
#include "tests/canary/canary_text.h"
#include "worker/worker_service.h"

int main(int argc, char** argv) {
  using namespace qgpu;
  CLI::App app{"A worker without a model, for tests of the harness."};
  ServerOptions server;
  AddServerFlags(app, server);
  std::string circuit, base;
  app.add_option("--circuit", circuit, "ignored");
  app.add_option("--base", base, "makes the measurements others");
  CLI11_PARSE(app, argc, argv);
  const char* name = std::getenv("QGPU_CANARY");
  const auto cheat = CheatFromName(name == nullptr ? "none" : name);
  if (!cheat.has_value()) {
    std::fprintf(stderr, "no canary is called %s\n", name);
    return kExitUsage;
  }
  const auto runner = MakeCanaryRunner(*cheat);
  const char* drift_name = std::getenv("QGPU_DRIFT_CANARY");
  const std::string drift = drift_name == nullptr ? "none" : drift_name;
  const auto drift_cheat = DriftCheatFromName(drift);
  if (!drift_cheat.has_value() && drift != "no-base") {
    std::fprintf(stderr, "no drift canary is called %s\n", drift_name);
    return kExitUsage;
  }
  const auto text = MakeCanaryText(drift_cheat.value_or(DriftCheat::kNone), base);
  const auto service = MakeWorkerService(*runner, "qgpu-worker", drift == "no-base" ? nullptr : text.get());
  return ServeUntilStopped("qgpu-canary-worker", server, {service.get()});
}
