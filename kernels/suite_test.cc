#include "kernels/suite.h"

#include <filesystem>
#include <fstream>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace qgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<std::string> AnySource(const std::string& name) { return "// " + name; }

absl::StatusOr<KernelSuite> Parse(const std::string& text) { return ParseSuite(text, "s.json", AnySource); }

// A suite of one kernel with one case, with `case_fields` in it.
std::string OneCase(const std::string& case_fields) {
  return R"({"suite": "s", "version": 1, "kernels": [{"kernel": "k", "source": "k.cu", "cases": [{)" + case_fields +
         "}]}]}";
}

TEST(SuiteTest, ParsesCases) {
  const absl::StatusOr<KernelSuite> suite = Parse(R"({"suite": "s", "version": 1, "sources": "..", "kernels": [
      {"kernel": "k", "source": "k.cu", "entry": "_Z1kPi", "cases": [
        {"name": "plain", "launch": {"grid": [2], "block": [3, 1, 1], "arguments": [
          {"name": "p", "words": [1, -2, 2147483648], "output": true}, {"name": "n", "value": -7}]}},
        {"name": "trap", "launch": {}, "expect": "trap", "expect_text": "out of range"}]},
      {"kernel": "q", "source": "q.ptx", "cases": [{"name": "plain", "launch": {}, "expect": "refusal"}]}]})");
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->name, "s");
  EXPECT_THAT(suite->KernelNames(), ElementsAre("k", "q"));
  ASSERT_EQ(suite->cases.size(), 3u);
  const KernelCase& plain = suite->cases[0];
  EXPECT_EQ(plain.Id(), "k/plain");
  EXPECT_EQ(plain.suite, "s");
  EXPECT_EQ(plain.spec.kernel, "_Z1kPi");
  EXPECT_EQ(plain.spec.source.name, "k.cu");
  EXPECT_EQ(plain.spec.source.text, "// k.cu");
  EXPECT_EQ(plain.spec.source.language, SourceLanguage::kCuda);
  EXPECT_EQ(plain.spec.grid, (Dim3{2, 1, 1}));
  EXPECT_EQ(plain.spec.block, (Dim3{3, 1, 1}));
  ASSERT_EQ(plain.spec.arguments.size(), 2u);
  EXPECT_THAT(plain.spec.arguments[0].words, ElementsAre(1u, 0xfffffffeu, 0x80000000u));
  EXPECT_TRUE(plain.spec.arguments[0].is_output);
  EXPECT_EQ(static_cast<int64_t>(plain.spec.arguments[1].scalar), -7);
  EXPECT_EQ(plain.expect, KernelCase::Expect::kResult);
  EXPECT_EQ(suite->cases[1].expect, KernelCase::Expect::kTrap);
  EXPECT_EQ(suite->cases[1].expect_text, "out of range");
  EXPECT_EQ(suite->cases[2].expect, KernelCase::Expect::kRefusal);
  EXPECT_EQ(suite->cases[2].spec.kernel, "q");
  EXPECT_EQ(suite->cases[2].spec.source.language, SourceLanguage::kPtx);
}

TEST(SuiteTest, HashesCoverEverythingThatMatters) {
  const std::string base = R"("name": "c", "launch": {"block": [2], "arguments": [{"name": "n", "value": 1}]})";
  const auto hash = [](const std::string& case_fields) {
    const absl::StatusOr<KernelSuite> suite = Parse(OneCase(case_fields));
    EXPECT_TRUE(suite.ok()) << suite.status();
    EXPECT_EQ(suite->cases[0].hash.size(), 64u);
    return suite->cases[0].hash + suite->hash;
  };
  const std::string expected = hash(base);
  EXPECT_EQ(hash("\n " + base + " "), expected);  // not the text's layout
  for (const char* other : {
           R"("name": "d", "launch": {"block": [2], "arguments": [{"name": "n", "value": 1}]})",
           R"("name": "c", "launch": {"block": [3], "arguments": [{"name": "n", "value": 1}]})",
           R"("name": "c", "launch": {"block": [2], "arguments": [{"name": "n", "value": 2}]})",
           R"("name": "c", "launch": {"block": [2], "arguments": [{"name": "m", "value": 1}]})",
           R"("name": "c", "expect": "trap", "launch": {"block": [2], "arguments": [{"name": "n", "value": 1}]})",
       }) {
    const std::string changed = hash(other);
    EXPECT_NE(changed.substr(0, 64), expected.substr(0, 64)) << other;
    EXPECT_NE(changed.substr(64), expected.substr(64)) << other;
  }
  const absl::StatusOr<KernelSuite> other_source =
      ParseSuite(OneCase(base), "s.json", [](const std::string&) -> absl::StatusOr<std::string> { return "x"; });
  ASSERT_TRUE(other_source.ok());
  EXPECT_NE(other_source->cases[0].hash, expected.substr(0, 64));
}

TEST(SuiteTest, ErrorsNameThePlace) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "s.json: not JSON"},
      {"[1]", "s.json: must be a JSON object"},
      {R"({"suite": "s", "version": 1})", "s.json: lacks \"kernels\""},
      {R"({"suite": "s", "version": 2, "kernels": []})",
       "s.json: suite format version 2; this program reads version 1"},
      {R"({"suite": "s", "version": 1, "kernels": []})", "s.json: \"kernels\" must be a list of at least one kernel"},
      {R"({"suite": "s", "version": 1, "kernels": [], "kernel": 1})", "s.json: unknown key \"kernel\""},
      {R"({"suite": "S/", "version": 1, "kernels": []})", "s.json: \"suite\" is \"S/\"; names are of a-z"},
      {R"({"suite": "s", "version": 1, "kernels": [{"kernel": "k", "source": "k.cu", "cases": []}]})",
       "s.json: kernel k: \"cases\" must be a list of at least one case"},
      {R"({"suite": "s", "version": 1, "kernels": [{"kernel": "k", "source": 4, "cases": [1]}]})",
       "s.json: kernel k: \"source\" must be a non-empty string"},
      {OneCase(R"("name": "c")"), "s.json: kernel k: case: lacks \"launch\""},
      {OneCase(R"("name": "c", "launch": {"grid": [0]})"), "s.json: kernel k: case c: launch description: \"grid\"[0]"},
      {OneCase(R"("name": "c", "launch": {}, "expects": "trap")"), "unknown key \"expects\""},
      {OneCase(R"("name": "c", "launch": {}, "expect": "hang")"),
       "s.json: kernel k: case c: \"expect\" must be \"result\", \"trap\" or \"refusal\""},
      {OneCase(R"("name": "c", "launch": {}, "expect_text": "x")"),
       "s.json: kernel k: case c: \"expect_text\" needs \"expect\""},
      {R"({"suite": "s", "version": 1, "kernels": [{"kernel": "k", "source": "k.cu", "cases": [
           {"name": "c", "launch": {}}, {"name": "c", "launch": {}}]}]})",
       "s.json: kernel k: case c is given twice"},
      {R"({"suite": "s", "version": 1, "kernels": [{"kernel": "k", "source": "k.cu", "cases": [
           {"name": "c", "launch": {}}]}, {"kernel": "k", "source": "k.cu", "cases": [{"name": "d", "launch": {}}]}]})",
       "s.json: kernel k: is given twice"},
  };
  for (const auto& [text, message] : bad) {
    const absl::Status status = Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << text;
  }
}

TEST(SuiteTest, EmbeddedSuiteNeedsNoFiles) {
  EXPECT_THAT(EmbeddedSuiteNames(), testing::Contains("kernels"));
  const absl::StatusOr<KernelSuite> suite = LoadSuite("kernels");
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->KernelNames().size(), 49u);
  const absl::StatusOr<std::string> dot = EmbeddedKernelSource("dot.cu");
  ASSERT_TRUE(dot.ok()) << dot.status();
  EXPECT_THAT(*dot, HasSubstr("__global__ void dot("));
  EXPECT_EQ(EmbeddedKernelSource("kernels.json").status().code(), absl::StatusCode::kNotFound);
}

TEST(SuiteTest, UnknownSuitesListTheKnown) {
  const absl::Status status = LoadSuite("kernel").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no suite \"kernel\"; there are: extra, kernels;"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("did you mean \"kernels\"?"));
  EXPECT_THAT(std::string(LoadSuite("frob").status().message()), testing::Not(HasSubstr("did you mean")));
  EXPECT_EQ(LoadSuite("/nonexistent/suite.json").status().code(), absl::StatusCode::kNotFound);
}

TEST(SuiteTest, SuitesOfOnesOwnComeFromFiles) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "suite_test";
  std::filesystem::create_directories(folder / "cu");
  ASSERT_TRUE(WriteFileAtomically((folder / "cu/k.cu").string(), "// mine").ok());
  const std::string path = (folder / "mine.json").string();
  ASSERT_TRUE(WriteFileAtomically(path, R"({"suite": "mine", "version": 1, "sources": "cu", "kernels": [
      {"kernel": "k", "source": "k.cu", "cases": [{"name": "c", "launch": {}}]}]})")
                  .ok());
  const absl::StatusOr<KernelSuite> suite = LoadSuite(path);
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->cases[0].spec.source.text, "// mine");
  std::filesystem::remove(folder / "cu/k.cu");
  EXPECT_THAT(std::string(LoadSuite(path).status().message()), HasSubstr("mine.json: kernel k: "));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace qgpu
