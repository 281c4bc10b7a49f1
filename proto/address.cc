#include "proto/address.h"

#include <arpa/inet.h>

#include <charconv>

namespace qgpu {

std::string Address::ToString() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

absl::StatusOr<Address> ParseAddress(const std::string& text) {
  const auto error = [&text](const std::string& what) {
    return absl::InvalidArgumentError(
        fmt::format("address \"{}\": {}; expected HOST:PORT, an IPv6 host in brackets", text, what));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return error("no port");
  Address address;
  address.host = text.substr(0, colon);
  if (address.host.size() >= 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
    in6_addr parsed;
    if (inet_pton(AF_INET6, address.host.c_str(), &parsed) != 1) return error("no IPv6 address in the brackets");
  } else if (address.host.find_first_of(":[]/ ") != std::string::npos) {
    return error("bad host");
  }
  if (address.host.empty()) return error("no host");
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (failure != std::errc() || stop != end || address.port < 0 || address.port > 65535) {
    return error("the port must be 0 to 65535");
  }
  return address;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

absl::Status CheckProtection(const std::string& host, const TlsFiles& tls, bool insecure) {
  if (tls.any() && !tls.complete()) {
    return absl::InvalidArgumentError("mutual TLS needs all of --tls-ca, --tls-cert and --tls-key");
  }
  if (tls.any() && insecure) return absl::InvalidArgumentError("--insecure contradicts the --tls flags");
  if (IsLoopback(host) || tls.complete() || insecure) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} is not a loopback address: give --tls-ca, --tls-cert and --tls-key, or --insecure if everybody who "
      "can reach it may use it",
      host));
}

}  // namespace qgpu
