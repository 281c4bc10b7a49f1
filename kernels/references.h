// The references behind expected.h: for every kernel, its parameters and a plain C++ function that does to the
// arguments what the kernel must do. Where there is a choice, the way is another one than the kernel's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/launch_spec.h"

namespace qgpu {

using Words = std::vector<uint32_t>;

inline int32_t Signed(uint32_t word) { return static_cast<int32_t>(word); }
inline uint32_t Unsigned(int64_t value) { return static_cast<uint32_t>(value); }
inline uint32_t Absolute(uint32_t word) { return Signed(word) < 0 ? 0 - word : word; }

// A case's arguments by name, and its launch shape; outputs are written in place.
class Arguments {
 public:
  Arguments(std::vector<KernelArgument>& arguments, const Dim3& grid, const Dim3& block) : grid(grid), block(block) {
    for (KernelArgument& argument : arguments) by_name_[argument.name] = &argument;
  }
  Words& Buffer(const std::string& name) { return by_name_.at(name)->words; }
  int32_t Scalar(const std::string& name) const { return Signed(Unsigned(by_name_.at(name)->scalar)); }
  // Scalar, but 0 where that is negative: the number of turns of a loop up to it.
  size_t Count(const std::string& name) const { return static_cast<size_t>(std::max(Scalar(name), 0)); }

  // Indices below Count(name) that the grid has a thread for.
  size_t Threads(const std::string& name) const {
    return std::min<size_t>(static_cast<size_t>(grid.Count() * block.Count()), Count(name));
  }

  // Byte `i` of a buffer, as char and as unsigned char.
  uint8_t Byte(const std::string& name, size_t i) { return static_cast<uint8_t>(Buffer(name)[i / 4] >> (8 * (i % 4))); }
  void SetByte(const std::string& name, size_t i, uint8_t value) {
    uint32_t& word = Buffer(name)[i / 4];
    word = (word & ~(0xffu << (8 * (i % 4)))) | static_cast<uint32_t>(value) << (8 * (i % 4));
  }

  const Dim3 grid, block;

 private:
  std::map<std::string, KernelArgument*> by_name_;
};

struct Reference {
  std::vector<const char*> parameters;  // in the kernel's order
  std::function<void(Arguments& arguments)> compute;
};
using ReferenceTable = std::map<std::string, Reference>;

// A kernel whose thread i writes element i of `output`, for i below the scalar `count`; `element` sees the inputs, and
// element i of the output as it was.
inline Reference PerElement(std::vector<const char*> parameters, const char* output, const char* count,
                            std::function<uint32_t(Arguments& arguments, size_t i)> element) {
  return {std::move(parameters), [=](Arguments& m) {
            for (size_t i = 0; i < m.Threads(count); ++i) m.Buffer(output)[i] = element(m, i);
          }};
}

ReferenceTable ElementwiseReferences();  // arithmetic and bits, an element a thread
ReferenceTable NumberReferences();       // loops of a length of their own: gcd, primes, powers, fractals
ReferenceTable CollectiveReferences();   // threads together: reductions, votes, scans, sorting
ReferenceTable ArrayReferences();        // matrices, stencils, indexed and atomic memory
ReferenceTable TextReferences();         // searching, strings, dynamic programming

}  // namespace qgpu
