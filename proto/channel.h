// The client's end: channels with the project's keepalive and limits, and errors in absl's form.
#pragma once

#include <memory>

#include "common/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/address.h"

namespace qgpu {

// A channel to `address`; does not connect yet. kInvalidArgument if the address needs protection (CheckProtection) or
// the TLS files cannot be read.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const Address& address, const TlsFiles& tls, bool insecure);

// Error codes are the same numbers on both sides; `what` ("worker local") goes in front of the message.
absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& what);
grpc::Status ToGrpcStatus(const absl::Status& status);

// The deadline of one call, from now on.
void SetDeadline(grpc::ClientContext& context, int64_t milliseconds);

}  // namespace qgpu
