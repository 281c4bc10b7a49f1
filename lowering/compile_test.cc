#include "lowering/compile.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "machine/interpreter/interpreter.h"

namespace qgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAddOne =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry add_one(.param .u64 out, .param .u64 a, .param .u32 n)\n{\n"
    "  .reg .pred %p<2>;\n  .reg .b32 %r<4>;\n  .reg .b64 %rd<6>;\n"
    "  ld.param.u64 %rd1, [out];\n  ld.param.u64 %rd2, [a];\n  ld.param.u32 %r1, [n];\n"
    "  mov.u32 %r2, %tid.x;\n  setp.ge.s32 %p1, %r2, %r1;\n  @%p1 ret;\n"
    "  mul.wide.s32 %rd3, %r2, 4;\n  add.s64 %rd4, %rd2, %rd3;\n  ld.global.u32 %r3, [%rd4];\n"
    "  add.s32 %r3, %r3, 1;\n  add.s64 %rd5, %rd1, %rd3;\n  st.global.u32 [%rd5], %r3;\n  ret;\n}\n";

KernelArgument Buffer(const std::string& name, std::vector<uint32_t> words) {
  KernelArgument argument;
  argument.name = name;
  argument.kind = KernelArgument::Kind::kBuffer;
  argument.words = std::move(words);
  return argument;
}

KernelArgument Scalar(const std::string& name, uint64_t value) {
  KernelArgument argument;
  argument.name = name;
  argument.scalar = value;
  return argument;
}

LaunchSpec AddOne(const char* text = kAddOne) {
  LaunchSpec spec;
  spec.source = {"t.ptx", text, SourceLanguage::kPtx};
  spec.block.x = 4;
  spec.arguments = {Buffer("out", {0, 0, 0}), Buffer("a", {5, 6, 7}), Scalar("n", 3)};
  return spec;
}

void ExpectRefused(const LaunchSpec& spec, absl::StatusCode code, const std::string& text) {
  const absl::StatusOr<LoweredKernel> lowered = CompileKernel(spec);
  EXPECT_EQ(lowered.status().code(), code) << lowered.status();
  EXPECT_THAT(std::string(lowered.status().message()), HasSubstr(text));
}

TEST(Compile, LaysOutTheArenaAndTheParameters) {
  const absl::StatusOr<LoweredKernel> lowered = CompileKernel(AddOne());
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->kernel, "add_one");
  EXPECT_THAT(lowered->parameter_names, ElementsAre("out", "a", "n"));
  EXPECT_THAT(lowered->byte_address, ElementsAre(4, 16, 0));
  EXPECT_EQ(lowered->arena_words, 7u);
  EXPECT_THAT(lowered->launch.memory, ElementsAre(0, 0, 0, 0, 5, 6, 7));
  EXPECT_THAT(lowered->launch.parameters, ElementsAre(4, 16, 3));
  const MachineRun run = Interpret(lowered->launch, 1000);
  EXPECT_EQ(run.end, LaunchEnd::kDone);
  EXPECT_THAT(std::vector<uint32_t>(run.state.memory.begin() + 1, run.state.memory.begin() + 4), ElementsAre(6, 7, 8));
}

TEST(Compile, VariablesLieBehindTheArenaWhichIsAlignedForWideAccesses) {
  std::string text = kAddOne;
  text.replace(text.find("add.s32 %r3, %r3, 1;"), 20, "ld.const.u32 %r3, [c]; st.shared.u32 [s], %r3;");
  text.insert(text.find(".visible"), ".const .u32 c = 9;\n.extern .shared .align 4 .b8 s[];\n");
  LaunchSpec spec = AddOne(text.c_str());
  spec.dynamic_shared_bytes = 8;
  absl::StatusOr<LoweredKernel> lowered = CompileKernel(spec);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->arena_words, 7u);
  ASSERT_EQ(lowered->launch.memory.size(), 124u);  // shared memory, which is last, begins with zeros
  EXPECT_EQ(lowered->launch.memory[123], 9u);
  text.replace(text.find("ld.const.u32 %r3, [c];"), 22, "ld.v2.u32 {%r2, %r3}, [%rd2];");
  spec = AddOne(text.c_str());
  spec.dynamic_shared_bytes = 8;
  spec.arguments[1] = Buffer("a", {5, 6, 7, 8});
  lowered = CompileKernel(spec);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_THAT(lowered->byte_address, ElementsAre(4, 16, 0));
  spec.arguments[0] = Buffer("out", {1});
  lowered = CompileKernel(spec);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_THAT(lowered->byte_address, ElementsAre(4, 8, 0));
  spec.dynamic_shared_bytes = 500;
  ExpectRefused(spec, absl::StatusCode::kInvalidArgument, "needs 131 words: arena 6, shared 125; the memory holds 126");
}

TEST(Compile, ArgumentsByPositionAndByName) {
  LaunchSpec spec = AddOne();
  std::swap(spec.arguments[0], spec.arguments[2]);  // by name: the order does not matter
  EXPECT_TRUE(CompileKernel(spec).ok());
  spec = AddOne();
  for (KernelArgument& argument : spec.arguments) argument.name.clear();
  EXPECT_TRUE(CompileKernel(spec).ok());
  spec.arguments.pop_back();
  ExpectRefused(spec, absl::StatusCode::kInvalidArgument, "no argument for parameter 2 \"n\"");
  spec = AddOne();
  spec.arguments[2] = Buffer("n", {1});
  ExpectRefused(spec, absl::StatusCode::kInvalidArgument, "takes a number of 4 bytes there, not a buffer");
}

TEST(Compile, RefusesWhatDoesNotFit) {
  LaunchSpec spec = AddOne();
  spec.block = {11, 3, 1};
  ExpectRefused(spec, absl::StatusCode::kInvalidArgument, "11 x 3 x 1 = 33 threads; the machine holds 1 to 32");
  spec = AddOne();
  spec.grid = {257, 1, 1};
  ExpectRefused(spec, absl::StatusCode::kInvalidArgument, "a grid of 257 x 1 x 1");
  spec = AddOne();
  spec.arguments[1].words.resize(140 - 4);
  ExpectRefused(spec, absl::StatusCode::kInvalidArgument, "needs 140 words, the memory holds 126");
  spec = AddOne();
  spec.kernel = "other";
  ExpectRefused(spec, absl::StatusCode::kInvalidArgument, "has no kernel other; its kernels are: add_one");
}

TEST(Compile, NamesTheInstructionItCannotLower) {
  std::string text = kAddOne;
  text.replace(text.find("add.s32 %r3, %r3, 1;"), 20, "cvt.rn.f32.s32 %r3, %r3;");
  ExpectRefused(AddOne(text.c_str()), absl::StatusCode::kUnimplemented, "t.ptx:18: cvt.rn.f32.s32 %r3, %r3;");
}

TEST(Compile, DisassemblyShowsBlockSlotInstructionAndPtxLine) {
  const absl::StatusOr<LoweredKernel> lowered = CompileKernel(AddOne());
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  const std::string text = Disassemble(lowered->launch.program);
  EXPECT_THAT(text, HasSubstr("block 0\n"));
  EXPECT_THAT(text, HasSubstr("; ptx 17: ld.global.u32 %r3, [%rd4];\n"));
  EXPECT_THAT(text, HasSubstr("-> if s1: exit, else go to 1"));
}

}  // namespace
}  // namespace qgpu
