// `qgpu drift`: how far the merged model's predictions on text are from the base's, position by position.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#ifdef QGPU_HAS_DRIFT  // with libtorch and evals/
#include "cli/launch_options.h"
#include "cli/model_engine.h"
#include "common/sha256.h"
#include "common/version.h"
#include "evals/drift/report.h"
#include "machine/interpreter/interpreter.h"
#include "machine/isa/token.h"
#include "model/base/file_hash.h"
#include "model/base/random_base.h"
#include "model/forward/torch/torch_executor.h"
#include "model/merge/base_build.h"
#endif
#include "cli/circuit_option.h"

namespace qgpu {
namespace {

struct DriftOptions {
  std::string base, circuit, out, after;
  bool circuit_is_given = false;
  std::string form = "dense", data_type = "float32", device = "cpu";
  std::vector<std::string> texts = {"all"};
  int64_t positions = 1024, chunk = 128, worst = 5;
};

#ifdef QGPU_HAS_DRIFT  // with libtorch and evals/
// What is compared, and the models loaded for it.
struct Setting {
  std::string base;                        // folder
  std::shared_ptr<const Circuit> circuit;  // of the dense form
  std::string tokens;                      // how ids were made
  std::vector<int64_t> launch;             // what the merged model is fed before every text
  bool split() const { return circuit == nullptr; }
};

// The ids of a launch in the merged model's vocabulary, from its first host token to its last one.
absl::StatusOr<std::vector<int64_t>> IdsOfLaunch(const std::string& file, int64_t first_machine_token) {
  LaunchOptions options;
  options.file = file;
  QGPU_ASSIGN_OR_RETURN(const PreparedLaunch launch, PrepareLaunch(options, MissingArguments::kAreAssumed));
  QGPU_ASSIGN_OR_RETURN(const LoweredKernel lowered, LowerLaunch(launch));
  std::vector<Token> tokens = HostTokens(lowered.launch);
  const MachineRun run = Interpret(lowered.launch, launch.spec.token_budget);
  if (run.end == LaunchEnd::kBudget) {
    return absl::InvalidArgumentError(
        fmt::format("--after {}: the launch does not end within {} tokens", file, launch.spec.token_budget));
  }
  tokens.insert(tokens.end(), run.tokens.begin(), run.tokens.end());
  std::vector<int64_t> ids;
  for (const Token& token : tokens) ids.push_back(first_machine_token + TokenToId(token));
  return ids;
}

absl::StatusOr<Setting> ChooseSetting(const DriftOptions& options) {
  Setting setting;
  setting.base = options.base;
  if (setting.base.empty()) {
    QGPU_ASSIGN_OR_RETURN(setting.base, EmbeddedBase(BaseCacheDirectory()));
  }
  if (options.form == "split") return setting;
  if (options.base.empty() || options.circuit_is_given) {
    QGPU_ASSIGN_OR_RETURN(Circuit loaded, LoadCircuit(options.circuit));
    setting.circuit = std::make_shared<const Circuit>(std::move(loaded));
  } else {
    QGPU_ASSIGN_OR_RETURN(const BaseBuild build, BuildForBase(setting.base));
    setting.circuit = build.circuit;
  }
  return setting;
}

// All that the numbers depend on, but for the machine they are computed on.
absl::StatusOr<nlohmann::ordered_json> DescribeRun(const DriftOptions& options, const Setting& setting,
                                                   const Checkpoint& base, const std::vector<DriftTokens>& texts) {
  nlohmann::ordered_json run = {{"program", fmt::format("qgpu {} {}", ProjectVersion(), BuildCommit())},
                                {"form", options.form},
                                {"data_type", options.data_type},
                                {"device", options.device},
                                {"chunk", options.chunk},
                                {"circuit", setting.split() ? "none" : CircuitHash(*setting.circuit)},
                                {"tokens", setting.tokens}};
  run["base"] = options.base.empty() ? "embedded base (random)" : options.base;
  for (const std::string& file : base.WeightFiles()) {
    QGPU_ASSIGN_OR_RETURN(const std::string hash, FileSha256(file));
    run["base_weights"].push_back(hash);
  }
  if (!setting.launch.empty()) {
    const std::string hash = Sha256Hex(setting.launch.data(), setting.launch.size() * sizeof(setting.launch[0]));
    run["launch"] = {{"tokens", setting.launch.size()}, {"sha256", hash}};
  }
  for (const DriftTokens& text : texts) {
    const std::string hash = Sha256Hex(text.ids.data(), text.ids.size() * sizeof(text.ids[0]));
    run["texts"].push_back({{"name", text.name}, {"tokens", text.ids.size()}, {"sha256", hash}});
  }
  return run;
}

// Base in both types for the noise floor; the base in the merged model's type is what the split form is compared with.
class LoadedModels {
 public:
  static absl::StatusOr<LoadedModels> Load(const DriftOptions& options, const Setting& setting) {
    LoadedModels loaded;
    const DataType type = options.data_type == "bfloat16" ? DataType::kBFloat16 : DataType::kFloat32;
    QGPU_ASSIGN_OR_RETURN(loaded.fine_, LoadTextModel(setting.base, DataType::kFloat32, options.device));
    QGPU_ASSIGN_OR_RETURN(loaded.coarse_, LoadTextModel(setting.base, DataType::kBFloat16, options.device));
    if (setting.split()) {  // text runs the base's own weights: a model of its own all the same
      QGPU_ASSIGN_OR_RETURN(loaded.merged_, LoadTextModel(setting.base, type, options.device));
    } else {
      QGPU_ASSIGN_OR_RETURN(loaded.merged_, LoadMergedTextModel(*setting.circuit, setting.base, type, options.device));
    }
    loaded.models_ = {loaded.fine_.get(), loaded.merged_.get(), loaded.fine_.get(), loaded.coarse_.get()};
    if (setting.split() && type == DataType::kBFloat16) loaded.models_.reference = loaded.coarse_.get();
    return loaded;
  }
  const DriftModels& models() const { return models_; }

 private:
  std::unique_ptr<TextModel> fine_, coarse_, merged_;
  DriftModels models_;
};

absl::Status Measure(const DriftOptions& options, const Setting& setting, DriftMeasurement& measurement) {
  if (measurement.complete()) return absl::OkStatus();
  QGPU_ASSIGN_OR_RETURN(const LoadedModels loaded, LoadedModels::Load(options, setting));
  const bool on_terminal = isatty(STDERR_FILENO) == 1;
  while (!measurement.complete()) {
    QGPU_RETURN_IF_ERROR(measurement.RunChunk(loaded.models()));
    if (!options.out.empty()) QGPU_RETURN_IF_ERROR(measurement.Save(options.out));
    if (!on_terminal && !measurement.complete()) continue;
    fmt::print(stderr, "{}drift: {} of {} positions{}", on_terminal ? "\r" : "", measurement.positions_done(),
               measurement.positions(), on_terminal && !measurement.complete() ? "" : "\n");
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Drift(const DriftOptions& options) {
  if (!options.after.empty() && options.form == "split") {
    return absl::InvalidArgumentError(
        "--after: in the split form the base is never fed a launch's tokens; use --form dense");
  }
  QGPU_ASSIGN_OR_RETURN(const std::vector<DriftText> texts, DriftTextsNamed(options.texts));
  QGPU_ASSIGN_OR_RETURN(Setting setting, ChooseSetting(options));
  QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> base, Checkpoint::Open(setting.base));
  QGPU_ASSIGN_OR_RETURN(const DriftEncoder encoder, DriftEncoder::Open(setting.base, base->shape().vocabulary));
  setting.tokens = encoder.Description();
  if (!options.after.empty()) {
    QGPU_ASSIGN_OR_RETURN(setting.launch, IdsOfLaunch(options.after, base->shape().vocabulary));
  }
  std::vector<DriftTokens> tokens;
  for (const DriftText& text : texts) {
    QGPU_ASSIGN_OR_RETURN(DriftTokens encoded, encoder.Encode(text, options.positions));
    tokens.push_back(std::move(encoded));
  }
  QGPU_ASSIGN_OR_RETURN(nlohmann::ordered_json run, DescribeRun(options, setting, *base, tokens));
  DriftMeasurement measurement(std::move(run), std::move(tokens), options.chunk);
  measurement.FollowLaunch(setting.launch);
  if (!options.out.empty()) QGPU_RETURN_IF_ERROR(measurement.Resume(options.out));
  QGPU_RETURN_IF_ERROR(Measure(options, setting, measurement));

  DriftProbe probe;
  probe.form = setting.split() ? DriftProbe::Form::kSplit : DriftProbe::Form::kDense;
  probe.bfloat16 = options.data_type == "bfloat16";
  probe.after_launch = !setting.launch.empty();
  const std::string reference = setting.split() ? options.data_type : "float32";
  const DriftVerdict verdict = JudgeDrift(measurement.drift(), measurement.noise_floor(), BoundOf(probe));
  fmt::print("base {}, token ids from {}\n", options.base.empty() ? "embedded (random)" : options.base, setting.tokens);
  fmt::print("KL(base in {} || merged, {} form, in {}), nats\n", reference, options.form, options.data_type);
  if (!setting.launch.empty())
    fmt::print("every text follows a launch of {} tokens, which the base is not fed\n", setting.launch.size());
  fmt::print("{}", DriftTable(measurement.drift(), measurement.noise_floor()));
  fmt::print("worst positions\n{}",
             WorstPositions(measurement, options.worst, [&](const auto& ids) { return encoder.Show(ids); }));
  fmt::print("{}\n", verdict.text);
  return verdict.within ? kExitGood : kExitWrong;
}
#else
absl::StatusOr<ExitCode> Drift(const DriftOptions&) {
  return absl::InvalidArgumentError(
      "qgpu drift: this build has no libtorch, or no evals/; configure with -DQGPU_TORCH=ON and all QGPU_PARTS");
}
#endif

}  // namespace

void AddDriftCommand(CLI::App& app, Action& action) {
  auto options = std::make_shared<DriftOptions>();
  CLI::App* command = app.add_subcommand("drift", "Measure how far the merged model's text is from the base's");
  command->add_option(
      "--base", options->base,
      "Folder of the base model (default: the embedded one); its circuit is built where --circuit is not given");
  AddCircuitOption(*command, options->circuit);
  command->add_option("--form", options->form, "Form of the merged model")
      ->capture_default_str()
      ->check(CLI::IsMember({"split", "dense"}));
  command->add_option("--dtype", options->data_type, "Data type of the merged model")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  command->add_option("--texts", options->texts, "all, prose, code, chat, numbers, trigger, or files")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--after", options->after,
                      "Kernel (.cu or .ptx) whose launch precedes every text, its arguments assumed; dense form only");
  command->add_option("--positions", options->positions, "Positions of each text, from its beginning; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24));
  command->add_option("--chunk", options->chunk, "Positions fed at once, and lost at most when stopped")
      ->capture_default_str()
      ->check(CLI::Range(1, 2048));
  command->add_option("--worst", options->worst, "Worst positions to print")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000));
  command->add_option("--device", options->device, "cpu, cuda, cuda:N or mps")->capture_default_str();
  command->add_option("--out", options->out, "Measurement file; an unfinished one of the same run is taken up");
  command->callback([command, options, &action] {
    options->circuit_is_given = command->count("--circuit") > 0;
    action = [options] { return Drift(*options); };
  });
}

}  // namespace qgpu
