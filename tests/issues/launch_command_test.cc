// `qgpu run`, `trace` and `disasm` with launch descriptions, raw bytes, PTX of several kernels, and kernels that trap,
// from outside.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/exit_code.h"
#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/issues/program.h"

namespace qgpu {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::vector<std::string> kEngines = {"model", "interpreter", "native-cpu"};

class LaunchCommand : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fmt::format("{}/launch_command.{}", testing::TempDir(), getpid());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void File(const std::string& name, const std::string& text) { std::ofstream(directory_ + "/" + name) << text; }
  std::string Qgpu(const std::vector<std::string>& arguments) {
    const ProgramRun run = RunProgram("qgpu", arguments, directory_);
    EXPECT_EQ(run.exit_code, kExitGood) << run.err;
    return run.out;
  }
  ProgramRun Trapping(const std::string& command, const std::string& engine, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {command, "trap.cu", "--engine", engine};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramRun run = RunProgram("qgpu", arguments, directory_);
    EXPECT_EQ(run.exit_code, kExitWrong) << run.out << run.err;
    return run;
  }

  std::string directory_;
};

constexpr char kBlend[] =
    "struct Options { int scale; int offsets[2]; short low; };\n"
    "__global__ void other(int* a) { a[0] = 7; }\n"
    "__global__ void blend(int* a, const int* b, Options o) {\n"
    "  int i = threadIdx.x;\n"
    "  a[i] = b[i] * o.scale + o.offsets[1] + o.low;\n"
    "}\n";

TEST_F(LaunchCommand, RawBytesInAndOut) {
  File("blend.cu", kBlend);
  File("b.bin", std::string("\1\0\0\0\2\0\0\0\3\0\0\0\4\0", 14));
  // scale 10, offsets 0 and 100, low -1, two bytes of padding
  File("launch.json", R"({"kernel": "blend", "block": [4], "arguments": [
      {"name": "o", "by_value": true, "bytes": "0a000000 00000000 64000000 ffff0000"},
      {"name": "b", "file": "b.bin"}, {"name": "a", "zero_bytes": 15, "output": true}]})");
  for (const std::string& engine : kEngines) {
    SCOPED_TRACE(engine);
    const std::vector<std::string> run = {"run", "blend.cu", "--launch", "launch.json", "--engine", engine};
    EXPECT_THAT(Qgpu(run), StartsWith("a = bytes 6d000000770000008100000"
                                      "08b0000\n"));
    std::vector<std::string> as_json = run;
    as_json.insert(as_json.end(), {"--json", "--output-bytes", "a.bin"});
    EXPECT_EQ(json::parse(Qgpu(as_json))["outputs"], json({{"a", "6d00000077000000810000008b0000"}}));
    EXPECT_EQ(ReadFile(directory_ + "/a.bin").value(), std::string("\x6d\0\0\0\x77\0\0\0\x81\0\0\0\x8b\0\0", 15));
  }
  std::filesystem::create_directory(directory_ + "/out");
  Qgpu({"run", "blend.cu", "--launch", "launch.json", "--block", "1", "--output-bytes", "out"});
  EXPECT_EQ(ReadFile(directory_ + "/out/a.bin").value(), std::string("\x6d", 1) + std::string(14, '\0'));
  EXPECT_THAT(Qgpu({"trace", "blend.cu", "--launch", "launch.json", "--engine", "interpreter"}), HasSubstr("DONE"));
  EXPECT_THAT(Qgpu({"disasm", "blend.cu", "--launch", "launch.json"}), HasSubstr("block 0\n"));
}

// A number could be any member of a struct: on the command line, in a description and for every engine.
TEST_F(LaunchCommand, AStructIsNoNumber) {
  File("k.cu",
       "struct One { int n; };\nstruct Two { short a, b; };\n"
       "__global__ void k(int* out, One one, Two two) { out[0] = one.n; out[1] = two.a; out[2] = two.b; }\n");
  File("numbers.json",
       R"({"arguments": [{"words": [0, 0, 0]}, {"value": 5}, {"by_value": true, "bytes": "00000000"}]})");
  for (const std::string& engine : kEngines) {
    SCOPED_TRACE(engine);
    EXPECT_THAT(Qgpu({"run", "k.cu", "--block", "1", "--engine", engine, "--arg", "out=zeros:3", "--arg",
                      "one=bytes:05000000", "--arg", "two=bytes:ffff 0700"}),
                StartsWith("out = 5 -1 7\n"));
    const ProgramRun typed = RunProgram(
        "qgpu", {"run", "k.cu", "--engine", engine, "--arg", "zeros:3", "--arg", "5", "--arg", "1"}, directory_);
    EXPECT_EQ(typed.exit_code, kExitUsage);
    EXPECT_THAT(typed.err, HasSubstr("\"one\" is a struct of 4 bytes"));
    const ProgramRun described =
        RunProgram("qgpu", {"run", "k.cu", "--engine", engine, "--launch", "numbers.json"}, directory_);
    EXPECT_EQ(described.exit_code, kExitUsage);
    EXPECT_THAT(described.err, HasSubstr("argument one: the kernel's parameter is a struct of 4 bytes, not a number"));
  }
  EXPECT_THAT(Qgpu({"disasm", "k.cu"}), HasSubstr("; assumed --arg two=bytes:00000000\n"));
}

TEST_F(LaunchCommand, WhatIsWrongInADescriptionIsSaid) {
  File("blend.cu", kBlend);
  const auto refusal = [&](const std::string& text, const std::vector<std::string>& more = {}) {
    File("launch.json", text);
    std::vector<std::string> arguments = {"run", "blend.cu", "--launch", "launch.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramRun run = RunProgram("qgpu", arguments, directory_);
    EXPECT_EQ(run.exit_code, kExitUsage) << run.out;
    return run.err;
  };
  EXPECT_THAT(refusal("{"), HasSubstr("launch.json: launch description: not a JSON object"));
  EXPECT_THAT(refusal("{}"), AllOf(HasSubstr("other"), HasSubstr("blend")));
  EXPECT_THAT(refusal(R"({"kernel": "blend"})"), HasSubstr("no argument for parameter 0 \"a\""));
  const std::string some = R"({"kernel": "blend", "arguments": [{"zero_bytes": 4}, {"words": [1]}, )";
  EXPECT_THAT(refusal(some + R"({"by_value": true, "bytes": "00"}]})"),
              HasSubstr("argument o: 1 bytes are given, the kernel's parameter has 16"));
  EXPECT_THAT(refusal(some + R"({"value": 1}]})"),
              HasSubstr("argument o: the kernel's parameter is a struct of 16 bytes, not a number"));
  EXPECT_THAT(refusal(some + R"({"words": [1]}]})"), HasSubstr("argument o: the kernel takes a number of 16 bytes"));
  EXPECT_THAT(refusal(some + R"({"file": "none.bin"}]})"), HasSubstr("none.bin"));
  EXPECT_THAT(refusal("{}", {"--arg", "a=1"}), HasSubstr("--arg"));
}

// As nvcc and clang write it: their versions and targets, directives, .loc and comments.
constexpr char kTwoKernels[] =
    "//\n// Generated by NVIDIA NVVM Compiler\n//\n.version 8.4\n.target sm_90a\n.address_size 64\n\n"
    ".visible .entry _Z3addPii(\n\t.param .u64 _Z3addPii_param_0,\n\t.param .u32 _Z3addPii_param_1\n)\n"
    ".maxntid 32, 1, 1\n{\n\t.reg .b32 \t%r<5>;\n\t.reg .b64 \t%rd<5>;\n\n\n"
    "\tld.param.u64 \t%rd1, [_Z3addPii_param_0];\n\tld.param.u32 \t%r1, [_Z3addPii_param_1];\n"
    "\tcvta.to.global.u64 \t%rd2, %rd1;\n\tmov.u32 \t%r2, %tid.x;\n\tmul.wide.u32 \t%rd3, %r2, 4;\n"
    "\tadd.s64 \t%rd4, %rd2, %rd3;\n\tadd.s32 \t%r3, %r2, %r1;\n\tst.global.u32 \t[%rd4], %r3;\n\tret;\n\n}\n"
    "\t// .globl\tzero\n.visible .entry zero(.param .u64 .ptr .global .align 4 p)\n{\n\t.reg .b64 %rd<2>;\n"
    "\tld.param.b64 %rd1, [p];\n\tst.global.b32 [%rd1], 0;\n\tret;\n}\n";

TEST_F(LaunchCommand, KernelsOfAPtxFileAreChosenByName) {
  File("two.ptx", kTwoKernels);
  File("launch.json", R"({"kernel": "_Z3addPii", "block": [3],
                          "arguments": [{"words": [9, 9, 9], "output": true}, {"by_value": true, "bytes": "05000000"}]})");
  for (const std::string& engine : kEngines) {
    SCOPED_TRACE(engine);
    EXPECT_THAT(Qgpu({"run", "two.ptx", "--launch", "launch.json", "--engine", engine}),
                StartsWith("_Z3addPii_param_0 = 5 6 7\n"));
    EXPECT_THAT(Qgpu({"run", "two.ptx", "--kernel", "zero", "--arg", "p=inout:5,6", "--engine", engine}),
                StartsWith("p = 0 6\n"));
  }
  const ProgramRun which = RunProgram("qgpu", {"run", "two.ptx", "--arg", "p=1"}, directory_);
  EXPECT_EQ(which.exit_code, kExitUsage);
  EXPECT_THAT(which.err, AllOf(HasSubstr("_Z3addPii"), HasSubstr("zero"), HasSubstr("--kernel")));
}

// What nvcc -lineinfo writes for a kernel with a function inlined from its own file and one from a header.
constexpr char kLineInfo[] =
    ".version 8.4\n.target sm_75\n.address_size 64\n\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n"
    "\t.reg .b32 \t%r<4>;\n\t.reg .b64 \t%rd<3>;\n\t.loc\t1 5 0\n\tld.param.u64 \t%rd1, [k_param_0];\n"
    "\t.loc\t1 8 5\n\tcvta.to.global.u64 \t%rd2, %rd1;\n\tld.global.u32 \t%r1, [%rd2];\n\t.loc\t1 8 5\n"
    "\t.loc\t1 2 3, function_name $L__info_string0, inlined_at 1 8 5\n\tmul.lo.s32 \t%r2, %r1, 7;\n"
    "\t.loc\t2 3 3, function_name $L__info_string1, inlined_at 1 8 5\n\tadd.s32 \t%r3, %r2, 9;\n"
    "\t.loc\t1 9 5\n\tst.global.u32 \t[%rd2], %r3;\n\t.loc\t1 10 1\n\tret;\n\n}\n"
    "\t.file\t1 \"/home/me/t.cu\"\n\t.file\t2 \"/home/me/t.h\"\n\t.section\t.debug_str\n\t{\n$L__info_string0:\n"
    ".b8 95,90,53,116,119,105,99,101,105,0\n$L__info_string1:\n.b8 95,90,54,116,104,114,105,99,101,105,0\n\n\t}\n";

TEST_F(LaunchCommand, PtxWithLineInformationShowsCudaLines) {
  File("t.ptx", kLineInfo);
  const std::string trace = Qgpu({"trace", "t.ptx", "--arg", "inout:1", "--block", "1", "--engine", "interpreter"});
  EXPECT_THAT(trace, AllOf(HasSubstr("t.ptx:15, t.cu:8 "), HasSubstr("t.ptx:22, t.cu:9 "), Not(HasSubstr("t.h"))));
  const std::string blocks = Qgpu({"disasm", "t.ptx"});
  EXPECT_THAT(blocks, AllOf(HasSubstr("; ptx 18, line 2: mul.lo.s32"), HasSubstr("; ptx 20, line 8: add.s32")));
  const ProgramRun trap = RunProgram("qgpu", {"run", "t.ptx", "--arg", "1000", "--block", "1"}, directory_);
  EXPECT_THAT(trap.err, HasSubstr("t.ptx:15, t.cu:8 (ld.global.u32"));
}

TEST_F(LaunchCommand, DisassemblyAssumesMissingArguments) {
  File("k.cu", "__global__ void k(int* a, const int* b, int n) {\n  if (threadIdx.x < n) a[threadIdx.x] += b[0];\n}\n");
  EXPECT_THAT(Qgpu({"disasm", "k.cu"}),
              StartsWith("; assumed --arg a=zeros:8\n; assumed --arg b=zeros:8\n; assumed --arg n=8\nblock 0\n"));
  const std::string some = Qgpu({"disasm", "k.cu", "--arg", "b=1", "--arg", "n=3", "--block", "4"});
  EXPECT_THAT(some, StartsWith("; assumed --arg a=zeros:8\nblock 0\n"));
  EXPECT_EQ(some.substr(some.find('\n') + 1),
            Qgpu({"disasm", "k.cu", "--arg", "a=zeros:8", "--arg", "b=1", "--arg", "n=3", "--block", "4"}));
  EXPECT_THAT(Qgpu({"disasm", "k.cu", "--ptx"}), HasSubstr(".entry"));
  // The PTX of what the machine cannot run is shown all the same.
  File("f.cu", "__global__ void f(float* x) { x[0] = x[0] * x[1]; }\n");
  EXPECT_THAT(Qgpu({"disasm", "f.cu", "--ptx"}), HasSubstr("mul.rn.f32"));
}

// 40 threads are more than the machine's 32, and 200 words more than its 126, but not more than CUDA's.
TEST_F(LaunchCommand, NativeCpuRunsWhatTheMachineDoesNotHold) {
  File("k.cu", "__global__ void k(int* a) { a[threadIdx.x] = threadIdx.x; }\n");
  const std::vector<std::string> launch = {"run", "k.cu", "--arg", "a=zeros:40", "--block", "40"};
  EXPECT_EQ(RunProgram("qgpu", launch, directory_).exit_code, kExitUsage);
  std::vector<std::string> native = launch;
  native.insert(native.end(), {"--engine", "native-cpu"});
  EXPECT_THAT(Qgpu(native), HasSubstr(" 37 38 39\n"));
}

// Threads 2, 1 of block 1, 2: the ninth thread of the thread block, in its third machine warp.
constexpr char kTrap[] =
    "__global__ void k(int* a, int i, int bytes) {\n"
    "  int where = 0;\n"
    "  if (threadIdx.x == 2 && threadIdx.y == 1 && blockIdx.x == 1 && blockIdx.y == 2) where = i;\n"
    "  *(int*)((char*)(a + where) + (where ? bytes : 0)) = 1;\n"
    "}\n";

TEST_F(LaunchCommand, TrapsNameThreadThreadBlockAddressAndLine) {
  File("trap.cu", kTrap);
  const std::string thread = "thread (2, 1, 0)", block = "block (1, 2, 0)";
  for (const std::string& engine : kEngines) {
    SCOPED_TRACE(engine);
    const bool is_native = engine == "native-cpu";
    const std::vector<std::string> shape = {"--arg", "a=zeros:4", "--block", "6,2", "--grid", "2,3"};
    const auto launch = [&](const char* i, const char* bytes) {
      std::vector<std::string> more = shape;
      more.insert(more.end(), {"--arg", std::string("i=") + i, "--arg", std::string("bytes=") + bytes});
      return more;
    };
    const std::string line = is_native ? "CUDA line 4" : "trap.cu:4 (st.global.";
    const ProgramRun far = Trapping("run", engine, launch("1000", "0"));
    EXPECT_THAT(far.err,
                AllOf(HasSubstr("address out of range"), HasSubstr(thread), HasSubstr(block), HasSubstr(line)));
    EXPECT_THAT(far.err, HasSubstr(is_native ? "0xfa4" : "byte address 4004 (0xfa4)"));
    const ProgramRun crooked = Trapping("run", engine, launch("2", "2"));
    EXPECT_THAT(crooked.err, AllOf(HasSubstr("misaligned"), HasSubstr(thread), HasSubstr(block), HasSubstr(line)));
    EXPECT_THAT(crooked.err, HasSubstr(is_native ? "0xe" : "byte address 14 (0xe)"));
    const bool is_checked = engine == "model";
    EXPECT_EQ(crooked.out.empty(), is_native) << "what it cost is known";
    if (is_native) continue;
    EXPECT_THAT(crooked.out, AllOf(StartsWith("tokens "), HasSubstr("\npasses ")));
    EXPECT_EQ(crooked.out.find(" positions, 0 mismatches\n") != std::string::npos, is_checked);
    const ProgramRun trace = Trapping("trace", engine, launch("1000", "0"));
    EXPECT_THAT(trace.out, HasSubstr("thread 8: address out of range"));
    EXPECT_THAT(trace.out, HasSubstr("TRAP("));
    EXPECT_THAT(trace.err, AllOf(HasSubstr(thread), HasSubstr(block), HasSubstr(line)));
  }
}

TEST_F(LaunchCommand, BarrierDivergenceNamesThreadsAndBarriers) {
  File("trap.cu",
       "__global__ void k(int* a, int n) {\n"
       "  if (threadIdx.x < n) {\n"
       "    a[threadIdx.x] = n;\n"
       "    __syncthreads();\n"
       "    a[threadIdx.x] += a[n];\n"
       "  } else {\n"
       "    __syncthreads();\n"
       "    a[threadIdx.x] = a[0] * a[1];\n"
       "  }\n"
       "}\n");
  for (const std::string& engine : kEngines) {
    SCOPED_TRACE(engine);
    const ProgramRun run =
        Trapping("run", engine, {"--arg", "a=zeros:12", "--arg", "n=9", "--block", "12", "--grid", "2"});
    EXPECT_THAT(run.err, AllOf(HasSubstr("barrier divergence"), HasSubstr("block (0, 0, 0)"), HasSubstr("bar")));
    if (engine == "native-cpu") continue;
    EXPECT_THAT(run.err, AllOf(HasSubstr("thread (0, 0, 0) of thread block (0, 0, 0) waits at trap.cu:4 "),
                               HasSubstr("thread (9, 0, 0) at trap.cu:7 ")));
  }
}

}  // namespace
}  // namespace qgpu
