#include "worker/text_calls.h"

#include <new>
#include <utility>
#include <variant>

#include "worker/text_messages.h"
#include "worker/token_stream.h"

namespace qgpu {
namespace {

absl::Status CallerGone() { return absl::CancelledError("the caller ended the call"); }

// Memory that runs out in a call is that call's error.
template <typename Call>
absl::Status WithinMemory(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        "the worker's memory does not suffice for this call; feed fewer positions at once, or give it more memory");
  }
}

struct CheckedLaunch {
  std::vector<int32_t> host_ids;
  int64_t token_budget = 0;
};
using CheckedTurn = std::variant<TextTurn, CheckedLaunch>;

absl::StatusOr<CheckedTurn> Check(const v1::ConverseRequest& request) {
  switch (request.turn_case()) {
    case v1::ConverseRequest::kText: {
      QGPU_ASSIGN_OR_RETURN(CheckedTurn turn, FromMessage(request.text()));
      return turn;
    }
    case v1::ConverseRequest::kLaunch: {
      CheckedLaunch launch;
      launch.token_budget = static_cast<int64_t>(request.launch().token_budget());
      QGPU_ASSIGN_OR_RETURN(launch.host_ids,
                            CheckedHostTokens(request.launch().host_tokens(), request.launch().token_budget()));
      return CheckedTurn(std::move(launch));
    }
    case v1::ConverseRequest::TURN_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a turn that is neither text nor a launch");
}

class ConverseCall {
 public:
  ConverseCall(TextHost& host, TurnLock& turns, grpc::ServerContext& context,
               grpc::ServerReaderWriter<v1::ConverseReply, v1::ConverseRequest>& stream)
      : host_(host), turns_(turns), context_(context), stream_(stream) {}

  absl::Status Run() {
    for (v1::ConverseRequest request; stream_.Read(&request);) {
      QGPU_ASSIGN_OR_RETURN(const CheckedTurn turn, Check(request));
      int64_t wait_ns = 0;
      if (!conversation_) {
        QGPU_ASSIGN_OR_RETURN(turn_, turns_.Take(context_.deadline(), [this] { return context_.IsCancelled(); }));
        wait_ns = turn_.wait_ns;
        QGPU_ASSIGN_OR_RETURN(conversation_, host_.StartConversation());
      }
      if (const auto* text = std::get_if<TextTurn>(&turn)) {
        QGPU_RETURN_IF_ERROR(Text(*text));
      } else {
        QGPU_RETURN_IF_ERROR(Launch(std::get<CheckedLaunch>(turn), wait_ns));
      }
    }
    return context_.IsCancelled() ? CallerGone() : absl::OkStatus();
  }

 private:
  absl::Status Send(const v1::ConverseReply& reply) { return stream_.Write(reply) ? absl::OkStatus() : CallerGone(); }

  absl::Status Text(const TextTurn& turn) {
    GenerateCallbacks callbacks;
    callbacks.is_cancelled = [this] { return context_.IsCancelled(); };
    callbacks.on_text = [this](std::string_view text, std::span<const int32_t> ids) {
      v1::ConverseReply reply;
      reply.mutable_text()->set_text(std::string(text));
      for (const int32_t id : ids) reply.mutable_text()->add_ids(static_cast<uint32_t>(id));
      return Send(reply);
    };
    QGPU_ASSIGN_OR_RETURN(const GenerateResult result, conversation_->Text(turn, callbacks));
    if (result.end == GenerateEnd::kCancelled) return CallerGone();
    v1::ConverseReply last;
    *last.mutable_text_end() = ToMessage(result);
    return Send(last);
  }

  absl::Status Launch(const CheckedLaunch& launch, int64_t wait_ns) {
    TokenStream tokens(context_, [this](std::span<const int32_t> piece) {
      v1::ConverseReply reply;
      *reply.mutable_tokens() = ToMessage(piece);
      return stream_.Write(reply);
    });
    QGPU_ASSIGN_OR_RETURN(const RunnerOutcome outcome,
                          conversation_->Launch(launch.host_ids, launch.token_budget,
                                                [&tokens](std::span<const int32_t> ids) { return tokens.Add(ids); }));
    tokens.Flush();
    v1::ConverseReply last;
    v1::LaunchResult& result = *last.mutable_launch_end();
    result = ToMessage(outcome);
    result.mutable_counters()->set_host_tokens(launch.host_ids.size());
    result.mutable_counters()->set_tokens(static_cast<uint64_t>(tokens.written()));
    result.mutable_counters()->set_wait_ns(static_cast<uint64_t>(wait_ns));
    return Send(last);
  }

  TextHost& host_;
  TurnLock& turns_;
  grpc::ServerContext& context_;
  grpc::ServerReaderWriter<v1::ConverseReply, v1::ConverseRequest>& stream_;
  TurnLock::Turn turn_;  // given back after the conversation has ended
  std::unique_ptr<TextConversation> conversation_;
};

}  // namespace

absl::Status Converse(TextHost& host, TurnLock& turns, grpc::ServerContext& context,
                      grpc::ServerReaderWriter<v1::ConverseReply, v1::ConverseRequest>& stream) {
  return WithinMemory([&] { return ConverseCall(host, turns, context, stream).Run(); });
}

absl::Status MeasureDrift(TextHost& host, TurnLock& turns, grpc::ServerContext& context,
                          const v1::MeasureDriftRequest& message, grpc::ServerWriter<v1::MeasureDriftReply>& writer) {
  QGPU_ASSIGN_OR_RETURN(const DriftRequest request, FromMessage(message));
  QGPU_ASSIGN_OR_RETURN(const TurnLock::Turn turn,
                        turns.Take(context.deadline(), [&] { return context.IsCancelled(); }));
  const auto send = [&writer](const v1::MeasureDriftReply& reply) {
    return writer.Write(reply) ? absl::OkStatus() : CallerGone();
  };
  TokenStream tokens(context, [&writer](std::span<const int32_t> piece) {
    v1::MeasureDriftReply reply;
    *reply.mutable_tokens() = ToMessage(piece);
    return writer.Write(reply);
  });
  DriftCallbacks callbacks;
  callbacks.is_cancelled = [&context] { return context.IsCancelled(); };
  callbacks.on_tokens = [&tokens](std::span<const int32_t> ids) { return tokens.Add(ids); };
  callbacks.on_start = [&send](const DriftBeginning& beginning) {
    v1::MeasureDriftReply reply;
    *reply.mutable_start() = ToMessage(beginning);
    return send(reply);
  };
  callbacks.on_launch_end = [&](std::optional<LaunchEnd> end) {
    tokens.Flush();
    v1::MeasureDriftReply reply;
    reply.set_launch_end(end ? ToMessage(*end) : v1::LAUNCH_END_UNSPECIFIED);
    return send(reply);
  };
  callbacks.on_rows = [&send](const DriftPiece& piece) {
    v1::MeasureDriftReply reply;
    *reply.mutable_rows() = ToMessage(piece);
    return send(reply);
  };
  return WithinMemory([&]() -> absl::Status {
    QGPU_ASSIGN_OR_RETURN(const int64_t feed_ns, host.MeasureDrift(request, callbacks));
    v1::MeasureDriftReply last;
    last.mutable_end()->set_feed_ns(static_cast<uint64_t>(feed_ns));
    return send(last);
  });
}

}  // namespace qgpu
