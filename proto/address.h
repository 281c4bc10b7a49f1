// Where a server listens or is found, and which addresses need protection.
#pragma once

#include <string>

#include "common/status.h"

namespace qgpu {

struct Address {
  std::string host;  // without brackets
  int port = 0;      // 0: any free port (only to listen)
  // "127.0.0.1:50051", "[::1]:50051"
  std::string ToString() const;
  bool operator==(const Address&) const = default;
};

// "HOST:PORT", with an IPv6 host in brackets. kInvalidArgument naming the text and what is expected.
absl::StatusOr<Address> ParseAddress(const std::string& text);

// True for "localhost", 127.0.0.0/8 and ::1: what only this machine can reach.
bool IsLoopback(const std::string& host);

// Files of mutual TLS in PEM form; all three are given, or none.
struct TlsFiles {
  std::string ca, certificate, key;
  bool any() const { return !ca.empty() || !certificate.empty() || !key.empty(); }
  bool complete() const { return !ca.empty() && !certificate.empty() && !key.empty(); }
};

// OK where `host` may be used with these settings: loopback always, any other only with mutual TLS or `insecure`.
// kInvalidArgument naming the flags that are missing.
absl::Status CheckProtection(const std::string& host, const TlsFiles& tls, bool insecure);

}  // namespace qgpu
