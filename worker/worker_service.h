// The worker's service around a LaunchRunner: checks requests, takes turns, streams tokens, keeps deadlines.
#pragma once

#include <memory>

#include "worker/launch_runner.h"

namespace grpc {
class Service;
}

namespace qgpu {

// `runner` must outlive the service. `program` is what Describe calls the program.
std::unique_ptr<grpc::Service> MakeWorkerService(LaunchRunner& runner, const std::string& program = "qgpu-worker");

}  // namespace qgpu
