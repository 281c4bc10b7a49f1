#include "cli/doctor.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A machine of our own making: a folder with what the test puts there.
class DoctorTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/doctor's \xff machine";  // a quote, a blank and no UTF-8, as folders may have
    fs::remove_all(root_);
    fs::create_directories(root_ + "/bin");
    places_.search_path = root_ + "/nowhere:" + root_ + "/bin";
    places_.circuit = root_ + "/circuit.bin";
    places_.environment = root_ + "/venv";
    places_.cuda_driver = root_ + "/libcuda.so.1";
  }
  void TearDown() override { fs::remove_all(root_); }

  void AddProgram(const std::string& name, const std::string& output) {
    const std::string path = root_ + "/bin/" + name;
    std::ofstream(path) << "#!/bin/sh\necho '" << output << "'\n";
    chmod(path.c_str(), 0755);
  }
  Finding Look(const std::string& name) {
    for (const Finding& finding : Diagnose(places_)) {
      if (finding.name == name) return finding;
    }
    ADD_FAILURE() << "no finding called " << name;
    return {};
  }

  std::string root_;
  DoctorPlaces places_;
};

TEST_F(DoctorTest, AnEmptyMachineCannotRunAndSaysWhatToDo) {
  const auto findings = Diagnose(places_);
  EXPECT_FALSE(CanRun(findings));
  const std::string text = FormatFindings(findings);
  EXPECT_THAT(text, HasSubstr("MISSING  clang-19"));
  EXPECT_THAT(text, HasSubstr("remedy: apt-get install clang-19"));
  EXPECT_THAT(text, HasSubstr("MISSING  circuit"));
  EXPECT_THAT(text, HasSubstr("missing  CUDA driver"));
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.remedy.empty(), finding.state == Finding::State::kFound) << finding.name;
    EXPECT_FALSE(finding.detail.empty()) << finding.name;
  }
}

TEST_F(DoctorTest, FindsWhatIsThere) {
  AddProgram("clang-19", "Debian clang version 19.1.7");
  std::ofstream(places_.circuit) << "abc";
  fs::create_directories(places_.environment + "/lib/python3.11/site-packages/transformers-5.24.0.dist-info");
  EXPECT_TRUE(CanRun(Diagnose(places_)));
  EXPECT_THAT(Look("clang-19").detail, HasSubstr("Debian clang version 19.1.7 (" + root_ + "/bin/clang-19)"));
  EXPECT_THAT(Look("circuit").detail, HasSubstr("ba7816bf8f01cfea"));
  EXPECT_THAT(Look("python transformers").detail, HasSubstr("5.24.0 ("));
}

TEST_F(DoctorTest, SaysWhatTheCudaDriverFinds) {
  EXPECT_THAT(Look("CUDA driver").detail, HasSubstr("no CUDA driver: " + places_.cuda_driver));
  places_.cuda_driver = QGPU_STANDIN_CUDA;
  EXPECT_EQ(Look("CUDA driver").state, Finding::State::kFound);
  EXPECT_THAT(Look("CUDA driver").detail,
              HasSubstr("native-cuda runs on qgpu stand-in (native-cpu), compute capability 7.5, CUDA 12.4"));
  setenv("QGPU_STANDIN_DEVICES", "0", 1);
  EXPECT_EQ(Look("CUDA driver").state, Finding::State::kMissing);
  EXPECT_THAT(Look("CUDA driver").detail, HasSubstr("cuInit: CUDA_ERROR_NO_DEVICE (100)"));
  unsetenv("QGPU_STANDIN_DEVICES");
}

TEST_F(DoctorTest, AnotherClangIsNotClang19) {
  AddProgram("clang-19", "Debian clang version 14.0.6");
  EXPECT_EQ(Look("clang-19").state, Finding::State::kMissing);
}

TEST_F(DoctorTest, JsonSaysTheSame) {
  const auto findings = Diagnose(places_);
  const auto json = nlohmann::json::parse(FindingsToJson(findings));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["can_run"], false);
  ASSERT_EQ(json["findings"].size(), findings.size());
  EXPECT_EQ(json["findings"][1]["name"], "clang-19");
  EXPECT_EQ(json["findings"][1]["found"], false);
}

}  // namespace
}  // namespace qgpu
