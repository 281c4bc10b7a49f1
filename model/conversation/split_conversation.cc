#include <utility>

#include "model/conversation/conversation.h"

namespace qgpu {
namespace {

class SplitConversation final : public Conversation {
 public:
  SplitConversation(std::shared_ptr<TextModel> base, std::shared_ptr<Executor> machine,
                    std::shared_ptr<const Circuit> circuit)
      : base_(std::move(base)), machine_(std::move(machine)), circuit_(std::move(circuit)) {}

  void Reset() override {
    base_->Reset();
    machine_->Reset();
  }
  TextModel& text() override { return *base_; }
  int64_t text_vocabulary() const override { return base_->vocabulary(); }

  absl::StatusOr<ModelRun> Launch(const std::vector<Token>& host_tokens, int64_t token_budget,
                                  const OnToken& on_token) override {
    return RunLaunch(*machine_, *circuit_, host_tokens, token_budget, on_token);
  }

  Executor& machine() override { return *machine_; }

  std::string Description() const override {
    return fmt::format("split: text by the base alone, launches {}", machine_->Description());
  }

 private:
  std::shared_ptr<TextModel> base_;
  std::shared_ptr<Executor> machine_;
  std::shared_ptr<const Circuit> circuit_;
};

}  // namespace

std::unique_ptr<Conversation> MakeSplitConversation(std::shared_ptr<TextModel> base, std::shared_ptr<Executor> machine,
                                                    std::shared_ptr<const Circuit> circuit) {
  return std::make_unique<SplitConversation>(std::move(base), std::move(machine), std::move(circuit));
}

}  // namespace qgpu
