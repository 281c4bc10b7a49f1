#include "kernels/launch_spec.h"

#include <filesystem>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = KernelArgument::Kind;

absl::StatusOr<KernelArgument> Argument(const std::string& fields) {
  const absl::StatusOr<LaunchSpec> spec = LaunchSpecFromJson(R"({"arguments": [{)" + fields + "}]}");
  if (!spec.ok()) return spec.status();
  return spec->arguments.at(0);
}

TEST(LaunchJson, RawContentIsABufferOrAValue) {
  const KernelArgument buffer = Argument(R"("name": "p", "bytes": "0102030405", "output": true)").value();
  EXPECT_EQ(buffer.kind, Kind::kBuffer);
  EXPECT_TRUE(buffer.is_raw && buffer.is_output);
  EXPECT_THAT(buffer.words, ElementsAre(0x04030201u, 5u));
  EXPECT_EQ(buffer.BufferBytes(), 5u);
  EXPECT_EQ(Argument(R"("base64": "AQID")").value().words, std::vector<uint32_t>{0x00030201u});
  const KernelArgument zeros = Argument(R"("zero_bytes": 6)").value();
  EXPECT_THAT(zeros.words, ElementsAre(0u, 0u));
  EXPECT_EQ(zeros.padding, 2u);
  const KernelArgument value = Argument(R"("by_value": true, "bytes": "010203")").value();
  EXPECT_EQ(value.kind, Kind::kScalar);
  EXPECT_THAT(value.bytes, ElementsAre(1, 2, 3));
  EXPECT_EQ(Argument(R"("words": [4294967295])").value().words, std::vector<uint32_t>{0xffffffffu});
}

TEST(LaunchJson, WhatIsWrongIsNamed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"("name": "p")", "argument 0 (p): needs exactly one of"},
      {R"("words": [1], "value": 2)", "needs exactly one of"},
      {R"("bytes": "01", "base64": "AQ==")", "needs exactly one of"},
      {R"("bytes": "0g")", "\"bytes\": character 2 (code 103) is not a hexadecimal digit"},
      {R"("base64": "A")", "\"base64\""},
      {R"("value": 1, "by_value": true)", "\"by_value\" goes with raw content only"},
      {R"("bytes": "", "by_value": true)", "a value has at least one byte"},
      {R"("bytes": "01", "by_value": true, "output": true)", "cannot be an output"},
      {R"("zero_bytes": 4194305)", "unknown key or wrong type: \"zero_bytes\""},
      {R"("zero_bytes": -1)", "unknown key or wrong type: \"zero_bytes\""},
      {R"("file": "/etc/passwd")", "\"file\" is for launch descriptions that are files themselves"},
      {R"("words": [18446744073709551615])", "18446744073709551615 is not a 32-bit integer"},
      {R"("words": [-2147483649])", "-2147483649 is not a 32-bit integer"},
  };
  for (const auto& [fields, message] : bad) {
    const absl::Status status = Argument(fields).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << fields << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << fields;
  }
}

TEST(LaunchJson, ReadsWhatItWrites) {
  LaunchSpec spec;
  spec.kernel = "k";
  spec.grid = {2, 3, 4};
  spec.block = {5, 6, 1};
  spec.dynamic_shared_bytes = 12;
  spec.arguments = {KernelArgument::RawBuffer("p", {1, 2, 3}), KernelArgument::RawValue("", {9, 8}), KernelArgument{}};
  spec.arguments[0].is_output = true;
  spec.arguments[2].scalar = 0 - uint64_t{7};
  const LaunchSpec read = LaunchSpecFromJson(LaunchSpecToJson(spec)).value();
  EXPECT_EQ(LaunchSpecToJson(read), LaunchSpecToJson(spec));
  EXPECT_EQ(read.grid, spec.grid);
  EXPECT_EQ(read.dynamic_shared_bytes, 12u);
  EXPECT_EQ(read.arguments[0].BufferBytes(), 3u);
  EXPECT_THAT(read.arguments[1].bytes, ElementsAre(9, 8));
  EXPECT_EQ(read.arguments[2].scalar, 0 - uint64_t{7});
}

TEST(LaunchJson, FilesLieBesideTheDescription) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "launch_spec_test";
  std::filesystem::create_directories(folder / "data");
  const std::string path = (folder / "launch.json").string();
  ASSERT_TRUE(WriteFileAtomically((folder / "data/in.bin").string(), std::string("\x01\x00\xff", 3)).ok());
  ASSERT_TRUE(WriteFileAtomically(path, R"({"arguments": [{"file": "data/in.bin"}]})").ok());
  const absl::StatusOr<LaunchSpec> spec = ReadLaunchSpec(path);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->arguments[0].words, ElementsAre(0x00ff0001u));
  EXPECT_EQ(spec->arguments[0].BufferBytes(), 3u);

  ASSERT_TRUE(WriteFileAtomically(path, R"({"arguments": [{"file": "data/no.bin"}]})").ok());
  EXPECT_THAT(std::string(ReadLaunchSpec(path).status().message()), HasSubstr("data/no.bin"));
  ASSERT_TRUE(WriteFileAtomically((folder / "data/in.bin").string(), std::string(kMaxArgumentBytes + 1, 'x')).ok());
  ASSERT_TRUE(WriteFileAtomically(path, R"({"arguments": [{"file": "data/in.bin"}]})").ok());
  EXPECT_FALSE(ReadLaunchSpec(path).ok());
  ASSERT_TRUE(WriteFileAtomically(path, R"({"argument": []})").ok());
  EXPECT_THAT(std::string(ReadLaunchSpec(path).status().message()), HasSubstr("launch.json: launch description: "));
  EXPECT_FALSE(ReadLaunchSpec((folder / "none.json").string()).ok());
}

TEST(ScalarBytes, NumbersFitAndBytesAreAsMany) {
  KernelArgument number;
  number.name = "n";
  number.scalar = 0 - uint64_t{2};
  EXPECT_THAT(ScalarBytes(number, 2, false).value(), ElementsAre(0xfe, 0xff));
  EXPECT_THAT(ScalarBytes(number, 8, false).value(), ElementsAre(0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff));
  number.scalar = 255;
  EXPECT_THAT(ScalarBytes(number, 1, false).value(), ElementsAre(0xff));
  number.scalar = 256;
  EXPECT_THAT(std::string(ScalarBytes(number, 1, false).status().message()),
              HasSubstr("argument n: 256 does not fit the 1"));
  for (const size_t size : {4, 8, 12}) {
    EXPECT_THAT(
        std::string(ScalarBytes(number, size, true).status().message()),
        HasSubstr(fmt::format("argument n: the kernel's parameter is a struct of {} bytes, not a number", size)));
  }
  const KernelArgument raw = KernelArgument::RawValue("s", {1, 2, 3});
  EXPECT_THAT(ScalarBytes(raw, 3, false).value(), ElementsAre(1, 2, 3));
  EXPECT_THAT(ScalarBytes(raw, 3, true).value(), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::string(ScalarBytes(raw, 4, true).status().message()), HasSubstr("3 bytes are given, the kernel's"));
}

TEST(Arena, RawBuffersTakeWholeWords) {
  const Arena arena =
      LayOutArena({KernelArgument::RawBuffer("a", {1, 2, 3, 4, 5}), KernelArgument::RawBuffer("b", {6})});
  EXPECT_THAT(arena.words, ElementsAre(0u, 0x04030201u, 5u, 6u));
  EXPECT_THAT(arena.byte_address, ElementsAre(4u, 12u));
}

TEST(Arena, BuffersAreAlignedForTheWidestAccess) {
  std::vector<KernelArgument> arguments(4);
  for (size_t i = 0; i < 4; ++i) {
    arguments[i].kind = KernelArgument::Kind::kBuffer;
    arguments[i].words.assign(std::vector<size_t>{4, 0, 6, 3}[i], 7);
  }
  EXPECT_THAT(LayOutArena(arguments).byte_address, ElementsAre(4u, 20u, 20u, 44u));
  EXPECT_THAT(LayOutArena(arguments, 8).byte_address, ElementsAre(8u, 24u, 24u, 48u));
  const Arena arena = LayOutArena(arguments, 16);
  EXPECT_THAT(arena.byte_address, ElementsAre(16u, 32u, 32u, 56u));
  EXPECT_EQ(arena.words.size(), 17u);
  EXPECT_EQ(arena.words[3], 0u);
}

}  // namespace
}  // namespace qgpu
