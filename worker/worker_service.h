// The worker's service around a LaunchRunner and a TextHost: checks requests, takes turns, streams, keeps deadlines.
#pragma once

#include <memory>

#include "worker/launch_runner.h"
#include "worker/text_host.h"

namespace grpc {
class Service;
}

namespace qgpu {

// What `runner` and `text` are must outlive the service. Without a TextHost the calls on text are FAILED_PRECONDITION
// with `no_text`, which says why. `program` is what Describe calls the program.
std::unique_ptr<grpc::Service> MakeWorkerService(LaunchRunner& runner, const std::string& program = "qgpu-worker",
                                                 TextHost* text = nullptr,
                                                 const std::string& no_text = "this worker hosts no base model");

}  // namespace qgpu
