#include "proto/channel.h"

#include <chrono>

#include "common/file.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "proto/limits.h"

namespace qgpu {

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const Address& address, const TlsFiles& tls, bool insecure) {
  QGPU_RETURN_IF_ERROR(CheckProtection(address.host, tls, insecure));
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (tls.complete()) {
    grpc::SslCredentialsOptions options;
    QGPU_ASSIGN_OR_RETURN(options.pem_root_certs, ReadFile(tls.ca, kMaxMessageBytes));
    QGPU_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadFile(tls.certificate, kMaxMessageBytes));
    QGPU_ASSIGN_OR_RETURN(options.pem_private_key, ReadFile(tls.key, kMaxMessageBytes));
    credentials = grpc::SslCredentials(options);
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (IsLoopback(address.host)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address.ToString(), credentials, arguments);
}

absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), what + ": " + status.error_message());
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

void SetDeadline(grpc::ClientContext& context, int64_t milliseconds) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds));
}

}  // namespace qgpu
