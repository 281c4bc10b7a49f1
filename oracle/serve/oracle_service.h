// The oracle's service: compiles once for each source, runs every request in a process of its own.
#pragma once

#include <memory>
#include <string>

namespace grpc {
class Service;
}

namespace qgpu {

// `program` is the oracle's own file, started again for every run; see RunInChild.
std::unique_ptr<grpc::Service> MakeOracleService(const std::string& program);

}  // namespace qgpu
