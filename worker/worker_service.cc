#include "worker/worker_service.h"

#include <atomic>
#include <chrono>
#include <mutex>

#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/limits.h"
#include "qgpu/v1/worker.grpc.pb.h"

namespace qgpu {
namespace {

using Clock = std::chrono::steady_clock;

// Tokens are sent once so many wait, or after so long.
constexpr size_t kFlushTokens = 512;
constexpr auto kFlushInterval = std::chrono::milliseconds(100);

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

v1::LaunchEnd ToMessage(LaunchEnd end) {
  switch (end) {
    case LaunchEnd::kDone:
      return v1::LAUNCH_END_DONE;
    case LaunchEnd::kTrap:
      return v1::LAUNCH_END_TRAP;
    case LaunchEnd::kBudget:
      return v1::LAUNCH_END_BUDGET;
  }
  return v1::LAUNCH_END_UNSPECIFIED;
}

absl::StatusOr<std::vector<int32_t>> CheckedHostTokens(const v1::RunLaunchRequest& request) {
  if (request.token_budget() < 1 || request.token_budget() > static_cast<uint64_t>(kMaxTokenBudget)) {
    return absl::InvalidArgumentError(
        fmt::format("a token budget of {}; this worker allows 1 to {}", request.token_budget(), kMaxTokenBudget));
  }
  std::vector<int32_t> host_ids;
  QGPU_RETURN_IF_ERROR(AppendTokens(request.host_tokens(), /*text_allowed=*/false, kMaxHostTokens, host_ids));
  if (host_ids.empty()) return absl::InvalidArgumentError("a launch without host tokens");
  return host_ids;
}

// One launch's stream. Stops the launch when the caller is gone or its time is up.
class TokenStream {
 public:
  TokenStream(grpc::ServerContext& context, grpc::ServerWriter<v1::RunLaunchReply>& writer, uint32_t time_limit_ms)
      : context_(context), writer_(writer) {
    if (time_limit_ms > 0) stop_at_ = start_ + std::chrono::milliseconds(time_limit_ms);
  }

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
      v1::RunLaunchReply reply;
      *reply.mutable_tokens() = ToMessage(piece);
      is_broken_ = is_broken_ || !writer_.Write(reply);
      return !is_broken_;
    });
    waiting_.clear();
    last_flush_ = Clock::now();
  }

  int64_t written() const { return written_; }
  bool is_late() const { return is_late_; }

 private:
  // Inside this class the conversions of tokens are meant, not of ends.
  static v1::Tokens ToMessage(std::span<const int32_t> ids) { return qgpu::ToMessage(ids); }

  grpc::ServerContext& context_;
  grpc::ServerWriter<v1::RunLaunchReply>& writer_;
  Clock::time_point start_ = Clock::now(), last_flush_ = start_;
  Clock::time_point stop_at_ = Clock::time_point::max();
  std::vector<int32_t> waiting_;
  int64_t written_ = 0;
  bool is_late_ = false, is_broken_ = false;
};

class WorkerService final : public v1::Worker::Service {
 public:
  WorkerService(LaunchRunner& runner, std::string program) : runner_(runner), program_(std::move(program)) {}

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeWorkerRequest*,
                        v1::DescribeWorkerReply* reply) override {
    const HostedModel model = runner_.Describe();
    ProgramDescription program = ThisProgram(program_);
    program.host.accelerator = model.accelerator;
    *reply->mutable_program() = qgpu::ToMessage(program);
    reply->set_circuit_hash(model.circuit_hash);
    reply->set_circuit_sha256(model.circuit_sha256);
    reply->set_base(model.base);
    reply->set_base_hidden(static_cast<uint32_t>(model.base_hidden));
    reply->set_layers(static_cast<uint32_t>(model.layers));
    reply->set_added_width(static_cast<uint32_t>(model.added_width));
    for (const std::string& form : model.forms) reply->add_forms(form);
    reply->set_max_token_budget(kMaxTokenBudget);
    return grpc::Status::OK;
  }

  grpc::Status RunLaunch(grpc::ServerContext* context, const v1::RunLaunchRequest* request,
                         grpc::ServerWriter<v1::RunLaunchReply>* writer) override {
    const auto host_ids = CheckedHostTokens(*request);
    if (!host_ids.ok()) return ToGrpcStatus(host_ids.status());
    const auto arrival = Clock::now();
    if (++waiting_ > kMaxWaitingLaunches) {
      --waiting_;
      return ToGrpcStatus(
          absl::ResourceExhaustedError(fmt::format("{} launches wait already; try again later", kMaxWaitingLaunches)));
    }
    std::unique_lock turn(turn_, std::defer_lock);
    const bool has_turn = turn.try_lock_until(context->deadline());
    --waiting_;
    if (!has_turn) return ToGrpcStatus(absl::DeadlineExceededError("the worker was busy until the deadline"));
    const int64_t wait_ns = NanosecondsSince(arrival);

    TokenStream stream(*context, *writer, request->time_limit_ms());
    const auto outcome = runner_.Run(*host_ids, static_cast<int64_t>(request->token_budget()),
                                     [&stream](std::span<const int32_t> ids) { return stream.Add(ids); });
    if (stream.is_late()) {
      return ToGrpcStatus(absl::DeadlineExceededError(fmt::format("stopped at the time limit of {} ms after {} tokens",
                                                                  request->time_limit_ms(), stream.written())));
    }
    if (!outcome.ok()) return ToGrpcStatus(outcome.status());
    stream.Flush();
    v1::RunLaunchReply last;
    v1::LaunchResult& result = *last.mutable_result();
    result.set_end(ToMessage(outcome->end));
    *result.mutable_image() = qgpu::ToMessage(outcome->state);
    result.set_fault(outcome->fault);
    v1::LaunchCounters& counters = *result.mutable_counters();
    counters.set_host_tokens(host_ids->size());
    counters.set_tokens(static_cast<uint64_t>(stream.written()));
    counters.set_forward_passes(static_cast<uint64_t>(outcome->forward_passes));
    counters.set_prefill_ns(static_cast<uint64_t>(outcome->prefill_ns));
    counters.set_decode_ns(static_cast<uint64_t>(outcome->decode_ns));
    counters.set_read_ns(static_cast<uint64_t>(outcome->read_ns));
    counters.set_wait_ns(static_cast<uint64_t>(wait_ns));
    writer->Write(last);
    return grpc::Status::OK;
  }

 private:
  LaunchRunner& runner_;
  std::string program_;
  std::timed_mutex turn_;
  std::atomic<int> waiting_ = 0;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkerService(LaunchRunner& runner, const std::string& program) {
  return std::make_unique<WorkerService>(runner, program);
}

}  // namespace qgpu
