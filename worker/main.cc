// qgpu-worker: hosts a model and runs launches on it.
#include <cstdio>

#include "common/command_line.h"
#include "common/version.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "proto/server_flags.h"
#include "worker/model_runner.h"
#include "worker/worker_service.h"

int main(int argc, char** argv) {
  using namespace qgpu;
  CLI::App app{"qgpu-worker: hosts a model and runs launches on it, for qgpu-coordinator."};
  app.set_version_flag("--version", [] { return VersionText("qgpu-worker", DefaultCircuitPath()); });
  ServerOptions server;
  AddServerFlags(app, server);
  ModelOptions model;
  model.circuit = DefaultCircuitPath();
  app.add_option("--circuit", model.circuit, "circuit file")->envname("QGPU_CIRCUIT")->capture_default_str();
  app.add_option("--executor", model.executor, "who does the arithmetic")
      ->check(CLI::IsMember({"sparse", "torch"}))
      ->capture_default_str();
  app.add_option("--form", model.form, "compiled layers alone, or the merged model")
      ->check(CLI::IsMember({"split", "dense"}))
      ->capture_default_str();
  app.add_option("--dtype", model.data_type, "data type of the model")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--base", model.base, "folder of the base model, for --form dense");
  app.add_option("--device", model.device, "torch: cpu, cuda, mps")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndOfParse("qgpu-worker", app, error);
  }
  const auto runner = MakeModelRunner(model);
  if (!runner.ok()) {
    std::fprintf(stderr, "qgpu-worker: %s\n", std::string(runner.status().message()).c_str());
    return ExitCodeFor(runner.status());
  }
  const auto service = MakeWorkerService(**runner);
  return ServeUntilStopped("qgpu-worker", server, {service.get()});
}
