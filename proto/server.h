// The server's end: one listening address with the project's protection rules, keepalive, limits, health checks
// (grpc.health.v1) and reflection, and the life of a server program. No gRPC header is needed to use it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "proto/address.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace qgpu {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";
  TlsFiles tls;
  bool insecure = false;
  bool exit_on_stdin_eof = false;  // end when stdin is closed: how a child notices that its parent is gone
};

class RpcServer {
 public:
  // Listens and serves. `services` must outlive the server. kInvalidArgument for an address that needs protection,
  // kFailedPrecondition for one that cannot be listened on (occupied, not ours), naming it.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const ServerOptions& options,
                                                          const std::vector<grpc::Service*>& services);
  ~RpcServer();

  // With the port that was really taken.
  const Address& address() const { return address_; }
  // Stops taking calls, gives running ones `grace_ms`, then cancels them.
  void Shutdown(int64_t grace_ms);

 private:
  RpcServer() = default;
  std::unique_ptr<grpc::Server> server_;
  Address address_;
};

// Serves until SIGINT, SIGTERM or, if asked for, the end of stdin. When it listens it prints one line to stdout:
//   {"address":"127.0.0.1:40123","pid":1234,"program":"qgpu-worker"}
// Returns the exit code of the program: 0 after stdin ended, 130 or 143 after a signal, ExitCodeFor an error, which is
// printed. To be called before any thread is started, except through `services`.
int ServeUntilStopped(const std::string& program, const ServerOptions& options,
                      const std::vector<grpc::Service*>& services);

}  // namespace qgpu
