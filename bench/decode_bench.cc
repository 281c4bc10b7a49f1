// Our half of decode_bench.py, which interleaves it with transformers: greedy decoding of a checkpoint, and how fast
// this machine's memory can be read. One process answers line by line, so that rounds are short and nothing is loaded
// twice:
//
//   decode STEPS   forgets everything, feeds the prompt, decodes STEPS tokens
//   probe          reads a buffer as large as the weights (of at most 4 GiB) once, with as many threads
//
// Each answer is one line of JSON. The first line, unasked, describes the model.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "common/exit_code.h"
#include "common/prng.h"
#include "model/base/checkpoint.h"
#include "model/forward/torch/torch_executor.h"
#include "nlohmann/json.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace qgpu {
namespace {

// Time that passed, and time that the process's threads were running.
class Stopwatch {
 public:
  Stopwatch() : start_(std::chrono::steady_clock::now()), cpu_start_(CpuSeconds()) {}
  nlohmann::json Report() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    return {{"seconds", passed.count()}, {"cpu_seconds", CpuSeconds() - cpu_start_}};
  }

 private:
  static double CpuSeconds() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * t.tv_usec; };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  std::chrono::steady_clock::time_point start_;
  double cpu_start_;
};

// What one decoded token reads of the weights: all of them, but of an embedding that is not the head only one row.
int64_t WeightBytesPerToken(const ModelShape& shape, DataType type) {
  int64_t elements = 0;
  for (const TensorSpec& spec : ModelTensors(shape)) {
    const bool is_lookup = spec.name == "embed_tokens.weight" && !shape.tied_head;
    elements += is_lookup ? spec.row_size() : spec.elements();
  }
  return elements * (type == DataType::kFloat32 ? 4 : 2);
}

// A buffer in large pages, read from end to end by several threads, each in four streams: the fastest of the ways tried
// (bench/README.md).
class BandwidthProbe {
 public:
  BandwidthProbe(int64_t bytes, int threads) : threads_(threads) {
    part_ = bytes / threads / kStep * kStep;
    bytes_ = part_ * threads;
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes_, MADV_HUGEPAGE);
#endif
    words_ = static_cast<uint64_t*>(memory);
    for (int64_t i = 0; i < bytes_ / 8; ++i) words_[i] = i;
  }
  ~BandwidthProbe() { munmap(words_, bytes_); }
  BandwidthProbe(const BandwidthProbe&) = delete;
  BandwidthProbe& operator=(const BandwidthProbe&) = delete;

  nlohmann::json Run() {
    const Stopwatch watch;
    std::vector<uint64_t> sums(threads_);
    std::vector<std::thread> others;
    for (int i = 1; i < threads_; ++i)
      others.emplace_back([this, i, &sums] { sums[i] = Read(words_ + i * part_ / 8); });
    sums[0] = Read(words_);
    for (std::thread& other : others) other.join();
    nlohmann::json report = watch.Report();
    for (uint64_t sum : sums) report["sum"] = report.value("sum", uint64_t{0}) ^ sum;  // so that it is not left out
    report["bytes"] = bytes_;
    return report;
  }

 private:
  static constexpr int64_t kStreams = 4, kWords = 16, kStep = kStreams * kWords * 8;

  uint64_t Read(const uint64_t* words) const {
    const int64_t stream = part_ / 8 / kStreams;
    uint64_t sums[kWords] = {};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
      ReadAvx512(words, stream, sums);
    } else
#endif
    {
      for (int64_t i = 0; i < stream; i += kWords) {
        for (int64_t s = 0; s < kStreams; ++s) {
          for (int64_t j = 0; j < kWords; ++j) sums[j] ^= words[s * stream + i + j];
        }
      }
    }
    uint64_t sum = 0;
    for (uint64_t part : sums) sum ^= part;
    return sum;
  }

#if defined(__x86_64__)
  __attribute__((target("avx512f"))) static void ReadAvx512(const uint64_t* words, int64_t stream, uint64_t* sums) {
    __m512i low = _mm512_setzero_si512(), high = low;
    for (int64_t i = 0; i < stream; i += kWords) {
      for (int64_t s = 0; s < kStreams; ++s) {
        low = _mm512_xor_si512(low, _mm512_loadu_si512(words + s * stream + i));
        high = _mm512_xor_si512(high, _mm512_loadu_si512(words + s * stream + i + 8));
      }
    }
    _mm512_storeu_si512(sums, low);
    _mm512_storeu_si512(sums + 8, high);
  }
#endif

  int threads_;
  int64_t part_ = 0, bytes_ = 0;  // of one thread; of all
  uint64_t* words_ = nullptr;
};

absl::StatusOr<nlohmann::json> Decode(TextModel& model, const std::vector<int64_t>& prompt, int64_t steps) {
  model.Reset();
  const auto best = [](const std::vector<float>& logits, size_t vocabulary) {
    return static_cast<int64_t>(std::max_element(logits.end() - vocabulary, logits.end()) -
                                (logits.end() - vocabulary));
  };
  const Stopwatch prefill;
  QGPU_ASSIGN_OR_RETURN(std::vector<float> logits, model.Logits(prompt));
  const nlohmann::json prefill_report = prefill.Report();
  std::vector<int64_t> ids = {best(logits, model.vocabulary())};
  const Stopwatch watch;
  for (int64_t step = 0; step < steps; ++step) {
    QGPU_ASSIGN_OR_RETURN(logits, model.Logits({&ids.back(), 1}));
    ids.push_back(best(logits, model.vocabulary()));
  }
  nlohmann::json report = watch.Report();
  report["prefill_seconds"] = prefill_report["seconds"];
  report["ids"] = ids;
  return report;
}

absl::Status Run(const std::string& directory, const std::string& type_name, int threads, int prompt_length) {
  const DataType type = type_name == "bfloat16" ? DataType::kBFloat16 : DataType::kFloat32;
  SetTorchThreads(threads);
  QGPU_ASSIGN_OR_RETURN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::Open(directory));
  QGPU_ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model, LoadTextModel(directory, type));
  const int64_t weight_bytes = WeightBytesPerToken(checkpoint->shape(), type);
  BandwidthProbe probe(std::min<int64_t>(weight_bytes, int64_t{4} << 30), threads);
  SplitMix64 random(1);
  std::vector<int64_t> prompt(prompt_length);
  for (int64_t& id : prompt) id = static_cast<int64_t>(random.Below(model->vocabulary()));
  std::cout << nlohmann::json{{"weight_bytes", weight_bytes}, {"prompt", prompt}}.dump() << std::endl;

  for (std::string command; std::cin >> command;) {
    if (command == "probe") {
      std::cout << probe.Run().dump() << std::endl;
    } else if (int64_t steps = 0; command == "decode" && std::cin >> steps && steps > 0) {
      QGPU_ASSIGN_OR_RETURN(const nlohmann::json report, Decode(*model, prompt, steps));
      std::cout << report.dump() << std::endl;
    } else {
      return absl::InvalidArgumentError(fmt::format("\"{}\" is neither \"decode STEPS\" nor \"probe\"", command));
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace qgpu

int main(int argc, char** argv) {
  std::string directory, type = "bfloat16";
  int threads = std::max(1u, std::thread::hardware_concurrency()), prompt_length = 32;
  CLI::App app("Decodes a checkpoint and probes memory, as decode_bench.py asks on standard input");
  app.add_option("DIR", directory, "Checkpoint")->required();
  app.add_option("--dtype", type, "bfloat16 or float32")
      ->capture_default_str()
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--threads", threads, "Threads")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--prompt-length", prompt_length, "Random ids fed before decoding")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = qgpu::Run(directory, type, threads, prompt_length);
  if (status.ok()) return qgpu::kExitGood;
  std::fprintf(stderr, "decode_bench: %s\n", std::string(status.message()).c_str());
  return qgpu::ExitCodeFor(status);
}
