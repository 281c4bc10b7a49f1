#include "oracle/golden/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file.h"
#include "common/sha256.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LaunchSpec Launch() {
  LaunchSpec spec;
  spec.source = {"k.cu", "__global__ void k(int* p) {}", SourceLanguage::kCuda};
  spec.arguments.resize(1);
  spec.arguments[0].kind = KernelArgument::Kind::kBuffer;
  spec.arguments[0].words = {1, 2};
  return spec;
}

GoldenFile File() {
  GoldenFile file;
  file.recorded = "2026-11-30T10:15:00Z";
  file.recorder = "qgpu-oracle 0.1.0, commit 0123456789ab";
  file.suite = "kernels";
  file.suite_hash = Sha256Hex("suite");
  file.device = {"Tesla T4", "7.5", "12.4", "", 40, 1'590'000, 5'001'000};
  file.results = {{"k/one", "_Z1kPi", KeyOf(Launch(), "ptx", "_Z1kPi"), "6.4", "sm_75", {0, 0xffffffff, 3}}};
  return file;
}

absl::StatusOr<GoldenAnswers> ReadText(const std::string& text) {
  const std::string path = testing::TempDir() + "/golden_test.json";
  EXPECT_TRUE(WriteFileAtomically(path, text).ok());
  auto answers = GoldenAnswers::Read(path);
  std::remove(path.c_str());
  return answers;
}

TEST(Golden, RoundTrip) {
  const GoldenFile file = File();
  const auto read = GoldenFromJson(GoldenToJson(file), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->recorded, file.recorded);
  EXPECT_EQ(read->recorder, file.recorder);
  EXPECT_EQ(read->suite, file.suite);
  EXPECT_EQ(read->suite_hash, file.suite_hash);
  EXPECT_EQ(read->device, file.device);
  ASSERT_EQ(read->results.size(), 1u);
  EXPECT_EQ(read->results[0].case_id, "k/one");
  EXPECT_EQ(read->results[0].entry, "_Z1kPi");
  EXPECT_EQ(read->results[0].key, file.results[0].key);
  EXPECT_EQ(read->results[0].ptx_version, "6.4");
  EXPECT_THAT(read->results[0].memory, ElementsAre(0, 0xffffffffu, 3));
}

TEST(Golden, AnswersExactlyWhatWasRecorded) {
  const auto answers = ReadText(GoldenToJson(File()));
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_THAT(answers->witness(),
              HasSubstr("golden (recorded 2026-11-30T10:15:00Z on Tesla T4, compute capability 7.5, CUDA 12.4, "));
  LaunchSpec spec = Launch();
  spec.token_budget = 7;  // of the machine alone
  spec.arguments[0].is_output = true;
  spec.kernel = "k";  // the entry decides
  const auto found = answers->Find(spec, "ptx", "_Z1kPi");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT((*found)->memory, ElementsAre(0, 0xffffffffu, 3));

  const auto why = [&](const LaunchSpec& other, const char* ptx, const char* entry) {
    const auto missing = answers->Find(other, ptx, entry);
    EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(missing.status().message(), HasSubstr("not in the golden file "));
    return std::string(missing.status().message());
  };
  EXPECT_THAT(why(spec, "other ptx", "_Z1kPi"), HasSubstr("other PTX"));
  EXPECT_THAT(why(spec, "ptx", "_Z1jPi"), HasSubstr("not with these arguments"));
  LaunchSpec other = spec;
  other.arguments[0].words[1] = 3;
  EXPECT_THAT(why(other, "ptx", "_Z1kPi"), HasSubstr("not with these arguments"));
  other = spec;
  other.block.x = 2;
  EXPECT_THAT(why(other, "ptx", "_Z1kPi"), HasSubstr("not with these arguments"));
  other = spec;
  other.source.text += " ";
  EXPECT_THAT(why(other, "ptx", "_Z1kPi"), HasSubstr("no result for this source"));
}

TEST(Golden, AResultOfAnotherSizeIsNoAnswer) {
  GoldenFile file = File();
  for (const size_t words : {2, 7}) {
    file.results[0].memory.resize(words);
    const auto answers = ReadText(GoldenToJson(file));
    ASSERT_TRUE(answers.ok()) << answers.status();
    const absl::Status status = answers->Find(Launch(), "ptx", "_Z1kPi").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("words, the launch has 3 to 6"));
  }
}

TEST(Golden, ContradictionsAreRefused) {
  GoldenFile file = File();
  file.results.push_back(file.results[0]);
  EXPECT_TRUE(ReadText(GoldenToJson(file)).ok());  // said twice
  file.results[1].memory[1] = 0;
  EXPECT_THAT(ReadText(GoldenToJson(file)).status().message(), HasSubstr("results[0] and results[1]"));
}

// Every key missing, of another type, out of its range, and one too many: each is named.
TEST(Golden, DamagedFilesAreRefused) {
  const json good = json::parse(GoldenToJson(File()));
  const auto refused = [](const json& damaged, const std::string& key) {
    const auto read = GoldenFromJson(damaged.dump(), "f");
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << damaged;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(key)) << damaged;
  };
  for (const char* object : {"", "/suite", "/device", "/results/0"}) {
    const json::json_pointer at(object);
    for (const auto& [key, value] : good.at(at).items()) {
      json damaged = good;
      damaged[at].erase(key);
      refused(damaged, key);
      for (const json& other : {json(), json(-1), json(1.5), json(""), json("a\nb"), json(std::string(300, 'x')),
                                json::array(), json::object(), json::array({1, -1})}) {
        if (key == "driver_version" && other == "") continue;
        if (key == "results" && other == json::array()) continue;
        damaged = good;
        damaged[at][key] = other;
        refused(damaged, key);
      }
    }
    json damaged = good;
    damaged[at]["surprise"] = 1;
    refused(damaged, "surprise");
  }
  for (const auto& [pointer, value] :
       std::initializer_list<std::pair<const char*, json>>{{"/version", 2},
                                                           {"/format", "qgpu"},
                                                           {"/recorded", "yesterday"},
                                                           {"/device/engine", "native-cpu"},
                                                           {"/results/0/memory/1", 4294967296},
                                                           {"/results/0/ptx_sha256", std::string(64, 'A')}}) {
    json damaged = good;
    damaged[json::json_pointer(pointer)] = value;
    refused(damaged, "f: ");
  }
}

TEST(Golden, WhateverTheFileTheReaderEnds) {
  const std::string good = GoldenToJson(File());
  for (size_t length = 0; length < good.size(); length += 7) {
    EXPECT_FALSE(GoldenFromJson(good.substr(0, length), "f").ok());
  }
  EXPECT_FALSE(GoldenFromJson(std::string(1'000'000, '['), "f").ok());
  EXPECT_FALSE(GoldenFromJson(std::string(500'000, '[') + std::string(500'000, ']'), "f").ok());
  EXPECT_FALSE(GoldenFromJson("\xff\xfe{}", "f").ok());
  EXPECT_THAT(GoldenFromJson(std::string(kMaxGoldenBytes + 1, ' '), "f").status().message(), HasSubstr("at most"));
  EXPECT_EQ(GoldenAnswers::Read("/no/such/file").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace qgpu
