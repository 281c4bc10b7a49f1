#include "proto/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <mutex>

#include "common/exit_code.h"
#include "common/file.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "nlohmann/json.hpp"
#include "proto/limits.h"

namespace qgpu {
namespace {

// Plugins are global in gRPC and must be registered once, before the first builder.
void RegisterPlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeCredentials(const TlsFiles& tls) {
  if (!tls.complete()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  QGPU_ASSIGN_OR_RETURN(options.pem_root_certs, ReadFile(tls.ca, kMaxMessageBytes));
  QGPU_ASSIGN_OR_RETURN(pair.cert_chain, ReadFile(tls.certificate, kMaxMessageBytes));
  QGPU_ASSIGN_OR_RETURN(pair.private_key, ReadFile(tls.key, kMaxMessageBytes));
  options.pem_key_cert_pairs.push_back(pair);
  return grpc::SslServerCredentials(options);
}

int stop_pipe[2] = {-1, -1};

void OnStopSignal(int signal_number) {
  const int saved = errno;
  const char byte = static_cast<char>(signal_number);
  [[maybe_unused]] const ssize_t put = write(stop_pipe[1], &byte, 1);
  errno = saved;
}

absl::Status CatchStopSignals() {
  if (pipe2(stop_pipe, O_CLOEXEC) != 0) return absl::UnavailableError("cannot make a pipe for signals");
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return absl::OkStatus();
}

// The signal that asked to stop, or 0 when stdin ended.
int WaitForStop(bool watch_stdin) {
  while (true) {
    pollfd watched[2] = {{stop_pipe[0], POLLIN, 0}, {watch_stdin ? STDIN_FILENO : -1, POLLIN, 0}};
    if (poll(watched, 2, -1) < 0 && errno != EINTR) return 0;
    char bytes[256];
    if ((watched[0].revents & POLLIN) != 0 && read(stop_pipe[0], bytes, 1) == 1) return bytes[0];
    if (watched[1].revents != 0 && read(STDIN_FILENO, bytes, sizeof(bytes)) <= 0) return 0;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const ServerOptions& options,
                                                            const std::vector<grpc::Service*>& services) {
  QGPU_ASSIGN_OR_RETURN(Address address, ParseAddress(options.listen));
  QGPU_RETURN_IF_ERROR(CheckProtection(address.host, options.tls, options.insecure));
  QGPU_ASSIGN_OR_RETURN(auto credentials, MakeCredentials(options.tls));
  RegisterPlugins();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address.ToString(), credentials, &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // else an occupied port is shared without a word
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<RpcServer> server(new RpcServer);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || port == 0) {
    return absl::FailedPreconditionError(
        fmt::format("cannot listen on {}: the port is occupied, or the address or the TLS files are not usable; use "
                    "another --listen, or port 0 for any free one",
                    address.ToString()));
  }
  address.port = port;
  server->address_ = address;
  return server;
}

RpcServer::~RpcServer() { Shutdown(0); }

void RpcServer::Shutdown(int64_t grace_ms) {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(grace_ms));
  server_->Wait();
  server_.reset();
}

int ServeUntilStopped(const std::string& program, const ServerOptions& options,
                      const std::vector<grpc::Service*>& services) {
  absl::Status status = CatchStopSignals();
  auto server = status.ok() ? RpcServer::Start(options, services) : absl::StatusOr<std::unique_ptr<RpcServer>>(status);
  if (!server.ok()) {
    fmt::print(stderr, "{}: {}\n", program, std::string(server.status().message()));
    return ExitCodeFor(server.status());
  }
  const nlohmann::json ready = {{"program", program}, {"address", (*server)->address().ToString()}, {"pid", getpid()}};
  fmt::print("{}\n", ready.dump());
  std::fflush(stdout);
  const int signal_number = WaitForStop(options.exit_on_stdin_eof);
  (*server)->Shutdown(500);
  return signal_number == 0 ? 0 : 128 + signal_number;
}

}  // namespace qgpu
