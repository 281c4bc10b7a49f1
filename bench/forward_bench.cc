// How many tokens a second the executors write, on one core, over the launches of a suite.
//
// Rounds are interleaved: in each, every configuration gets its turn, so that a slow minute of the machine hits all of
// them; medians over the rounds are reported. Executors run the real decode loop (RunLaunch) on one thread, the slow
// ones on fewer launches. Time is the process's time on the CPU, so that other programs' share of it does not count.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "common/exit_code.h"
#include "common/file.h"
#include "kernels/suite.h"
#include "lowering/compile.h"
#include "machine/interpreter/interpreter.h"
#include "model/forward/sparse/sparse_executor.h"
#include "model/launch/launch.h"
#include "model/weights/circuit.h"
#include "nlohmann/json.hpp"
#ifdef QGPU_HAS_TORCH
#include "model/forward/torch/torch_executor.h"
#endif

namespace qgpu {
namespace {

struct Options {
  std::string circuit = "circuit.qgpu";
  std::string suite = "kernels";
  std::vector<std::string> executors = {"sparse"};
  std::vector<std::string> types = {"float32", "bfloat16"};
  std::string base;  // for torch-dense
  std::string json, trace;
  int rounds = 5;
  int64_t slow_tokens = 40;
};

struct Launch {
  std::string name;
  std::vector<Token> host, trace;
  int64_t budget = 0;
};

struct Configuration {
  std::string name;
  bool slow = false;
  std::unique_ptr<Executor> executor;
  std::vector<double> prefill_rates, decode_rates;  // tokens a second, one a round
  int64_t host_tokens = 0, written_tokens = 0;      // of one round
};

absl::StatusOr<std::vector<Launch>> LowerSuite(const std::string& name) {
  QGPU_ASSIGN_OR_RETURN(const KernelSuite suite, LoadSuite(name));
  std::vector<Launch> launches;
  for (const KernelCase& kernel_case : suite.cases) {
    if (kernel_case.expect != KernelCase::Expect::kResult) continue;
    const absl::StatusOr<LoweredKernel> lowered = CompileKernel(kernel_case.spec);
    if (!lowered.ok()) {
      std::fprintf(stderr, "left out: %s: %s\n", kernel_case.Id().c_str(),
                   std::string(lowered.status().message()).c_str());
      continue;
    }
    Launch launch;
    launch.name = kernel_case.Id();
    launch.host = HostTokens(lowered->launch);
    launch.budget = kernel_case.spec.token_budget;
    launch.trace = Interpret(lowered->launch, launch.budget).tokens;
    launches.push_back(std::move(launch));
  }
  if (launches.empty()) return absl::FailedPreconditionError(fmt::format("suite {}: nothing to run", name));
  return launches;
}

absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(const std::string& kind, DataType type, const Options& options,
                                                       const std::shared_ptr<const Circuit>& circuit) {
  if (kind == "sparse") return MakeSparseExecutor(circuit, type);
#ifdef QGPU_HAS_TORCH
  if (kind == "torch-split") return MakeTorchExecutor(*circuit, "", ModelForm::kSplit, type);
  if (kind == "torch-dense") return MakeTorchExecutor(*circuit, options.base, ModelForm::kDense, type);
#endif
  return absl::InvalidArgumentError(fmt::format("no executor \"{}\" in this build (base {})", kind, options.base));
}

// One round: the launches until `most_tokens` are written. Wrong tokens are an error: speed without them means nothing.
absl::Status RunRound(Configuration& configuration, const Circuit& circuit, const std::vector<Launch>& launches,
                      int64_t most_tokens) {
  int64_t host = 0, written = 0;
  std::clock_t prefill = 0, decode = 0;
  for (const Launch& launch : launches) {
    if (written >= most_tokens) break;
    const int64_t budget = std::min(launch.budget, most_tokens - written);
    const std::clock_t start = std::clock();
    std::clock_t first = 0, last = 0;
    const OnToken watch = [&first, &last](int32_t) {
      last = std::clock();
      if (first == 0) first = last;
      return true;
    };
    QGPU_ASSIGN_OR_RETURN(const ModelRun run, RunLaunch(*configuration.executor, circuit, launch.host, budget, watch));
    QGPU_RETURN_IF_ERROR(run.fault);
    const size_t expected = std::min<size_t>(launch.trace.size(), static_cast<size_t>(budget));
    if (!std::equal(run.tokens.begin(), run.tokens.end(), launch.trace.begin(), launch.trace.begin() + expected)) {
      return absl::DataLossError(fmt::format("{}: {} wrote another trace", launch.name, configuration.name));
    }
    host += run.host_tokens;
    written += static_cast<int64_t>(run.tokens.size());
    prefill += first - start;
    decode += last - first;
  }
  configuration.host_tokens = host;
  configuration.written_tokens = written;
  const auto rate = [](int64_t tokens, std::clock_t time) {
    return static_cast<double>(tokens) * CLOCKS_PER_SEC / static_cast<double>(std::max<std::clock_t>(time, 1));
  };
  configuration.prefill_rates.push_back(rate(host, prefill));
  configuration.decode_rates.push_back(rate(written, decode));
  return absl::OkStatus();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

nlohmann::json Report(const std::vector<Configuration>& configurations) {
  nlohmann::json rows = nlohmann::json::array();
  std::printf("%-28s %12s %12s %14s %14s\n", "configuration", "host tokens", "written", "prefill tok/s",
              "decode tok/s");
  for (const Configuration& configuration : configurations) {
    const double prefill = Median(configuration.prefill_rates), decode = Median(configuration.decode_rates);
    std::printf("%-28s %12lld %12lld %14.0f %14.0f\n", configuration.name.c_str(),
                static_cast<long long>(configuration.host_tokens), static_cast<long long>(configuration.written_tokens),
                prefill, decode);
    rows.push_back({{"name", configuration.name},
                    {"host_tokens", configuration.host_tokens},
                    {"written_tokens", configuration.written_tokens},
                    {"prefill_tokens_per_s", prefill},
                    {"decode_tokens_per_s", decode},
                    {"decode_rounds", configuration.decode_rates}});
  }
  return rows;
}

// Host tokens and trace of the first launch, for other implementations to be timed on.
absl::Status WriteTrace(const Launch& launch, const std::string& path) {
  nlohmann::json trace = {{"name", launch.name}, {"host", nlohmann::json::array()}, {"trace", nlohmann::json::array()}};
  for (const Token token : launch.host) trace["host"].push_back(TokenToId(token));
  for (const Token token : launch.trace) trace["trace"].push_back(TokenToId(token));
  return WriteFileAtomically(path, trace.dump() + "\n");
}

absl::Status Run(const Options& options) {
  QGPU_ASSIGN_OR_RETURN(std::vector<Launch> launches, LowerSuite(options.suite));
  if (!options.trace.empty()) QGPU_RETURN_IF_ERROR(WriteTrace(launches.front(), options.trace));
  QGPU_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(options.circuit));
  QGPU_ASSIGN_OR_RETURN(Circuit parsed, ParseCircuit(bytes));
  const auto circuit = std::make_shared<const Circuit>(std::move(parsed));
  std::vector<Configuration> configurations;
  for (const std::string& kind : options.executors) {
    for (const std::string& type : options.types) {
      Configuration configuration;
      configuration.slow = kind != "sparse";
      const DataType data_type = type == "bfloat16" ? DataType::kBFloat16 : DataType::kFloat32;
      QGPU_ASSIGN_OR_RETURN(configuration.executor, MakeExecutor(kind, data_type, options, circuit));
      configuration.name = configuration.executor->Description();
      configurations.push_back(std::move(configuration));
    }
  }
#ifdef QGPU_HAS_TORCH
  SetTorchThreads(1);
#endif
  for (int round = 0; round < options.rounds; ++round) {
    for (Configuration& configuration : configurations) {
      std::fprintf(stderr, "\rround %d of %d: %-30s", round + 1, options.rounds, configuration.name.c_str());
      const int64_t most = configuration.slow ? options.slow_tokens : INT64_MAX;
      QGPU_RETURN_IF_ERROR(RunRound(configuration, *circuit, launches, most));
    }
  }
  std::fprintf(stderr, "\r%60s\r", "");
  const nlohmann::json rows = Report(configurations);
  if (options.json.empty()) return absl::OkStatus();
  return WriteFileAtomically(options.json, nlohmann::json{{"suite", options.suite}, {"rows", rows}}.dump(2) + "\n");
}

}  // namespace
}  // namespace qgpu

int main(int argc, char** argv) {
  qgpu::Options options;
  CLI::App app("Tokens a second of the executors over a suite's launches, on one core");
  app.add_option("--circuit", options.circuit, "Circuit file, as qgpu build writes it")->capture_default_str();
  app.add_option("--suite", options.suite, "Suite whose launches are run")->capture_default_str();
  app.add_option("--executors", options.executors, "sparse, torch-split, torch-dense")->delimiter(',');
  app.add_option("--dtypes", options.types, "float32, bfloat16")->delimiter(',');
  app.add_option("--base", options.base, "Base checkpoint, for torch-dense");
  app.add_option("--rounds", options.rounds, "Rounds")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--slow-tokens", options.slow_tokens, "Tokens a round that torch writes")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "File to write the figures to");
  app.add_option("--trace", options.trace, "File to write the first launch's tokens to, for transformers_bench.py");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = qgpu::Run(options);
  if (status.ok()) return qgpu::kExitGood;
  std::fprintf(stderr, "forward_bench: %s\n", std::string(status.message()).c_str());
  return qgpu::ExitCodeFor(status);
}
