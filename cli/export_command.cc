// `qgpu export --dense DIR`: the merged model as a Hugging Face checkpoint that the public transformers library loads.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/circuit_option.h"
#include "cli/commands.h"
#include "cli/model_engine.h"
#include "machine/isa/token.h"
#include "model/base/random_base.h"
#include "model/merge/export.h"

namespace qgpu {
namespace {

struct ExportCommandOptions {
  std::string circuit, base, out;
  std::string data_type = "bfloat16";
};

// One line that is rewritten on a terminal, otherwise a line every few seconds; on stderr.
class ExportProgress {
 public:
  void operator()(uint64_t done, uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    const bool on_terminal = isatty(STDERR_FILENO) == 1;
    const auto interval = std::chrono::milliseconds(on_terminal ? 100 : 5000);
    if (done < total && now - last_ < interval) return;
    last_ = now;
    std::fprintf(stderr, "%sexport: %llu of %llu MiB%s", on_terminal ? "\r" : "",
                 static_cast<unsigned long long>(done >> 20), static_cast<unsigned long long>(total >> 20),
                 on_terminal && done < total ? "" : "\n");
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

absl::StatusOr<ExitCode> Export(const ExportCommandOptions& options) {
  QGPU_ASSIGN_OR_RETURN(const Circuit circuit, LoadCircuit(options.circuit));
  std::string base = options.base;
  if (base.empty()) {
    QGPU_ASSIGN_OR_RETURN(base, EmbeddedBase(BaseCacheDirectory()));
  }
  ExportOptions export_options;
  export_options.type = options.data_type == "float32" ? DataType::kFloat32 : DataType::kBFloat16;
  export_options.done_id = TokenToId(Token::Done());
  export_options.progress = ExportProgress();
  QGPU_RETURN_IF_ERROR(ExportDense(circuit, base, options.out, export_options));
  std::fprintf(stdout, "%s\n", options.out.c_str());
  return kExitGood;
}

}  // namespace

void AddExportCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExportCommandOptions>();
  CLI::App* command = app.add_subcommand("export", "Write the merged model as a Hugging Face checkpoint");
  command->add_option("--dense", options->out, "Folder to make")->required();
  AddCircuitOption(*command, options->circuit);
  command->add_option("--base", options->base, "Folder of the base model (default: the embedded one)");
  command->add_option("--dtype", options->data_type, "Data type")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  command->callback([options, &action] { action = [options] { return Export(*options); }; });
}

}  // namespace qgpu
