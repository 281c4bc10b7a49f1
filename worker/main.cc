// qgpu-worker: hosts a model, runs launches on it, and has conversations and measures drift with it.
#include <cstdio>

#include "common/command_line.h"
#include "common/passive_waiting.h"
#include "common/version.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "proto/server_flags.h"
#include "worker/model_runner.h"
#include "worker/worker_service.h"

int main(int argc, char** argv) {
  using namespace qgpu;
  RestartWithPassiveWaiting(argv);
  CLI::App app{"qgpu-worker: hosts a merged model for launches, text and drift, for qgpu-coordinator."};
  app.set_version_flag("--version", [] { return VersionText("qgpu-worker", DefaultCircuitPath()); });
  ServerOptions server;
  AddServerFlags(app, server);
  ModelOptions model;
  model.circuit = DefaultCircuitPath();
  CLI::Option* circuit =
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
  app.add_option(
      "--base", model.base,
      "folder of the base model (default: the embedded one); its circuit is built where --circuit is not given");
  app.add_option("--device", model.device, "torch: cpu, cuda, mps")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndOfParse("qgpu-worker", app, error);
  }
  model.circuit_is_given = circuit->count() > 0;
  const auto host = MakeModelHost(model);
  if (!host.ok()) {
    std::fprintf(stderr, "qgpu-worker: %s\n", std::string(host.status().message()).c_str());
    return ExitCodeFor(host.status());
  }
  const auto service = MakeWorkerService(*host->launches, "qgpu-worker", host->text.get(), host->no_text);
  return ServeUntilStopped("qgpu-worker", server, {service.get()});
}
