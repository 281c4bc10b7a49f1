#include "kernels/expected.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>

namespace qgpu {
namespace {

using Words = std::vector<uint32_t>;

// A case's arguments by name; outputs are written in place.
class Arguments {
 public:
  explicit Arguments(std::vector<KernelArgument>& arguments) {
    for (KernelArgument& argument : arguments) by_name_[argument.name] = &argument;
  }
  Words& Buffer(const std::string& name) { return by_name_.at(name)->words; }
  int32_t Scalar(const std::string& name) const { return static_cast<int32_t>(by_name_.at(name)->scalar); }

 private:
  std::map<std::string, KernelArgument*> by_name_;
};

int32_t Signed(uint32_t word) { return static_cast<int32_t>(word); }
uint32_t Absolute(uint32_t word) { return Signed(word) < 0 ? 0 - word : word; }

uint32_t FibonacciOf(int32_t n) {
  Words table = {0, 1};
  while (Signed(static_cast<uint32_t>(table.size())) <= n)
    table.push_back(table[table.size() - 1] + table[table.size() - 2]);
  return n < 0 ? 0 : table[static_cast<size_t>(n)];
}

uint32_t CollatzSteps(uint32_t x) {
  uint32_t steps = 0;
  for (; x > 1; ++steps) x = x % 2 == 0 ? x / 2 : 3 * x + 1;
  return steps;
}

uint32_t HornerAt(const Words& coefficients, int32_t degree, uint32_t x) {
  uint32_t value = 0, power = 1;  // by powers here, not by Horner's rule
  for (int32_t k = 0; k <= degree; ++k, power *= x) value += coefficients[static_cast<size_t>(k)] * power;
  return value;
}

struct Reference {
  std::vector<const char*> parameters;  // in the kernel's order
  // Computes element i of the output; `arguments` still holds the inputs.
  std::function<uint32_t(Arguments& arguments, size_t i)> element;
  const char* output;
  const char* count;  // the parameter that says how many elements; nullptr: the output is one sum
};

const std::map<std::string, Reference>& References() {
  static const std::map<std::string, Reference> references = {
      {"vector_add",
       {{"a", "b", "c", "n"}, [](Arguments& m, size_t i) { return m.Buffer("a")[i] + m.Buffer("b")[i]; }, "c", "n"}},
      {"saxpy",
       {{"a", "x", "y", "n"},
        [](Arguments& m, size_t i) {
          return static_cast<uint32_t>(m.Scalar("a")) * m.Buffer("x")[i] + m.Buffer("y")[i];
        },
        "y",
        "n"}},
      {"relu",
       {{"in", "out", "n"},
        [](Arguments& m, size_t i) { return Signed(m.Buffer("in")[i]) < 0 ? 0 : m.Buffer("in")[i]; },
        "out",
        "n"}},
      {"clamp",
       {{"data", "low", "high", "n"},
        [](Arguments& m, size_t i) {
          const int32_t value = Signed(m.Buffer("data")[i]), low = m.Scalar("low"), high = m.Scalar("high");
          const int32_t raised = value < low ? low : value;
          return static_cast<uint32_t>(raised > high ? high : raised);
        },
        "data",
        "n"}},
      {"abs_diff",
       {{"a", "b", "out", "n"},
        [](Arguments& m, size_t i) { return Absolute(m.Buffer("a")[i] - m.Buffer("b")[i]); },
        "out",
        "n"}},
      {"polynomial",
       {{"c", "degree", "x", "y", "n"},
        [](Arguments& m, size_t i) { return HornerAt(m.Buffer("c"), m.Scalar("degree"), m.Buffer("x")[i]); },
        "y",
        "n"}},
      {"dot",
       {{"a", "b", "out", "n"},
        [](Arguments& m, size_t) {
          const auto n = std::max(m.Scalar("n"), 0);
          return std::inner_product(m.Buffer("a").begin(), m.Buffer("a").begin() + n, m.Buffer("b").begin(), 0u);
        },
        "out",
        nullptr}},
      {"fibonacci",
       {{"n", "out", "count"},
        [](Arguments& m, size_t i) { return FibonacciOf(Signed(m.Buffer("n")[i])); },
        "out",
        "count"}},
      {"gcd",
       {{"a", "b", "out", "n"},
        [](Arguments& m, size_t i) { return std::gcd(Absolute(m.Buffer("a")[i]), Absolute(m.Buffer("b")[i])); },
        "out",
        "n"}},
      {"collatz_steps",
       {{"x", "steps", "n"}, [](Arguments& m, size_t i) { return CollatzSteps(m.Buffer("x")[i]); }, "steps", "n"}},
      {"popcount",
       {{"x", "out", "n"},
        [](Arguments& m, size_t i) { return static_cast<uint32_t>(std::popcount(m.Buffer("x")[i])); },
        "out",
        "n"}},
      {"gather",
       {{"data", "index", "out", "n"},
        [](Arguments& m, size_t i) { return m.Buffer("data")[m.Buffer("index")[i]]; },
        "out",
        "n"}},
  };
  return references;
}

}  // namespace

absl::StatusOr<MemoryImage> ExpectedMemory(const KernelCase& kernel_case) {
  const auto found = References().find(kernel_case.kernel);
  if (found == References().end()) {
    return absl::NotFoundError(fmt::format("no reference for kernel {}", kernel_case.kernel));
  }
  const Reference& reference = found->second;
  QGPU_ASSIGN_OR_RETURN(
      std::vector<KernelArgument> arguments,
      OrderArguments(kernel_case.spec.arguments, {reference.parameters.begin(), reference.parameters.end()}));
  Arguments values(arguments);
  // Threads that the grid does not have compute nothing.
  size_t count = 1;
  if (reference.count != nullptr) {
    const uint64_t threads = kernel_case.spec.grid.Count() * kernel_case.spec.block.Count();
    count = std::min<uint64_t>(threads, static_cast<uint64_t>(std::max(values.Scalar(reference.count), 0)));
  }
  for (size_t i = 0; i < count; ++i) values.Buffer(reference.output)[i] = reference.element(values, i);
  return LayOutArena(arguments).words;
}

absl::StatusOr<std::vector<uint32_t>> BufferOf(const KernelCase& kernel_case, const MemoryImage& memory,
                                               const std::string& name) {
  const auto found = References().find(kernel_case.kernel);
  if (found == References().end()) {
    return absl::NotFoundError(fmt::format("no reference for kernel {}", kernel_case.kernel));
  }
  const Reference& reference = found->second;
  QGPU_ASSIGN_OR_RETURN(
      const std::vector<KernelArgument> arguments,
      OrderArguments(kernel_case.spec.arguments, {reference.parameters.begin(), reference.parameters.end()}));
  const Arena arena = LayOutArena(arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto begin = memory.begin() + arena.byte_address[i] / 4;
    if (arguments[i].name == name) return std::vector<uint32_t>(begin, begin + arguments[i].words.size());
  }
  return absl::NotFoundError(fmt::format("{} has no buffer {}", kernel_case.Id(), name));
}

}  // namespace qgpu
