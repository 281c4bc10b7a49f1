// `qgpu run` and its neighbours on kernels of one's own, from outside.
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
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kDot[] =
    "__global__ void dot(const int* a, const int* b, int* out, int n) {\n"
    "  int sum = 0;\n"
    "  for (int i = 0; i < n; ++i) sum += a[i] * b[i];\n"
    "  *out = sum;\n"
    "}\n";

class RunCommand : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fmt::format("{}/run_command.{}", testing::TempDir(), getpid());
    std::filesystem::create_directories(directory_);
    std::ofstream(directory_ + "/dot.cu") << kDot;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Qgpu(const std::vector<std::string>& arguments) {
    const ProgramRun run = RunProgram("qgpu", arguments, directory_);
    EXPECT_EQ(run.exit_code, kExitGood) << run.err;
    return run.out;
  }
  // The demo's launch with more options behind it.
  std::vector<std::string> Demo(const std::string& command, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {command, "dot.cu",      "--arg", "a=1,2,3", "--arg",   "b=4,5,6",
                                          "--arg", "out=zeros:1", "--arg", "n=3",     "--block", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  std::string directory_;
};

TEST_F(RunCommand, TheDemoIsRightInEveryDataTypeAndEngine) {
  for (const char* type : {"float32", "bfloat16"}) {
    const json result = json::parse(Qgpu(Demo("run", {"--json", "--dtype", type})));
    EXPECT_EQ(result["outputs"], json({{"out", {32}}}));
    EXPECT_EQ(result["end"], "done");
    EXPECT_EQ(result["mismatches"], 0);
    EXPECT_EQ(result["positions_checked"], result["tokens"]);
    EXPECT_LE(result["tokens"], 40);
    EXPECT_EQ(result["circuit"].get<std::string>().size(), 16u);
  }
  const json interpreter = json::parse(Qgpu(Demo("run", {"--json", "--engine", "interpreter"})));
  EXPECT_EQ(interpreter["outputs"], json({{"out", {32}}}));
  EXPECT_FALSE(interpreter.contains("circuit"));
  EXPECT_THAT(Qgpu(Demo("run", {"--engine", "native-cpu"})), StartsWith("out = 32\n"));
}

TEST_F(RunCommand, PtxTakesArgumentsByPosition) {
  std::ofstream(directory_ + "/dot.ptx") << Qgpu(Demo("disasm", {"--ptx"}));
  const json result = json::parse(Qgpu({"run", "dot.ptx", "--json", "--arg", "1,2,-3", "--arg", "4,5,6", "--arg",
                                        "zeros:1", "--arg", "3", "--block", "1"}));
  EXPECT_EQ(result["outputs"].begin().value(), json({-4}));
}

TEST_F(RunCommand, GridAndBlockOfANamedKernel) {
  std::ofstream(directory_ + "/two.cu") << "__global__ void other(int* a) { a[0] = 7; }\n"
                                           "__global__ void number(int* a) { a[blockIdx.x * blockDim.x + threadIdx.x] "
                                           "= blockIdx.x * 10 + threadIdx.x; }\n";
  EXPECT_THAT(Qgpu({"run", "two.cu", "--kernel", "number", "--arg", "a=zeros:6", "--grid", "2", "--block", "3"}),
              StartsWith("a = 0 1 2 10 11 12\n"));
  // The default block: one thread for each word of the longest buffer.
  EXPECT_THAT(Qgpu({"run", "two.cu", "--kernel", "number", "--arg", "a=zeros:6"}), StartsWith("a = 0 1 2 3 4 5\n"));
}

TEST_F(RunCommand, TraceAndDisassemblyNameTheSource) {
  const std::string trace = Qgpu(Demo("trace"));
  EXPECT_THAT(trace, StartsWith("    0  EXEC(block 0"));
  EXPECT_THAT(trace, HasSubstr("dot.cu:3"));
  EXPECT_THAT(trace, HasSubstr("word 7 = 32"));
  EXPECT_THAT(trace, HasSubstr("DONE"));
  const std::string disassembly = Qgpu(Demo("disasm"));
  EXPECT_THAT(disassembly, HasSubstr("block 0\n"));
  EXPECT_THAT(disassembly, HasSubstr("mad.lo.s32"));
}

TEST_F(RunCommand, BuildWritesTheDefaultCircuitBitForBit) {
  const json report = json::parse(Qgpu({"build", "--json", "--out", "again.bin"}));
  EXPECT_TRUE(ReadFile(directory_ + "/again.bin").value() == ReadFile(BuiltCircuit()).value());
  EXPECT_LE(report["layers"].size(), 45u);
  EXPECT_LE(report["added_dimensions"], 1280);
  EXPECT_LE(report["machine_ids"], 16384);
  for (const json& layer : report["layers"]) {
    EXPECT_LE(layer["neurons"], 6144);
    EXPECT_LE(layer["heads"], 16);
  }
}

TEST_F(RunCommand, EveryProgramTellsItsVersionAndCircuit) {
  const std::string hash = json::parse(Qgpu({"build", "--json"}))["circuit"];
  for (const char* program : {"qgpu", "qgpu-worker", "qgpu-oracle", "qgpu-coordinator"}) {
    const ProgramRun run = RunProgram(program, {"--version"}, directory_);
    EXPECT_EQ(run.exit_code, kExitGood);
    EXPECT_THAT(run.out, StartsWith(std::string(program) + " "));
    const bool has_circuit = std::string(program) != "qgpu-oracle";
    EXPECT_EQ(run.out.find("circuit " + hash) != std::string::npos, has_circuit);
  }
}

TEST_F(RunCommand, DoctorFindsWhatTheTestsRunOn) {
  const json report = json::parse(Qgpu({"doctor", "--json"}));
  EXPECT_EQ(report["can_run"], true);
}

}  // namespace
}  // namespace qgpu
