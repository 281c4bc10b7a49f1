#include "worker/hosted_base.h"

#include "model/merge/base_build.h"

namespace qgpu {

absl::StatusOr<std::shared_ptr<const HostedBase>> HostedBase::Open(const std::string& directory) {
  auto base = std::make_shared<HostedBase>();
  base->directory = directory;
  QGPU_ASSIGN_OR_RETURN(base->checkpoint, OpenBase(directory));
  const int64_t vocabulary = base->checkpoint->shape().vocabulary;
  absl::StatusOr<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::Open(directory);
  if (tokenizer.ok()) {
    base->tokenizer = *std::move(tokenizer);
    QGPU_RETURN_IF_ERROR(CheckTokenizerFits(*base->tokenizer, vocabulary, {}));
    QGPU_ASSIGN_OR_RETURN(base->generation, ReadGenerationConfig(directory, *base->tokenizer));
  } else if (!absl::IsNotFound(tokenizer.status())) {
    return tokenizer.status();
  }
  base->chat_template = ChatTemplate::Open(directory);
  QGPU_ASSIGN_OR_RETURN(base->encoder, DriftEncoder::Open(directory, vocabulary));
  return std::shared_ptr<const HostedBase>(std::move(base));
}

}  // namespace qgpu
