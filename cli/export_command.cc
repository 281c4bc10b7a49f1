// `qgpu export --dense DIR`: the merged model as a Hugging Face checkpoint that the public transformers library loads.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/circuit_option.h"
#include "cli/commands.h"
#include "cli/model_engine.h"
#include "machine/isa/token.h"
#include "model/base/random_base.h"
#include "model/merge/base_build.h"
#include "model/merge/export.h"

namespace qgpu {
namespace {

struct ExportCommandOptions {
  std::string circuit, base, out;
  bool circuit_is_given = false;
  std::string data_type = "bfloat16";
};

// A bar that is rewritten on a terminal, otherwise a line every few seconds; on stderr.
class ExportProgress {
 public:
  void operator()(uint64_t done, uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (!first_) first_ = done;  // what an earlier run wrote counts for nothing in the speed
    const auto interval = std::chrono::milliseconds(on_terminal_ ? 100 : 5000);
    if (done < total && now - last_ < interval) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(done - *first_) / std::max(seconds, 0.001);
    const std::string figures =
        fmt::format("{:3} %  {} of {} MiB, {:.0f} MiB/s, {}", total == 0 ? 100 : done * 100 / total, done >> 20,
                    total >> 20, rate / (1 << 20), TimeLeft(static_cast<double>(total - done), rate));
    if (!on_terminal_) {
      fmt::print(stderr, "export: {}\n", figures);
      return;
    }
    constexpr uint64_t kWidth = 30;
    const uint64_t filled = total == 0 ? kWidth : done * kWidth / total;
    fmt::print(stderr, "\rexport: [{}{}] {}   {}", std::string(filled, '#'), std::string(kWidth - filled, '.'), figures,
               done < total ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  static std::string TimeLeft(double bytes, double rate) {
    if (rate <= 0) return "";
    const int64_t seconds = static_cast<int64_t>(bytes / rate);
    return fmt::format("{}:{:02} left", seconds / 60, seconds % 60);
  }

  const bool on_terminal_ = isatty(STDERR_FILENO) == 1;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_ = start_;
  std::optional<uint64_t> first_;
};

absl::StatusOr<ExitCode> Export(const ExportCommandOptions& options) {
  std::shared_ptr<const Circuit> circuit;
  std::string base = options.base;
  if (base.empty()) {
    QGPU_ASSIGN_OR_RETURN(base, EmbeddedBase(BaseCacheDirectory()));
  }
  if (options.base.empty() || options.circuit_is_given) {
    QGPU_ASSIGN_OR_RETURN(Circuit loaded, LoadCircuit(options.circuit));
    circuit = std::make_shared<const Circuit>(std::move(loaded));
  } else {
    QGPU_ASSIGN_OR_RETURN(const BaseBuild build, BuildForBase(base));
    circuit = build.circuit;
  }
  ExportOptions export_options;
  export_options.type = options.data_type == "float32" ? DataType::kFloat32 : DataType::kBFloat16;
  export_options.done_id = TokenToId(Token::Done());
  export_options.progress = ExportProgress();
  QGPU_RETURN_IF_ERROR(ExportDense(*circuit, base, options.out, export_options));
  std::fprintf(stdout, "%s\n", options.out.c_str());
  return kExitGood;
}

}  // namespace

void AddExportCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExportCommandOptions>();
  CLI::App* command = app.add_subcommand("export", "Write the merged model as a Hugging Face checkpoint");
  command->add_option("--dense", options->out, "Folder to make")->required();
  AddCircuitOption(*command, options->circuit);
  command->add_option(
      "--base", options->base,
      "Folder of the base model (default: the embedded one); its circuit is built where --circuit is not given");
  command->add_option("--dtype", options->data_type, "Data type")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  command->callback([command, options, &action] {
    options->circuit_is_given = command->count("--circuit") > 0;
    action = [options] { return Export(*options); };
  });
}

}  // namespace qgpu
