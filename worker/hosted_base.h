// What a worker has of its base beside the weights: checked when it is opened, so that a folder that is no base of this
// program's is found out at once.
#pragma once

#include <memory>
#include <string>

#include "common/status.h"
#include "evals/drift/texts.h"
#include "model/base/checkpoint.h"
#include "model/text/chat_template.h"
#include "model/text/generation_config.h"
#include "model/text/tokenizer.h"

namespace qgpu {

struct HostedBase {
  std::string directory;
  std::shared_ptr<const Checkpoint> checkpoint;
  std::shared_ptr<const Tokenizer> tokenizer;                         // null: the folder has none
  absl::StatusOr<std::shared_ptr<const ChatTemplate>> chat_template;  // or why there is none
  GenerationConfig generation;  // of the folder's files; nothing without a tokenizer
  DriftEncoder encoder;

  // Errors of OpenBase and of the tokenizer's and the generation's files (that there is no tokenizer is none);
  // kInvalidArgument for a tokenizer of another model.
  static absl::StatusOr<std::shared_ptr<const HostedBase>> Open(const std::string& directory);
};

}  // namespace qgpu
