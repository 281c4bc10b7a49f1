#include <utility>

#include "model/conversation/conversation.h"
#include "model/forward/torch/torch_executor.h"

namespace qgpu {
namespace {

class DenseConversation final : public Conversation {
 public:
  DenseConversation(DenseModel model, std::shared_ptr<const Circuit> circuit)
      : model_(std::move(model)), circuit_(std::move(circuit)) {}

  void Reset() override { model_.text->Reset(); }
  TextModel& text() override { return *model_.text; }
  int64_t text_vocabulary() const override { return model_.first_machine_token; }

  absl::StatusOr<ModelRun> Launch(const std::vector<Token>& host_tokens, int64_t token_budget,
                                  const OnToken& on_token) override {
    QGPU_ASSIGN_OR_RETURN(ModelRun run,
                          RunLaunchWithoutReset(*model_.machine, *circuit_, host_tokens, token_budget, on_token));
    // The last token is in the context as well: what follows a launch follows its DONE.
    const int32_t last = run.ids.back();
    if (last >= 0) {
      QGPU_RETURN_IF_ERROR(model_.machine->Feed({&last, 1}).status());
    } else {
      const int64_t text_id = -1 - static_cast<int64_t>(last);
      QGPU_RETURN_IF_ERROR(model_.text->NextLogits({&text_id, 1}).status());
    }
    return run;
  }

  Executor& machine() override { return *model_.machine; }

  std::string Description() const override { return "dense: text and launches " + model_.machine->Description(); }

 private:
  DenseModel model_;
  std::shared_ptr<const Circuit> circuit_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Conversation>> MakeDenseConversation(std::shared_ptr<const Circuit> circuit,
                                                                    const std::string& base_directory, DataType type,
                                                                    const std::string& device) {
  QGPU_ASSIGN_OR_RETURN(DenseModel model, LoadDenseModel(*circuit, base_directory, type, device));
  return std::make_unique<DenseConversation>(std::move(model), std::move(circuit));
}

}  // namespace qgpu
