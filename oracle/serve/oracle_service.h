// The oracle's service over its engines.
#pragma once

#include <memory>

namespace grpc {
class Service;
}

namespace qgpu {

class EngineSet;

// `engines` outlives the service.
std::unique_ptr<grpc::Service> MakeOracleService(EngineSet& engines);

}  // namespace qgpu
