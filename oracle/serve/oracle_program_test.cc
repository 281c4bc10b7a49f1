// qgpu-oracle as a person calls it: run, record, engines, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"
#include "nlohmann/json.hpp"
#include "oracle/serve/child_process.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Ended {
  int code = -1;
  std::string text;
  json parsed() const { return json::parse(text, nullptr, false); }
};

class OracleProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "oracle_program";
    fs::create_directories(folder_);
    Write("k.cu", "__global__ void k(int* p, int n) { if (threadIdx.x < n) p[threadIdx.x] *= 2; }\n");
    Write("launch.json", R"({"block": [4], "arguments": [{"words": [3, -4, 5]}, {"value": 2}]})");
    Write("null.json", R"({"block": [4], "arguments": [{"value": 0}, {"value": 2}]})");
  }
  void TearDown() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(At(name), text).ok());
  }
  std::string At(const std::string& name) const { return folder_ / name; }

  static Ended Oracle(const std::vector<std::string>& arguments, const std::string& devices = "1") {
    const std::string standin = fs::path(QGPU_STANDIN_CUDA).parent_path();
    const auto outcome = RunChild(std::string(QGPU_BIN) + "/qgpu-oracle", arguments,
                                  {"LD_LIBRARY_PATH=" + standin, "QGPU_STANDIN_DEVICES=" + devices}, 60'000);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return {};
    EXPECT_EQ(outcome->end, ChildOutcome::End::kExited);
    return {outcome->code, outcome->messages};
  }

  fs::path folder_;
};

TEST_F(OracleProgram, EveryEngineRunsALaunch) {
  for (const char* engine : {"native", "native-cuda", "native-cpu", "interpreter"}) {
    const Ended run = Oracle({"run", At("k.cu"), "--launch", At("launch.json"), "--engine", engine});
    EXPECT_EQ(run.code, 0) << run.text;
    const json result = run.parsed();
    ASSERT_TRUE(result.is_object()) << run.text;
    EXPECT_EQ(result["outcome"], "done");
    EXPECT_EQ(result["memory"], json({0, 6, 4294967288, 5})) << engine;
    if (std::string(engine) == "native") {
      EXPECT_EQ(result["engine"], "native-cuda");
      EXPECT_EQ(result["device"]["name"], "qgpu stand-in (native-cpu)");
      EXPECT_THAT(result["witness"].get<std::string>(), StartsWith("native-cuda (qgpu stand-in (native-cpu), "));
    }
  }
}

TEST_F(OracleProgram, ExitCodesSayHowItEnded) {
  for (const char* engine : {"native-cuda", "native-cpu", "interpreter"}) {
    const Ended trap = Oracle({"run", At("k.cu"), "--launch", At("null.json"), "--engine", engine});
    EXPECT_EQ(trap.code, 1) << trap.text;
    EXPECT_EQ(trap.parsed()["outcome"], "trap") << engine;
  }
  Write("broken.cu", "__global__ void k() { undeclared(); }\n");
  const Ended refused = Oracle({"run", At("broken.cu")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.parsed()["outcome"], "refused");
  EXPECT_THAT(refused.parsed()["message"].get<std::string>(), HasSubstr("undeclared"));
  const Ended not_run = Oracle({"run", At("k.cu"), "--launch", At("launch.json"), "--engine", "native-cuda"}, "0");
  EXPECT_EQ(not_run.code, 2);
  EXPECT_EQ(not_run.parsed()["outcome"], "not_run");
  EXPECT_THAT(not_run.parsed()["message"].get<std::string>(), HasSubstr("CUDA_ERROR_NO_DEVICE"));
  EXPECT_FALSE(not_run.parsed().contains("memory"));
  EXPECT_EQ(Oracle({"run", At("missing.cu")}).code, 2);
  EXPECT_EQ(Oracle({"run", At("launch.json")}).code, 2);
  EXPECT_EQ(Oracle({"run", At("k.cu"), "--launch", At("k.cu")}).code, 2);
  EXPECT_EQ(Oracle({"run", At("k.cu"), "--engine", "abacus"}).code, 2);
}

// A file's name is any bytes; JSON is UTF-8.
TEST_F(OracleProgram, JsonIsValidWhateverTheNamesHold) {
  Write("k\xff.cu", "__global__ void k(int* p) { p[1] = 2; }\n");
  Write("bad\xff.cu", "__global__ void k() { undeclared\xfe(\"\xfd\"); }\n");
  Write("words.json", R"({"arguments": [{"words": [3, 4]}]})");
  for (const char* engine : {"native-cuda", "native-cpu", "interpreter"}) {
    const Ended good = Oracle({"run", At("k\xff.cu"), "--launch", At("words.json"), "--engine", engine});
    EXPECT_EQ(good.code, 0) << good.text;
    EXPECT_EQ(good.parsed()["memory"], json({0, 3, 2})) << good.text;
    const Ended bad = Oracle({"run", At("bad\xff.cu"), "--engine", engine});
    EXPECT_EQ(bad.code, 2) << bad.text;
    EXPECT_EQ(bad.parsed()["outcome"], "refused") << bad.text;
    EXPECT_THAT(bad.parsed()["message"].get<std::string>(), HasSubstr("bad\ufffd.cu:1"));
  }
}

TEST_F(OracleProgram, EnginesSaysWhatThereIs) {
  const json with = Oracle({"engines"}).parsed(), without = Oracle({"engines"}, "0").parsed();
  ASSERT_EQ(with["engines"].size(), 3u);
  EXPECT_EQ(with["engines"][0]["name"], "native-cuda");
  EXPECT_EQ(with["engines"][0]["answers"], true);
  EXPECT_EQ(with["engines"][0]["not_run"], "");
  EXPECT_EQ(without["engines"][0]["answers"], false);
  EXPECT_THAT(without["engines"][0]["not_run"].get<std::string>(), HasSubstr("no CUDA device"));
  EXPECT_EQ(without["engines"][1]["name"], "native-cpu");
  EXPECT_EQ(without["engines"][1]["answers"], true);
}

TEST_F(OracleProgram, RecordAndAnswerFromTheFile) {
  Write("suite.json", R"({"suite": "s", "version": 1, "sources": ".", "kernels": [{"kernel": "k", "source": "k.cu",
      "cases": [{"name": "c", "launch": {"block": [4], "arguments": [{"words": [3, -4, 5]}, {"value": 2}]}}]}]})");
  const Ended recorded = Oracle({"record", At("suite.json"), "--out", At("golden.json")});
  EXPECT_EQ(recorded.code, 0) << recorded.text;
  EXPECT_THAT(recorded.text, HasSubstr("recorded 1 of 1 launches of s on qgpu stand-in (native-cpu)"));
  const Ended run = Oracle({"run", At("k.cu"), "--launch", At("launch.json"), "--golden", At("golden.json")}, "0");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_EQ(run.parsed()["engine"], "golden");
  EXPECT_EQ(run.parsed()["memory"], json({0, 6, 4294967288, 5}));
  EXPECT_THAT(run.parsed()["witness"].get<std::string>(), HasSubstr("on qgpu stand-in (native-cpu)"));
  const Ended other = Oracle({"run", At("k.cu"), "--launch", At("null.json"), "--golden", At("golden.json")}, "0");
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.parsed()["outcome"], "not_run");

  EXPECT_EQ(Oracle({"record", At("suite.json"), "--out", At("none.json")}, "0").code, 2);
  EXPECT_FALSE(fs::exists(At("none.json")));
  for (const char* devices : {"0", "1"}) {
    const Ended unknown = Oracle({"record", "kernel", "--out", At("none.json")}, devices);
    EXPECT_EQ(unknown.code, 2);
    EXPECT_THAT(unknown.text, HasSubstr("no suite \"kernel\""));
    EXPECT_THAT(unknown.text, HasSubstr("did you mean \"kernels\"?"));
  }
  const Ended command = Oracle({"recrod", At("suite.json")});
  EXPECT_EQ(command.code, 2);
  EXPECT_THAT(command.text, HasSubstr("unknown command \"recrod\"; did you mean \"record\"?"));
  EXPECT_EQ(Oracle({"serve", "--native", "native-cuda"}, "0").code, 2);
  EXPECT_EQ(Oracle({"serve", "--golden", At("suite.json")}, "0").code, 2);
}

}  // namespace
}  // namespace qgpu
