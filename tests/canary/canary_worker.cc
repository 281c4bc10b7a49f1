// qgpu-canary-worker: looks like qgpu-worker, cheats as $QGPU_CANARY says. For tests only.
#include <cstdio>
#include <cstdlib>

#include "common/exit_code.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "proto/server_flags.h"
#include "tests/canary/canary_runner.h"
#include "worker/worker_service.h"

int main(int argc, char** argv) {
  using namespace qgpu;
  CLI::App app{"A worker without a model, for tests of the harness."};
  ServerOptions server;
  AddServerFlags(app, server);
  std::string circuit;
  app.add_option("--circuit", circuit, "ignored");
  CLI11_PARSE(app, argc, argv);
  const char* name = std::getenv("QGPU_CANARY");
  const auto cheat = CheatFromName(name == nullptr ? "none" : name);
  if (!cheat.has_value()) {
    std::fprintf(stderr, "no canary is called %s\n", name);
    return kExitUsage;
  }
  const auto runner = MakeCanaryRunner(*cheat);
  const auto service = MakeWorkerService(*runner);
  return ServeUntilStopped("qgpu-canary-worker", server, {service.get()});
}
