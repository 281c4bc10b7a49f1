// Bad input, from outside: each ends in a message that names the place and the remedy, and in the right exit code.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sqlite3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/exit_code.h"
#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/base/random_base.h"
#include "tests/issues/program.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fmt::format("{}/bad_input.{}", testing::TempDir(), getpid());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name, std::ios::binary) << text;
    return name;
  }
  // `qgpu run` of a kernel, with a result that must be an error.
  ProgramRun RunKernel(const std::string& text, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", Write("bad.cu", text)});
    const ProgramRun run = RunProgram("qgpu", arguments, directory_);
    EXPECT_THAT(run.err, HasSubstr("qgpu: "));
    EXPECT_THAT(run.err, Not(AnyOf(HasSubstr("Stack dump"), HasSubstr("Check failed"), HasSubstr("terminate called"))));
    return run;
  }

  std::string directory_;
};

TEST_F(BadInput, KernelDoesNotCompile) {
  const ProgramRun run =
      RunKernel("__global__ void k(int* out) {\n  out[0] = undeclared;\n}\n", {"--arg", "out=zeros:1"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.out, IsEmpty());
  EXPECT_THAT(run.err, AllOf(HasSubstr("bad.cu:2"), HasSubstr("undeclared")));
}

TEST_F(BadInput, BackendAborts) {
  const ProgramRun run = RunKernel(
      "__global__ void k(int* out) {\n  void* t[] = {&&a, &&b};\n  goto *t[out[0] & 1];\n"
      "a: out[1] = 1; return;\nb: out[1] = 2;\n}\n",
      {"--arg", "out=zeros:2"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("bad.cu"), HasSubstr("backend gave up"), HasSubstr("differently")));
}

TEST_F(BadInput, BackendExplodes) {
  const ProgramRun run =
      RunKernel("__device__ int table[300000000] = {1};\n__global__ void k(int* out) { out[0] = table[out[1]]; }\n",
                {"--arg", "out=zeros:2"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("bad.cu"), HasSubstr("address space")));
}

TEST_F(BadInput, UnsupportedInstruction) {
  const ProgramRun run = RunKernel("__global__ void k(float* out, float x) {\n  out[0] = x * x;\n}\n",
                                   {"--arg", "out=zeros:1", "--arg", "x=1"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("bad.cu"), HasSubstr(".f32"), HasSubstr("CUDA line"), HasSubstr("not supported")));
}

TEST_F(BadInput, TooManyMachineBlocks) {
  std::string body;
  for (int i = 0; i < 200; ++i) body += fmt::format("  x = (x ^ {}) * (x >> {});\n", i * 77 + 1, i % 7 + 1);
  const ProgramRun run =
      RunKernel("__global__ void k(unsigned* out) {\n  unsigned x = out[0];\n" + body + "  out[0] = x;\n}\n",
                {"--arg", "out=zeros:1"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("machine blocks"), HasSubstr("the ROM holds 32")));
}

TEST_F(BadInput, TooManyRegisters) {
  std::string loads, stores;
  for (int i = 0; i < 24; ++i) loads += fmt::format("  int v{} = a[{}];\n", i, i);
  for (int i = 0; i < 24; ++i) stores += fmt::format("  a[{}] = v{} * n;\n", i, (i * 7 + 5) % 24);
  const ProgramRun run =
      RunKernel("__global__ void k(int* a, int n) {\n" + loads + "  while (n & 1) n = n * a[24];\n" + stores + "}\n",
                {"--arg", "a=zeros:25", "--arg", "n=2"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AnyOf(HasSubstr("registers"), HasSubstr("machine blocks")));
}

TEST_F(BadInput, TooManyWords) {
  const ProgramRun run =
      RunKernel("__global__ void k(int* out) { out[threadIdx.x] = 1; }\n", {"--arg", "out=zeros:200"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("words"), HasSubstr("126")));
}

TEST_F(BadInput, TooManyThreads) {
  const ProgramRun run =
      RunKernel("__global__ void k(int* out) { out[threadIdx.x] = 1; }\n", {"--arg", "out=zeros:4", "--block", "33"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("33"), HasSubstr("32"), HasSubstr("thread")));
}

TEST_F(BadInput, ReadsOutOfRange) {
  const ProgramRun run = RunKernel("__global__ void k(int* out, int i) {\n  out[0] = out[i];\n}\n",
                                   {"--arg", "out=zeros:1", "--arg", "i=1000"});
  EXPECT_EQ(run.exit_code, kExitWrong);
  EXPECT_THAT(run.err, AllOf(HasSubstr("out of range"), HasSubstr("bad.cu:2"), HasSubstr("thread (0, 0, 0)")));
}

TEST_F(BadInput, IsMisaligned) {
  const ProgramRun run = RunKernel("__global__ void k(int* out, int i) {\n  out[0] = *(int*)((char*)out + i);\n}\n",
                                   {"--arg", "out=zeros:2", "--arg", "i=2"});
  EXPECT_EQ(run.exit_code, kExitWrong);
  EXPECT_THAT(run.err, AllOf(HasSubstr("misaligned"), HasSubstr("bad.cu:2")));
}

TEST_F(BadInput, NeverEnds) {
  const ProgramRun run = RunKernel("__global__ void k(volatile int* out) {\n  while (out[0] == 0) out[1] = 1;\n}\n",
                                   {"--arg", "out=zeros:2", "--budget", "200"});
  EXPECT_EQ(run.exit_code, kExitWrong);
  EXPECT_THAT(run.err, AllOf(HasSubstr("200"), HasSubstr("budget")));
}

TEST_F(BadInput, CommandLine) {
  const std::string kernel = Write("ok.cu", "__global__ void k(int* out, int n) { out[0] = n; }\n");
  const auto expect_usage = [&](std::vector<std::string> arguments, const std::string& message) {
    arguments.insert(arguments.begin(), "run");
    const ProgramRun run = RunProgram("qgpu", arguments, directory_);
    EXPECT_EQ(run.exit_code, kExitUsage) << run.err;
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(run.err, HasSubstr(message));
  };
  expect_usage({"missing.cu"}, "missing.cu");
  expect_usage({"."}, ".cu or .ptx");
  expect_usage({kernel, "--arg", "out=zeros:1"}, "--arg n=");
  expect_usage({kernel, "--arg", "out=zeros:1", "--arg", "n=4294967296"}, "4294967296");
  expect_usage({kernel, "--arg", "out=zeros:1", "--arg", "m=1"}, "no parameter \"m\"");
  expect_usage({kernel, "--arg", "out=zeros:1", "--arg", "n=1", "--kernel", "other"}, "other");
  expect_usage({kernel, "--arg", "out=zeros:1", "--arg", "n=1", "--engine", "guess"}, "--engine");
  expect_usage({kernel, "--arg", "out=zeros:1", "--arg", "n=1", "--grid", "0"}, "--grid");
}

TEST_F(BadInput, UnknownWords) {
  const auto expect_usage = [&](const std::string& program, const std::vector<std::string>& arguments,
                                const std::string& message) {
    const ProgramRun run = RunProgram(program, arguments, directory_);
    EXPECT_EQ(run.exit_code, kExitUsage) << run.err;
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(run.err, HasSubstr(message));
  };
  expect_usage("qgpu", {"frob"}, "qgpu: unknown command \"frob\"; there are: run, trace, ");
  expect_usage("qgpu", {"trcae", "k.cu"}, "qgpu: unknown command \"trcae\"; did you mean \"trace\"?");
  expect_usage("qgpu", {"run", "k.cu", "--blok", "4"},
               "qgpu run: unknown option \"--blok\"; did you mean \"--block\"?");
  expect_usage("qgpu-coordinator", {"run-siute"}, "unknown command \"run-siute\"; did you mean \"run-suite\"?");
  expect_usage("qgpu-coordinator", {"run-suite", "--fliter", "dot"}, "did you mean \"--filter\"?");
  expect_usage("qgpu-coordinator", {"run-suite", "kernel"}, "did you mean \"kernels\"?");
  expect_usage("qgpu-coordinator", {"runs", "lst"}, "unknown command \"lst\"; did you mean \"list\"?");
  expect_usage("qgpu-oracle", {"recrod"}, "unknown command \"recrod\"; did you mean \"record\"?");
  expect_usage("qgpu-oracle", {"run", "k.cu", "--lanch", "l.json"}, "did you mean \"--launch\"?");
  expect_usage("qgpu-worker", {"--crcuit", "c.bin"},
               "qgpu-worker: unknown option \"--crcuit\"; did you mean \"--circuit\"?");
}

TEST_F(BadInput, CircuitOfAnotherVersion) {
  const auto bytes = ReadFile(BuiltCircuit());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::string other = *bytes;
  const size_t version = 8;  // after the magic
  ASSERT_EQ(other[version], 1);
  other[version] = 9;
  Write("other.bin", other);
  Write("ok.cu", "__global__ void k(int* out) { out[0] = 1; }\n");
  const ProgramRun run =
      RunProgram("qgpu", {"run", "ok.cu", "--arg", "out=zeros:1", "--circuit", "other.bin"}, directory_);
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("other.bin"), HasSubstr("version 9"), HasSubstr("version 1")));
}

TEST_F(BadInput, MissingCheckpointTensor) {
  ASSERT_TRUE(EmbeddedBase(directory_).ok());
  const std::string base = EmbeddedBase(directory_).value();
  // The header's names are data like any other: one letter makes another tensor of it.
  const std::string weights = base + "/model.safetensors";
  std::string bytes = ReadFile(weights).value();
  const size_t name = bytes.find("model.layers.1.mlp.up_proj.weight");
  ASSERT_NE(name, std::string::npos);
  bytes[name + std::string("model.layers.1.mlp.up_pro").size()] = 'x';
  ASSERT_TRUE(WriteFileAtomically(weights, bytes).ok());
  const ProgramRun run = RunProgram("qgpu", {"export", "--dense", "out", "--base", base}, directory_);
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr(base), HasSubstr("layers.1.mlp.up_proj.weight")));
  EXPECT_FALSE(fs::exists(directory_ + "/out"));
}

TEST_F(BadInput, OccupiedPort) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string listen_at = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  for (const char* program : {"qgpu-worker", "qgpu-oracle"}) {
    const ProgramRun run = RunProgram(program, {"--listen", listen_at}, directory_, {}, 30);
    EXPECT_EQ(run.exit_code, kExitUsage) << program << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr(listen_at), HasSubstr("occupied")));
  }
  close(fd);
}

TEST_F(BadInput, DatabaseOfANewerSchema) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((directory_ + "/newer.db").c_str(), &database), SQLITE_OK);
  const char* make = "PRAGMA user_version = 999;";
  ASSERT_EQ(sqlite3_exec(database, make, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  const std::string before = ReadFile(directory_ + "/newer.db").value();
  const ProgramRun run =
      RunProgram("qgpu-coordinator", {"run-suite", "--quick", "--filter", "dot", "--db", "newer.db"}, directory_);
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("newer.db"), HasSubstr("999"), HasSubstr("newer program")));
  EXPECT_EQ(ReadFile(directory_ + "/newer.db").value(), before);
}

TEST_F(BadInput, AFilterThatMatchesNothing) {
  const ProgramRun run = RunProgram("qgpu-coordinator", {"run-suite", "--filter", "no_such_kernel"}, directory_);
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, HasSubstr("no_such_kernel"));
}

TEST_F(BadInput, FlippedByteInACircuit) {
  const auto bytes = ReadFile(BuiltCircuit());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::string flipped = *bytes;
  flipped[flipped.size() / 2] ^= 0x10;
  Write("flipped.bin", flipped);
  Write("ok.cu", "__global__ void k(int* out) { out[0] = 1; }\n");
  const ProgramRun run =
      RunProgram("qgpu", {"run", "ok.cu", "--arg", "out=zeros:1", "--circuit", "flipped.bin"}, directory_);
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, AllOf(HasSubstr("flipped.bin"), HasSubstr("layers.")));

  const ProgramRun suite = RunProgram(
      "qgpu-coordinator", {"run-suite", "--quick", "--filter", "dot", "--circuit", "flipped.bin"}, directory_);
  EXPECT_EQ(suite.exit_code, kExitUsage);
  EXPECT_THAT(suite.err, HasSubstr("layers."));
}

}  // namespace
}  // namespace qgpu
