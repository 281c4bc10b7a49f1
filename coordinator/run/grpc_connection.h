// Whether anybody answers where a party is said to be.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace qgpu {

// What a call ended with: FromGrpcStatus, with the peer's words made printable.
absl::Status PeerStatus(const grpc::Status& status, const std::string& what);

// The first call on a channel, which needs no more than the other side's being there. Waits some seconds for a
// connection, since the other side may have been started just now. `what` is "worker 10.0.0.7:50051".
//   kUnavailable  no connection: who does not answer where, and what the network said
//   otherwise     PeerStatus of what `call` returned
absl::Status FirstCall(grpc::Channel& channel, const std::string& what,
                       const std::function<grpc::Status(grpc::ClientContext&)>& call);

}  // namespace qgpu
