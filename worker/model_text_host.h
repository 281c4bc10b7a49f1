// The real TextHost: a base, its merged models, and what runs launches beside them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "model/conversation/conversation.h"
#include "worker/hosted_base.h"
#include "worker/text_host.h"

namespace qgpu {

struct TextHostOptions {
  // Opens the base: now, or when it is first needed.
  std::function<absl::StatusOr<std::shared_ptr<const HostedBase>>()> open_base;
  std::shared_ptr<const Circuit> circuit;  // for that base
  DataType type = DataType::kFloat32;      // of conversations
  std::string device = "cpu";
  // What launches run on: in the split form an executor, in the dense form the merged model in `type`.
  std::shared_ptr<Executor> split_executor;
  std::shared_ptr<Conversation> dense;
};

// Models are loaded when they are first needed. Not thread-safe.
std::unique_ptr<TextHost> MakeModelTextHost(TextHostOptions options);

}  // namespace qgpu
