// Small kernels whose threads have something to do with each other, on the machine and on native-cpu.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "common/prng.h"
#include "fmt/format.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {

struct WarpKernel {
  std::string body;
  std::string before;  // declarations of the module
  Dim3 block = {8, 1, 1};
  uint32_t grid = 1;
  uint32_t n = 3;
  int64_t token_budget = 200000;
};

// in and out: %in, %out, also as 64-bit registers of the thread's own word (%i, %o); %t is the thread's number in the
// thread block, %v its word of `in`, %n a number. `out` has one word for each thread of the launch.
inline std::string PtxOf(const WarpKernel& kernel) {
  return ".version 6.4\n.target sm_75\n.address_size 64\n" + kernel.before +
         "\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {\n"
         ".reg .pred %p<16>; .reg .b32 %r<40>, %t, %n, %v, %g; .reg .b64 %d<20>, %in, %out, %i, %o;\n"
         "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [n]; mov.u32 %t, %laneid;\n" +
         fmt::format("mov.u32 %g, %ctaid.x; mad.lo.u32 %g, %g, {}, %t;\n", kernel.block.Count()) +
         "mul.wide.u32 %i, %g, 4; add.u64 %o, %out, %i; add.u64 %i, %in, %i; ld.global.u32 %v, [%i];\n" + kernel.body +
         "\nret;\n}\n";
}

inline LaunchSpec LaunchOf(const WarpKernel& kernel, uint64_t seed) {
  LaunchSpec spec;
  spec.source = {"warp.ptx", PtxOf(kernel), SourceLanguage::kPtx};
  spec.block = kernel.block;
  spec.grid.x = kernel.grid;
  spec.token_budget = kernel.token_budget;
  spec.arguments.resize(3);
  SplitMix64 random(seed);
  const uint64_t words = kernel.block.Count() * kernel.grid;
  for (int i = 0; i < 2; ++i) {
    spec.arguments[i].kind = KernelArgument::Kind::kBuffer;
    for (uint64_t word = 0; word < words; ++word) {
      const uint64_t bits = random.Next();
      spec.arguments[i].words.push_back(static_cast<uint32_t>(bits >> 62 == 0 ? bits : bits & 3));
    }
  }
  spec.arguments[2].scalar = kernel.n;
  return spec;
}

inline void ExpectAgreement(const WarpKernel& kernel, uint64_t seed = 1) {
  const Comparison comparison = CompareEngines(LaunchOf(kernel, seed));
  EXPECT_EQ(comparison.difference, "") << kernel.body << " with " << kernel.block.Count() << " threads";
  EXPECT_FALSE(comparison.machine_trapped) << kernel.body;
}

inline void ExpectRefusal(const WarpKernel& kernel, const std::string& why) {
  const Comparison comparison = CompareEngines(LaunchOf(kernel, 1));
  EXPECT_TRUE(comparison.refused) << kernel.body << comparison.difference;
  EXPECT_NE(comparison.difference.find(why), std::string::npos) << comparison.difference;
}

inline constexpr const char* kStore = "st.global.u32 [%o], %r9;";

}  // namespace qgpu
