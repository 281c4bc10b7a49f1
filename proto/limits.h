// Limits of the wire, with their reasons. Clients and servers check the same ones.
#pragma once

#include <cstddef>
#include <cstdint>

namespace qgpu {

// Pieces of streams: large enough that overhead does not matter, small enough to flow through any proxy.
inline constexpr size_t kChunkBytes = size_t{1} << 20;
// A machine id (at most 16,384) takes at most 3 bytes on the wire, a text id at most 5.
inline constexpr size_t kChunkTokens = kChunkBytes / 5;
// Largest message either side takes. A piece and its framing fit; so does the largest unary request.
inline constexpr int kMaxMessageBytes = 2 << 20;

// Source and launch description of one request to the oracle: a kernel file of more than 256 KiB is no kernel of ours,
// and 126 words as decimal JSON are a few KiB.
inline constexpr size_t kMaxSourceBytes = size_t{256} << 10;
inline constexpr size_t kMaxLaunchJsonBytes = size_t{512} << 10;
static_assert(kChunkBytes + 4096 <= kMaxMessageBytes);
static_assert(kMaxSourceBytes + kMaxLaunchJsonBytes + 4096 <= kMaxMessageBytes);

// The host's tokens: a full program (32 blocks x 5 rows), special words and memory take at most a few tokens a word.
inline constexpr size_t kMaxHostTokens = 16384;
static_assert(kMaxHostTokens <= kChunkTokens);

// A launch writes at most this many tokens, whatever the caller asks: more than an hour at 2,000 tokens/s.
inline constexpr int64_t kMaxTokenBudget = 10'000'000;

// Launches that may wait for a worker's model; more are turned away at once.
inline constexpr int kMaxWaitingLaunches = 8;
// Oracle runs at a time; each is a process.
inline constexpr int kMaxOracleProcesses = 4;

inline constexpr int kKeepaliveTimeMs = 20'000;
inline constexpr int kKeepaliveTimeoutMs = 10'000;
// What a server tolerates must be below what clients send.
inline constexpr int kMinPingIntervalMs = 10'000;
static_assert(kMinPingIntervalMs < kKeepaliveTimeMs);

}  // namespace qgpu
