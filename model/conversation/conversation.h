// Text and launches in one context, on one merged model: what a chat with the GPU is made of. The two forms differ in
// what a launch leaves behind for the text after it: nothing in the split form, where the base is never fed a machine
// token; positions and attention in the dense form, where every token runs every layer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "machine/isa/machine_launch.h"
#include "model/forward/executor.h"
#include "model/forward/text_model.h"
#include "model/launch/launch.h"
#include "model/weights/circuit.h"

namespace qgpu {

class Conversation {
 public:
  virtual ~Conversation() = default;

  // Forgets text and launches.
  virtual void Reset() = 0;

  // The text side. Its Logits go on after everything fed before, launches included; its rows are at least the base's
  // vocabulary long (in the dense form the machine's ids follow). TextModel::Reset is Conversation::Reset.
  virtual TextModel& text() = 0;

  // Ids below this are the base's.
  virtual int64_t text_vocabulary() const = 0;

  // One launch after everything fed before, in the machine's initial state. As RunLaunch, with its errors; in the dense
  // form the first host token has to be RESET, and more positions than the base has are kInvalidArgument. All its
  // tokens, the last one included (a text id where the model wrote one: a fault), are then in the dense form's context.
  // After an error, kCancelled included, that context is good for nothing before Reset.
  virtual absl::StatusOr<ModelRun> Launch(const std::vector<Token>& host_tokens, int64_t token_budget,
                                          const OnToken& on_token = nullptr) = 0;

  // What launches run on, for those outside of any conversation: to reset it ends the conversation in the dense form.
  virtual Executor& machine() = 0;

  // "dense: text and launches torch dense float32", for reports.
  virtual std::string Description() const = 0;
};

// Split: launches run on `machine`, text on `base`. Circuit and machine belong together. A launch changes nothing that
// text depends on, and text nothing that a launch does.
std::unique_ptr<Conversation> MakeSplitConversation(std::shared_ptr<TextModel> base, std::shared_ptr<Executor> machine,
                                                    std::shared_ptr<const Circuit> circuit);

// Dense: one model of all layers in libtorch. Errors as MakeTorchExecutor. Only in builds with libtorch.
absl::StatusOr<std::unique_ptr<Conversation>> MakeDenseConversation(std::shared_ptr<const Circuit> circuit,
                                                                    const std::string& base_directory, DataType type,
                                                                    const std::string& device = "cpu");

}  // namespace qgpu
