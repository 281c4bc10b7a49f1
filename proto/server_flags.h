// The flags that every server program has.
#pragma once

#include "CLI/CLI.hpp"
#include "proto/server.h"

namespace qgpu {

inline void AddTlsFlags(CLI::App& app, TlsFiles& tls, bool& insecure) {
  app.add_option("--tls-ca", tls.ca, "PEM file of the authority that must have signed the other side's certificate");
  app.add_option("--tls-cert", tls.certificate, "PEM file of this side's certificate");
  app.add_option("--tls-key", tls.key, "PEM file of this side's private key");
  app.add_flag("--insecure", insecure, "no TLS on addresses that others can reach");
}

inline void AddServerFlags(CLI::App& app, ServerOptions& options) {
  app.add_option("--listen", options.listen, "HOST:PORT; port 0 takes any free one and prints it")
      ->capture_default_str();
  AddTlsFlags(app, options.tls, options.insecure);
  app.add_flag("--exit-with-stdin", options.exit_on_stdin_eof, "end when standard input is closed");
}

}  // namespace qgpu
