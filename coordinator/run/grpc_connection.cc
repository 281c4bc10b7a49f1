#include "coordinator/run/grpc_connection.h"

#include <chrono>

#include "proto/channel.h"
#include "reports/printable.h"

namespace qgpu {
namespace {

constexpr int64_t kConnectMs = 4'000;
constexpr int64_t kFirstCallMs = 20'000;  // once connected: a busy machine may take its time
constexpr int64_t kReasonMs = 2'000;

}  // namespace

absl::Status PeerStatus(const grpc::Status& status, const std::string& what) {
  const absl::Status plain = FromGrpcStatus(status, what);
  return plain.ok() ? plain : absl::Status(plain.code(), Printable(std::string(plain.message())));
}

absl::Status FirstCall(grpc::Channel& channel, const std::string& what,
                       const std::function<grpc::Status(grpc::ClientContext&)>& call) {
  const bool is_connected =
      channel.WaitForConnected(std::chrono::system_clock::now() + std::chrono::milliseconds(kConnectMs));
  grpc::ClientContext context;
  // Without a connection the call fails at once, and only then does gRPC say why there is none.
  SetDeadline(context, is_connected ? kFirstCallMs : kReasonMs);
  const grpc::Status status = call(context);
  if (is_connected || status.ok()) return PeerStatus(status, what);
  const bool is_handshake = status.error_message().find("andshake") != std::string::npos;
  return absl::UnavailableError(fmt::format(
      "{}: {} ({})", what,
      is_handshake ? "no secure connection: certificates and --tls flags of the two sides do not fit together"
                   : fmt::format("nobody answers there after {} s; is the program running, and the address right?",
                                 kConnectMs / 1000),
      Printable(status.error_message())));
}

}  // namespace qgpu
