// `qgpu trace`: a launch, token by token, in words.
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/engines.h"
#include "cli/trace_narrator.h"
#include "machine/isa/machine_launch.h"
#include "machine/isa/trap_report.h"

namespace qgpu {
namespace {

struct TraceOptions {
  LaunchOptions launch;
  EngineOptions engine;
  bool prompt = false;
};

absl::StatusOr<ExitCode> Trace(const TraceOptions& options) {
  if (options.engine.runs_ptx()) {
    return absl::InvalidArgumentError("native-cpu writes no tokens; trace the model or the interpreter");
  }
  QGPU_ASSIGN_OR_RETURN(const PreparedLaunch launch, PrepareLaunch(options.launch));
  QGPU_ASSIGN_OR_RETURN(const LoweredKernel lowered, LowerLaunch(launch));
  if (options.prompt) {
    std::string text;  // no line end: it would be a token
    for (const Token& token : HostTokens(lowered.launch)) text += TokenText(token);
    std::fputs(text.c_str(), stdout);
    return kExitGood;
  }
  QGPU_ASSIGN_OR_RETURN(const LaunchResult result, RunOnMachine(launch, lowered, options.engine));
  TraceNarrator narrator(lowered.launch);
  // Positions count from the first token that the machine wrote.
  for (size_t position = 0; position < result.tokens.size(); ++position) {
    const TraceNarrator::Line line = narrator.Narrate(result.tokens[position]);
    const std::string place = SourcePlace(line.origin, launch.spec.source.name);
    const std::string text =
        fmt::format("{:>5}  {:<34} {:<16} {}\n", position, FormatToken(result.tokens[position]), place, line.what);
    std::fputs(text.c_str(), stdout);
  }
  QGPU_RETURN_IF_ERROR(ResultStatus(result));
  return kExitGood;
}

}  // namespace

void AddTraceCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* command = app.add_subcommand("trace", "Print a launch readably: position, token, place, what it did");
  AddLaunchOptions(*command, options->launch);
  AddEngineOptions(*command, options->engine);
  command->add_flag("--prompt", options->prompt,
                    "Run nothing: print what the host feeds, as an exported model's tokenizer reads it");
  command->callback([options, &action] { action = [options] { return Trace(*options); }; });
}

}  // namespace qgpu
