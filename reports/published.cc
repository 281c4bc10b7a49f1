#include "reports/published.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace qgpu {
namespace {

// Something of a GPU's took part: the driver's, or what was recorded from one.
bool IsOfAGpu(const std::string& witness) {
  return witness.starts_with("native-cuda") || witness.starts_with("golden");
}

std::string KernelLimits(const RunReport& report) {
  const std::vector<std::string> witnesses = NativeWitnesses(report);
  const auto gpus = std::count_if(witnesses.begin(), witnesses.end(), IsOfAGpu);
  std::string text = "Each project runs a suite of its own; the other's was checked on a Tesla T4. ";
  if (witnesses.empty()) return text + "In this run nothing native took part.";
  text += fmt::format("Here model and interpreter are compared with {}", fmt::join(witnesses, " and "));
  if (gpus == 0) return text + ": no GPU took part, so this run says nothing of hardware.";
  return text + (gpus == std::ssize(witnesses) ? "." : ": only some launches were compared with a GPU's answer.");
}

std::string WorkersText(const RunReport& report) {
  std::vector<std::string> workers;
  for (const NodeRow& node : report.nodes) {
    if (node.role != "worker") continue;
    workers.push_back(fmt::format("{}, {}", node.form, node.accelerator.empty() ? node.processor : node.accelerator));
  }
  return fmt::format("{}", fmt::join(workers, "; "));
}

}  // namespace

const std::vector<PublishedFigure>& PublishedFigures() {
  static const std::vector<PublishedFigure> figures = {
      {"kernels", "qwenGPU", "49/49", "Tesla T4 against its reference interpreter"},
      {"chat", "qwenGPU", "20/24", "Qwen3.5-2B, normal mode"},
      {"advanced", "qwenGPU", "4/5", "Qwen3.5-2B writes CUDA, first try"},
      {"mean KL", "qwenGPU", "about 7e-4", "45 layers before Qwen3.5-2B's 24"},
      {"mean KL", "Qwenputer", "6e-4", "11 layers in Qwen3.5-4B"},
      {"replay", "qwenGPU", "every launch exact", "under --check"},
      {"replay", "Qwenputer", "0 mismatches in about 230,000 positions", "RISC-V programs"},
      {"speed", "qwenGPU", "10 to 15 tokens/s", "Qwen3.5-2B on Apple MPS, bfloat16"},
      {"speed", "Qwenputer", "about 3,200 trace tokens/s", "Qwen3.5-4B on an L4, Triton"},
      {"speed", "Percepta", "30,000+ tokens/s", "a CPU; WebAssembly interpreter in a transformer of 7 layers"},
  };
  return figures;
}

std::string ComparisonLimits(const RunReport& report, const std::string& figure) {
  const bool has_kernels = HasItems(report, SuiteKind::kKernels), has_drift = HasItems(report, SuiteKind::kDrift);
  if (figure == "kernels" && has_kernels) return KernelLimits(report);
  if (figure == "mean KL" && has_drift) {
    return "The others' are of trained Qwen models, on texts and in a form and type that are not stated. This run's "
           "are "
           "of the base named here on this project's texts; how far a base drifts depends on how sharp its predictions "
           "are.";
  }
  if (figure == "replay" && has_kernels) return "Each of its own machine's tokens, on its own programs.";
  if (figure == "speed" && has_kernels) {
    return fmt::format("Other machines, other tokens, other models. This run: {}.", WorkersText(report));
  }
  return "";
}

}  // namespace qgpu
