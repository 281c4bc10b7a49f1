// Who the native witness of a run is, and that store and report say so: a device (here the stand-in of the tests), this
// CPU where there is none, or a golden file. The worker answers from the interpreter and does not cheat.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/exit_code.h"
#include "common/file.h"
#include "coordinator/store/store.h"
#include "tests/canary/programs.h"

namespace qgpu {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

constexpr char kDevice[] = "qgpu stand-in (native-cpu), compute capability 7.5";

class NativeEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    Write("scale.cu", "__global__ void scale(int* p, int n) { int i = threadIdx.x; if (i < n) p[i] = 3 * p[i]; }\n");
    Write("few.json", Suite("[4, -5]"));
  }
  static std::string Suite(const std::string& words) {
    return R"({"suite": "few", "version": 1, "sources": ".", "kernels": [{"kernel": "scale", "source": "scale.cu",
      "cases": [{"name": "one", "launch": {"block": [4], "arguments": [{"words": )" +
           words + R"(}, {"value": 2}]}}]}]})";
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder_ / name, text).ok());
  }
  Environment Device(const std::string& devices) const {
    const std::string path = std::filesystem::path(QGPU_STANDIN_CUDA).parent_path();
    return {{"LD_LIBRARY_PATH", path}, {"QGPU_STANDIN_DEVICES", devices}, {"QGPU_CANARY", "none"}};
  }
  Finished RunSuite(const std::string& devices, const std::vector<std::string>& more = {}) {
    std::filesystem::remove(folder_ / "qgpu.db");
    std::vector<std::string> arguments = {"run-suite", folder_ / "few.json", "--worker-program", CanaryWorker()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunCoordinator(folder_, arguments, Device(devices));
  }
  int Record(const std::string& suite, const std::string& out) {
    RunningProgram record(folder_, ProgramPath("qgpu-oracle"), {"record", folder_ / suite, "--out", folder_ / out},
                          Device("1"));
    return record.Wait();
  }
  RunReport Stored() {
    auto store = Store::Open(folder_ / "qgpu.db");
    EXPECT_TRUE(store.ok()) << store.status();
    auto report = (*store)->ReadRun(1);
    EXPECT_TRUE(report.ok()) << report.status();
    return *report;
  }
  std::string Witness() {
    const RunReport report = Stored();
    const auto& launch = report.items.at(0).attempts.at(0).launch;
    return launch.has_value() ? launch->native_witness : "";
  }
  std::string Html() { return ReadFile(folder_ / "report.html").value_or(""); }

  TestFolder folder_;
};

TEST_F(NativeEngine, ADeviceIsTheWitnessWhereThereIsOne) {
  const Finished run = RunSuite("1");
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_THAT(Witness(), StartsWith(std::string("native-cuda (") + kDevice));
  EXPECT_THAT(Witness(), HasSubstr("SM 1000 MHz, memory 2000 MHz; PTX "));
  EXPECT_THAT(Stored().run.manifest,
              Contains(Pair("native engine", StartsWith(std::string("native-cuda (") + kDevice))));
  EXPECT_THAT(Html(), HasSubstr(kDevice));
}

TEST_F(NativeEngine, WithoutADeviceNativeCudaIsNotRunAndTheReportSaysWhy) {
  const Finished run = RunSuite("0");
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_THAT(Witness(), StartsWith("native-cpu ("));
  EXPECT_THAT(Stored().run.manifest, Contains(Pair("native-cuda", StartsWith("not run: no CUDA device: cuInit"))));
  EXPECT_THAT(Html(), HasSubstr("not run: no CUDA device"));
  const Finished asked = RunSuite("0", {"--native", "native-cuda"});
  EXPECT_EQ(asked.exit_code, kExitUsage);
  EXPECT_THAT(asked.err, HasSubstr("native-cuda: not run: no CUDA device"));
}

TEST_F(NativeEngine, AGoldenFileIsAWitnessOfWhatItHoldsOnly) {
  ASSERT_EQ(Record("few.json", "golden.json"), kExitGood);
  const Finished run = RunSuite("0", {"--golden", folder_ / "golden.json"});
  EXPECT_EQ(run.exit_code, kExitGood) << run.err;
  EXPECT_THAT(Witness(), StartsWith("golden (recorded 2"));
  EXPECT_THAT(Witness(), HasSubstr(kDevice));
  EXPECT_THAT(Html(), HasSubstr("golden (recorded 2"));

  Write("few.json", Suite("[4, -6]"));
  const Finished other = RunSuite("0", {"--golden", folder_ / "golden.json"});
  EXPECT_EQ(other.exit_code, kExitUsage) << other.err;
  EXPECT_THAT(other.err, HasSubstr("not in the golden file"));
}

TEST_F(NativeEngine, AGoldenFileThatIsWrongIsTheOddOneOut) {
  ASSERT_EQ(Record("few.json", "golden.json"), kExitGood);
  std::string golden = ReadFile(folder_ / "golden.json").value_or("");
  const size_t memory = golden.find("\"memory\":[0,12,");
  ASSERT_NE(memory, std::string::npos) << golden;
  golden.replace(memory, 15, "\"memory\":[0,13,");
  Write("golden.json", golden);
  const Finished run = RunSuite("0", {"--golden", folder_ / "golden.json"});
  EXPECT_EQ(run.exit_code, kExitWrong) << run.err;
  EXPECT_THAT(run.err, HasSubstr("model 12, interpreter 12, native 13; golden is the odd one out"));
  EXPECT_EQ(Stored().items.at(0).attempts.at(0).launch->odd_one_out, "golden");

  Write("golden.json", golden.substr(0, golden.size() / 2));
  EXPECT_EQ(RunSuite("0", {"--golden", folder_ / "golden.json"}).exit_code, kExitUsage);
}

TEST_F(NativeEngine, ChoicesAreForTheLocalOracle) {
  const Finished run = RunSuite("0", {"--oracle", "127.0.0.1:1", "--native", "native-cpu"});
  EXPECT_EQ(run.exit_code, kExitUsage);
  EXPECT_THAT(run.err, HasSubstr("--native and --golden are for the local oracle"));
}

}  // namespace
}  // namespace qgpu
