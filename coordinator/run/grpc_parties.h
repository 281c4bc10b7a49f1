// Workers and oracles over gRPC. The headers of gRPC stay in the .cc file.
#pragma once

#include <memory>
#include <string>

#include "coordinator/run/parties.h"
#include "proto/address.h"

namespace qgpu {

struct PartyAddress {
  std::string name;  // as reports call it
  Address address;
  TlsFiles tls;
  bool insecure = false;
};

// Connects when first used. Errors as OpenChannel.
absl::StatusOr<std::unique_ptr<WorkerClient>> MakeWorkerClient(const PartyAddress& party);
absl::StatusOr<std::unique_ptr<OracleClient>> MakeOracleClient(const PartyAddress& party);

}  // namespace qgpu
