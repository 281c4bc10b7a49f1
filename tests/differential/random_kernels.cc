#include "tests/differential/random_kernels.h"

#include "common/prng.h"
#include "fmt/format.h"

namespace qgpu {
namespace {

constexpr int kMaxThreads = 16;  // each owns two words of `out`

class LaunchWriter {
 public:
  LaunchWriter(uint64_t seed, const KernelSource& source, const std::string& kernel) : random_(seed ^ 0x5eed) {
    spec.source = source;
    spec.kernel = kernel;
    spec.token_budget = 200000;
    spec.grid.x = 1 + random_.Below(2);
    spec.block.x = 1 + random_.Below(kMaxThreads / spec.grid.x);
  }
  void Buffer(const char* name, int words) {
    KernelArgument argument;
    argument.name = name;
    argument.kind = KernelArgument::Kind::kBuffer;
    for (int i = 0; i < words; ++i) argument.words.push_back(static_cast<uint32_t>(RandomNumber(random_)));
    spec.arguments.push_back(argument);
  }
  void Scalar(const char* name, int32_t value) {
    KernelArgument argument;
    argument.name = name;
    argument.scalar = static_cast<uint64_t>(static_cast<int64_t>(value));
    spec.arguments.push_back(argument);
  }
  void Inputs() {
    Buffer("a", 8);
    Buffer("b", 8);
    Scalar("n", static_cast<int32_t>(random_.Below(kMaxThreads + 1)));
    Scalar("m", RandomNumber(random_));
  }
  LaunchSpec spec;

 private:
  SplitMix64 random_;
};

}  // namespace

int32_t RandomNumber(SplitMix64& random) {
  static constexpr int32_t edges[] = {0, 1, -1, 2, 3, 7, 31, 32, 33, 255, 0x7fffffff, -0x7fffffff - 1, 65535, -65536};
  switch (random.Below(3)) {
    case 0:
      return edges[random.Below(std::size(edges))];
    case 1:
      return static_cast<int32_t>(random.Below(40)) - 20;
    default:
      return static_cast<int32_t>(random.Next32());
  }
}

LaunchSpec RandomLaunch(uint64_t seed, const KernelSource& source, const std::string& kernel) {
  LaunchWriter writer(seed, source, kernel);
  writer.Buffer("out", 2 * kMaxThreads);
  writer.Inputs();
  return std::move(writer.spec);
}

LaunchSpec RandomCudaLaunch(uint64_t seed, const KernelSource& source, const std::string& kernel) {
  LaunchWriter writer(seed, source, kernel);
  writer.Buffer("out", 2 * kMaxThreads);
  writer.Buffer("c", 8);
  writer.Inputs();
  return std::move(writer.spec);
}

}  // namespace qgpu
