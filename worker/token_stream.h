// The tokens of one launch on their way to the caller: sent in pieces while they are written, until the caller is gone
// or its time is up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "grpcpp/server_context.h"
#include "proto/convert.h"

namespace qgpu {

class TokenStream {
 public:
  // `write` sends a piece; false: the caller is gone. No time limit where it is 0.
  using Write = std::function<bool(std::span<const int32_t>)>;
  TokenStream(grpc::ServerContext& context, Write write, uint32_t time_limit_ms = 0)
      : context_(context), write_(std::move(write)) {
    if (time_limit_ms > 0) stop_at_ = start_ + std::chrono::milliseconds(time_limit_ms);
  }

  // A TokenSink: false stops the launch.
  bool Add(std::span<const int32_t> ids) {
    waiting_.insert(waiting_.end(), ids.begin(), ids.end());
    written_ += std::ssize(ids);
    const auto now = Clock::now();
    if (waiting_.size() >= kFlushTokens || now - last_flush_ >= kFlushInterval) Flush();
    if (now >= stop_at_) is_late_ = true;
    return !is_late_ && !is_broken_ && !context_.IsCancelled();
  }

  void Flush() {
    ForEachChunk(waiting_, [this](std::span<const int32_t> piece) {
      is_broken_ = is_broken_ || !write_(piece);
      return !is_broken_;
    });
    waiting_.clear();
    last_flush_ = Clock::now();
  }

  int64_t written() const { return written_; }
  bool is_late() const { return is_late_; }

 private:
  using Clock = std::chrono::steady_clock;
  // Tokens are sent once so many wait, or after so long.
  static constexpr size_t kFlushTokens = 512;
  static constexpr auto kFlushInterval = std::chrono::milliseconds(100);

  grpc::ServerContext& context_;
  Write write_;
  Clock::time_point start_ = Clock::now(), last_flush_ = start_;
  Clock::time_point stop_at_ = Clock::time_point::max();
  std::vector<int32_t> waiting_;
  int64_t written_ = 0;
  bool is_late_ = false, is_broken_ = false;
};

}  // namespace qgpu
