// Small PTX kernels for the tests of this directory.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lowering/ptx/ptx.h"
#include "lowering/ptx_to_blocks/lower.h"
#include "machine/isa/machine_launch.h"

namespace qgpu::lower {

// A module with the kernel k(out, a, b: u64; n, m: u32) and registers %p0-9, %rs0-9, %r0-49, %rd0-29. %rd0, %rd1 and
// %rd2 are out, a and b; %r0 is n, %r1 is m.
inline ptx::Module ModuleOf(const std::string& body) {
  const std::string text =
      ".version 6.4\n.target sm_75\n.address_size 64\n"
      ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 n, .param .u32 m)\n{\n"
      "  .reg .pred %p<10>;\n  .reg .b16 %rs<10>;\n  .reg .b32 %r<50>;\n  .reg .b64 %rd<30>;\n"
      "  ld.param.u64 %rd0, [out];\n  ld.param.u64 %rd1, [a];\n  ld.param.u64 %rd2, [b];\n"
      "  ld.param.u32 %r0, [n];\n  ld.param.u32 %r1, [m];\n" +
      body + "\n}\n";
  absl::StatusOr<ptx::Module> module = ptx::ParsePtx("t.ptx", text);
  EXPECT_TRUE(module.ok()) << module.status() << text;
  return module.ok() ? *module : ptx::Module{};
}
inline constexpr int kFirstBodyLine = 15;  // of ModuleOf's text

struct LoweredTestKernel {
  absl::Status status;
  MachineLaunch launch;  // its memory has what the kernel's variables hold at the start
};

// The first kernel of `module`, for parameters of this content: those of 8 bytes are buffers, of 4 bytes numbers.
inline LoweredTestKernel LowerTestKernel(const ptx::Module& module, Dim3 block, std::vector<Bytes> parameters,
                                         uint32_t arena_words = 1) {
  LoweringInput input;
  input.module = &module;
  input.kernel = &module.functions.at(0);
  input.block = block;
  for (const Bytes& content : parameters) input.is_buffer.push_back(content.size() == 8);
  input.parameters = std::move(parameters);
  input.arena_words = arena_words;
  input.token_budget = 20000;
  LoweredTestKernel out;
  absl::StatusOr<LoweredBlocks> lowered = LowerToBlocks(input);
  out.status = lowered.status();
  if (!lowered.ok()) return out;
  out.launch.parameters = ParameterValues(input, lowered->words);
  out.launch.program = std::move(lowered->program);
  out.launch.block = {block.x, block.y, block.z};
  out.launch.memory.resize(arena_words);
  lowered->layout.WriteInitialContent(&out.launch.memory);
  return out;
}

}  // namespace qgpu::lower
