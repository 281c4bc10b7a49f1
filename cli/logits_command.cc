// `qgpu logits DIR`: what a Qwen3.5 text checkpoint predicts at every position, for comparison with other programs.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/text_commands.h"
#include "cli/token_ids.h"
#include "common/file.h"
#include "model/base/safetensors.h"
#ifdef QGPU_HAS_TORCH
#include "model/forward/torch/torch_executor.h"
#endif

namespace qgpu {
namespace {

struct LogitsOptions {
  std::string directory, ids, ids_file, out;
  std::string data_type = "float32", mode = "prefill", device = "cpu";
};

#ifdef QGPU_HAS_TORCH
absl::Status Compute(TextModel& model, const std::vector<int64_t>& ids, bool by_steps, SafetensorsWriter& writer) {
  int64_t written = 0;
  const auto sink = [&](std::span<const float> block) -> absl::Status {
    const auto bad = std::find_if_not(block.begin(), block.end(), [](float logit) { return std::isfinite(logit); });
    if (bad != block.end()) {
      const int64_t at = written + (bad - block.begin());
      return absl::FailedPreconditionError(
          fmt::format("the logit of id {} at position {} is {}: the checkpoint has weights that are no numbers, or the "
                      "data type's range does not suffice (try --dtype float32)",
                      at % model.vocabulary(), at / model.vocabulary(), *bad));
    }
    written += static_cast<int64_t>(block.size());
    return writer.Append(block.data(), static_cast<int64_t>(block.size()));
  };
  if (!by_steps) return model.StreamLogits(ids, sink);
  for (const int64_t& id : ids) QGPU_RETURN_IF_ERROR(model.StreamLogits({&id, 1}, sink));
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Logits(const LogitsOptions& options) {
  std::string text = options.ids;
  if (!options.ids_file.empty()) {
    QGPU_ASSIGN_OR_RETURN(text, ReadFile(options.ids_file, size_t{64} << 20));
  }
  QGPU_ASSIGN_OR_RETURN(const std::vector<int64_t> ids, ParseTokenIds(text));
  if (ids.empty()) return absl::InvalidArgumentError("--ids: at least one token id is needed");
  std::error_code ignored;
  if (std::filesystem::is_directory(options.out, ignored)) {
    return absl::InvalidArgumentError(fmt::format("--out: {} is a directory; name a file", options.out));
  }
  QGPU_ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model,
                        LoadTextModel(options.directory, DataTypeNamed(options.data_type), options.device));
  QGPU_RETURN_IF_ERROR(model->CheckIds(ids));  // before a file is made

  const std::string partial = fmt::format("{}.tmp.{}", options.out, getpid());
  const auto write = [&]() -> absl::Status {
    QGPU_ASSIGN_OR_RETURN(
        const auto writer,
        SafetensorsWriter::Create(partial, {{"logits", {static_cast<int64_t>(ids.size()), model->vocabulary()}}}));
    QGPU_RETURN_IF_ERROR(Compute(*model, ids, options.mode == "step", *writer));
    QGPU_RETURN_IF_ERROR(writer->Finish().status());
    if (std::rename(partial.c_str(), options.out.c_str()) == 0) return absl::OkStatus();
    return absl::UnavailableError(
        fmt::format("cannot rename {} to {}: {}", partial, options.out, std::strerror(errno)));
  };
  const absl::Status status = write();
  if (!status.ok()) unlink(partial.c_str());
  QGPU_RETURN_IF_ERROR(status);
  std::printf("%s\n", options.out.c_str());
  return kExitGood;
}
#else
absl::StatusOr<ExitCode> Logits(const LogitsOptions&) {
  return absl::InvalidArgumentError("qgpu logits: this build has no libtorch; configure with -DQGPU_TORCH=ON");
}
#endif

}  // namespace

void AddLogitsCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App* command = app.add_subcommand("logits", "Write the logits of a checkpoint at every position of a text");
  command->add_option("directory", options->directory, "Folder of a Qwen3.5 text checkpoint")->required();
  CLI::Option* ids = command->add_option("--ids", options->ids, "Token ids: \"1,2,3\", or as JSON");
  CLI::Option* file = command->add_option("--ids-file", options->ids_file, "File with the token ids");
  ids->excludes(file);
  command->add_option("--dtype", options->data_type, "Data type to compute in")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  command->add_option("--mode", options->mode, "All positions at once, or one after the other")
      ->capture_default_str()
      ->check(CLI::IsMember({"prefill", "step"}));
  command->add_option("--device", options->device, "cpu, cuda, cuda:N or mps")->capture_default_str();
  command->add_option("--out", options->out, "File to write: tensor `logits`, float32 [positions, vocabulary]")
      ->required();
  command->callback([options, &action] { action = [options] { return Logits(*options); }; });
}

}  // namespace qgpu
