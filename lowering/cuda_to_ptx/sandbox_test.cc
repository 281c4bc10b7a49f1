#include "lowering/cuda_to_ptx/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gtest/gtest.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;

class SandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "qgpu-sandbox-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = fs::canonical(path);
    fs::create_directory(folder_ / "scratch");
    std::ofstream(folder_ / "secret") << "secret";
    command_.program = QGPU_SANDBOX_PROBE;
    command_.scratch = (folder_ / "scratch").string();
    command_.readable = {"/lib", "/lib64", "/usr/lib", "/etc/ld.so.cache"};
  }
  void TearDown() override { fs::remove_all(folder_); }

  // What the probe said, with every layer this kernel has or with some of them.
  std::string Try(std::vector<std::string> arguments, SandboxLayers layers = ProbeSandbox()) {
    command_.arguments = std::move(arguments);
    const absl::StatusOr<SandboxOutcome> outcome = RunSandboxedWith(layers, command_);
    if (!outcome.ok()) return outcome.status().ToString();
    EXPECT_EQ(outcome->end, SandboxOutcome::End::kExited);
    return outcome->messages;
  }

  SandboxOutcome::End End(std::vector<std::string> arguments) {
    command_.arguments = std::move(arguments);
    const absl::StatusOr<SandboxOutcome> outcome = RunSandboxed(command_);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? outcome->end : SandboxOutcome::End::kExited;
  }

  std::string InFolder(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
  SandboxCommand command_;
};

TEST_F(SandboxTest, RunsAndReturnsOutput) {
  EXPECT_EQ(Try({"hello"}), "did\n");
  EXPECT_EQ(Try({"environment"}), "HOME=unset PATH=unset\n");
}

TEST_F(SandboxTest, ScratchIsTheOnlyPlaceToWrite) {
  EXPECT_EQ(Try({"write", InFolder("scratch/file")}), "did\n");
  EXPECT_EQ(Try({"read", InFolder("scratch/file")}), "did\n");
  EXPECT_EQ(Try({"unlink", InFolder("scratch/file")}), "did\n");
  if (ProbeSandbox().landlock_abi == 0) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(Try({"write", InFolder("file")}), "EACCES\n");
  EXPECT_EQ(Try({"write", InFolder("secret")}), "EACCES\n");
  EXPECT_EQ(Try({"unlink", InFolder("secret")}), "EACCES\n");
  EXPECT_EQ(Try({"mkdir", InFolder("folder")}), "EPERM\n");
  EXPECT_FALSE(fs::exists(folder_ / "file"));
  EXPECT_TRUE(fs::exists(folder_ / "secret"));
}

TEST_F(SandboxTest, ReadsOnlyWhatItIsGiven) {
  if (ProbeSandbox().landlock_abi == 0) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(Try({"read", "/etc/passwd"}), "EACCES\n");
  EXPECT_EQ(Try({"read", InFolder("secret")}), "EACCES\n");
  EXPECT_EQ(Try({"read", "/proc/self/environ"}), "EACCES\n");
  command_.readable.push_back(InFolder("secret"));
  EXPECT_EQ(Try({"read", InFolder("secret")}), "did\n");
}

TEST_F(SandboxTest, NoSockets) {
  if (!ProbeSandbox().seccomp) GTEST_SKIP() << "this kernel has no seccomp";
  for (const char* kind : {"socket", "unix-socket", "socket-pair"}) EXPECT_EQ(Try({kind}), "EPERM\n") << kind;
}

TEST_F(SandboxTest, NoOtherProcessesButThreads) {
  if (!ProbeSandbox().seccomp) GTEST_SKIP() << "this kernel has no seccomp";
  EXPECT_EQ(Try({"fork"}), "EPERM\n");
  EXPECT_EQ(Try({"vfork-shell"}), "EPERM\n");
  EXPECT_EQ(Try({"exec", "/bin/true"}), "EPERM\n");
  EXPECT_EQ(Try({"exec", QGPU_SANDBOX_PROBE}), "EPERM\n");
  EXPECT_EQ(Try({"exec-fd", QGPU_SANDBOX_PROBE}), "EPERM\n");
  EXPECT_EQ(Try({"exec-fd-200", QGPU_SANDBOX_PROBE}), "EBADF\n");  // beyond the descriptor limit
  EXPECT_EQ(Try({"ptrace"}), "EPERM\n");
  EXPECT_EQ(Try({"signal-parent"}), "EPERM\n");
  EXPECT_EQ(Try({"kill-parent"}), "EPERM\n");
  EXPECT_EQ(Try({"thread"}), "did\n");
}

TEST_F(SandboxTest, InheritsNoDescriptors) {
  const int leaked = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  EXPECT_EQ(Try({"descriptors"}), "0\n");
  close(leaked);
}

TEST_F(SandboxTest, EveryLayerWorksWithoutTheOthers) {
  const SandboxLayers present = ProbeSandbox();
  if (present.landlock_abi > 0) {
    const SandboxLayers landlock_only = {present.landlock_abi, false};
    EXPECT_EQ(Try({"read", "/etc/passwd"}, landlock_only), "EACCES\n");
    EXPECT_EQ(Try({"exec", "/bin/true"}, landlock_only), "EACCES\n");
    const SandboxLayers oldest = {1, false};
    EXPECT_EQ(Try({"read", "/etc/passwd"}, oldest), "EACCES\n");
    EXPECT_EQ(Try({"write", InFolder("scratch/file")}, oldest), "did\n");
  }
  if (present.seccomp) {
    const SandboxLayers seccomp_only = {0, true};
    EXPECT_EQ(Try({"socket"}, seccomp_only), "EPERM\n");
    EXPECT_EQ(Try({"fork"}, seccomp_only), "EPERM\n");
    EXPECT_EQ(Try({"read", "/etc/passwd"}, seccomp_only), "did\n");  // what Landlock is for
  }
  EXPECT_EQ(Try({"hello"}, SandboxLayers{0, false}), "did\n");
}

TEST_F(SandboxTest, SaysWhichLayersThereAre) {
  EXPECT_EQ((SandboxLayers{7, true}.Describe()), "Landlock (ABI 7), seccomp, resource limits");
  EXPECT_EQ((SandboxLayers{0, true}.Describe()),
            "no Landlock (files are kept away by the compiler's own file table only), seccomp, resource limits");
}

TEST_F(SandboxTest, AddressSpaceIsLimited) {
  command_.address_space_bytes = 256 << 20;
  const std::string said = Try({"allocate"});
  EXPECT_TRUE(said.starts_with("refused after 2")) << said;  // 200 and some MiB
}

TEST_F(SandboxTest, FilesAreLimited) {
  command_.file_bytes = 1 << 20;
  EXPECT_EQ(End({"fill-file", InFolder("scratch/file")}), SandboxOutcome::End::kFileSize);
  EXPECT_EQ(fs::file_size(folder_ / "scratch/file"), 1u << 20);
}

TEST_F(SandboxTest, ProcessorTimeIsLimited) {
  command_.cpu_seconds = 1;
  EXPECT_EQ(End({"spin"}), SandboxOutcome::End::kCpuTime);
}

TEST_F(SandboxTest, WallTimeIsLimited) {
  command_.wall_ms = 200;
  for (const char* action : {"sleep", "close-and-sleep", "spin"}) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(End({action}), SandboxOutcome::End::kWallTime) << action;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3)) << action;
  }
}

TEST_F(SandboxTest, OutputIsCut) {
  command_.message_bytes = 1000;
  EXPECT_EQ(Try({"chatter"}).size(), 1000u);
}

TEST_F(SandboxTest, CrashesAreOutcomes) {
  command_.arguments = {"abort"};
  const absl::StatusOr<SandboxOutcome> outcome = RunSandboxed(command_);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->end, SandboxOutcome::End::kSignal);
  EXPECT_EQ(outcome->code, SIGABRT);
}

TEST_F(SandboxTest, WhatCannotStartIsAnError) {
  command_.program = InFolder("nothing");
  EXPECT_EQ(RunSandboxed(command_).status().code(), absl::StatusCode::kUnavailable);
  command_.program = InFolder("secret");  // no ELF file
  const absl::Status status = RunSandboxed(command_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("start"), std::string::npos) << status;
}

TEST_F(SandboxTest, RunsFromSeveralThreadsAtOnce) {
  command_.arguments = {"hello"};
  std::vector<std::string> said(8);
  std::vector<std::thread> threads;
  for (std::string& text : said) {
    threads.emplace_back([this, &text] {
      const absl::StatusOr<SandboxOutcome> outcome = RunSandboxed(command_);
      text = outcome.ok() ? outcome->messages : outcome.status().ToString();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : said) EXPECT_EQ(text, "did\n");
}

}  // namespace
}  // namespace qgpu
