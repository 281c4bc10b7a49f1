#include <cstdlib>
#include <filesystem>

#include "common/exit_code.h"
#include "common/file.h"
#include "common/prng.h"
#include "common/sha256.h"
#include "common/version.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

// FIPS 180-4 example values.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// First outputs for seed 1234567, as published with the generator's reference code.
TEST(Prng, MatchesTheReferenceStream) {
  SplitMix64 prng(1234567);
  EXPECT_EQ(prng.Next(), 6457827717110365317ull);
  EXPECT_EQ(prng.Next(), 3203168211198807973ull);
}

TEST(File, RoundTripAndErrors) {
  const std::string path = testing::TempDir() + "/qgpu_file_test";
  ASSERT_TRUE(WriteFileAtomically(path, std::string_view("a\0b", 3)).ok());
  EXPECT_EQ(ReadFile(path).value(), std::string("a\0b", 3));
  EXPECT_EQ(ReadFile(path, 2).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(path + ".missing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(testing::TempDir()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(WriteFileAtomically("/nonexistent/folder/file", "x").ok());
  std::filesystem::remove(path);
}

TEST(Version, NamesBuildAndCircuit) {
  const std::string path = testing::TempDir() + "/qgpu_version_test";
  ASSERT_TRUE(WriteFileAtomically(path, "abc").ok());
  EXPECT_EQ(CircuitFileHash(path), "ba7816bf8f01cfea");
  EXPECT_EQ(CircuitFileHash(path + ".missing"), "none");
  const std::string text = VersionText("qgpu-test", path);
  EXPECT_EQ(text.find("qgpu-test " + ProjectVersion() + ", commit " + BuildCommit()), 0u);
  EXPECT_NE(text.find("circuit ba7816bf8f01cfea (" + path + ")"), std::string::npos);
  EXPECT_EQ(VersionText("qgpu-test", "").find("circuit"), std::string::npos);
  std::filesystem::remove(path);
}

TEST(Version, TheCircuitLiesBesideTheProgramUnlessTheEnvironmentSaysOtherwise) {
  unsetenv("QGPU_CIRCUIT");
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(ExecutableDirectory(), program.parent_path().string());
  EXPECT_EQ(DefaultCircuitPath(), (program.parent_path().parent_path() / "share/qgpu/circuit.bin").string());
  setenv("QGPU_CIRCUIT", "/elsewhere/c.bin", 1);
  EXPECT_EQ(DefaultCircuitPath(), "/elsewhere/c.bin");
  unsetenv("QGPU_CIRCUIT");
}

TEST(ExitCode, FollowsTheStatus) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("")), 1);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("")), 4);
}

}  // namespace
}  // namespace qgpu
