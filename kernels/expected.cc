#include "kernels/expected.h"

#include <set>

#include "kernels/references.h"

namespace qgpu {
namespace {

const ReferenceTable& References() {
  static const ReferenceTable references = [] {
    ReferenceTable all = ElementwiseReferences();
    all.merge(NumberReferences());
    all.merge(CollectiveReferences());
    all.merge(ArrayReferences());
    all.merge(TextReferences());
    return all;
  }();
  return references;
}

absl::StatusOr<const Reference*> ReferenceOf(const KernelCase& kernel_case) {
  const auto found = References().find(kernel_case.kernel);
  if (found == References().end()) {
    return absl::NotFoundError(fmt::format("no reference for kernel {}", kernel_case.kernel));
  }
  return &found->second;
}

absl::StatusOr<std::vector<KernelArgument>> OrderedArguments(const KernelCase& kernel_case,
                                                             const Reference& reference) {
  return OrderArguments(kernel_case.spec.arguments, {reference.parameters.begin(), reference.parameters.end()});
}

}  // namespace

absl::StatusOr<std::vector<KernelCase>> EmbeddedCases() {
  std::vector<KernelCase> cases;
  std::set<std::string> hashes;
  for (const std::string& name : EmbeddedSuiteNames()) {
    QGPU_ASSIGN_OR_RETURN(KernelSuite suite, LoadSuite(name));
    for (KernelCase& kernel_case : suite.cases) {
      if (hashes.insert(kernel_case.hash).second) cases.push_back(std::move(kernel_case));
    }
  }
  return cases;
}

absl::StatusOr<MemoryImage> ExpectedMemory(const KernelCase& kernel_case) {
  QGPU_ASSIGN_OR_RETURN(const Reference* reference, ReferenceOf(kernel_case));
  QGPU_ASSIGN_OR_RETURN(std::vector<KernelArgument> arguments, OrderedArguments(kernel_case, *reference));
  Arguments by_name(arguments, kernel_case.spec.grid, kernel_case.spec.block);
  reference->compute(by_name);
  return LayOutArena(arguments).words;
}

absl::StatusOr<std::vector<uint32_t>> BufferOf(const KernelCase& kernel_case, const MemoryImage& memory,
                                               const std::string& name) {
  QGPU_ASSIGN_OR_RETURN(const Reference* reference, ReferenceOf(kernel_case));
  QGPU_ASSIGN_OR_RETURN(const std::vector<KernelArgument> arguments, OrderedArguments(kernel_case, *reference));
  const Arena arena = LayOutArena(arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto begin = memory.begin() + arena.byte_address[i] / 4;
    if (arguments[i].name == name) return std::vector<uint32_t>(begin, begin + arguments[i].words.size());
  }
  return absl::NotFoundError(fmt::format("{} has no buffer {}", kernel_case.Id(), name));
}

}  // namespace qgpu
