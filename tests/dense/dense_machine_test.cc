// The machine's circuit as dense and split models under libtorch: a handful of the suites' traces that together use
// every kind of operation (QGPU_ALL_TRACES=1: all of them) at every position, and free runs, in both data types.
#include <algorithm>

#include "gtest/gtest.h"
#include "model/base/random_base.h"
#include "model/forward/torch/torch_executor.h"
#include "model/launch/launch.h"
#include "model/weights/build_circuit.h"
#include "tests/dense/suite_traces.h"

namespace qgpu {
namespace {

struct Setting {
  ModelForm form;
  DataType type;
};

class Machine : public testing::TestWithParam<Setting> {
 protected:
  static void SetUpTestSuite() {
    const ModelShape base = EmbeddedBaseShape();
    circuit_ = new Circuit(BuildCircuit(static_cast<int>(base.hidden)).value().circuit);
    base_ = new std::string(EmbeddedBase(testing::TempDir() + "/qgpu_dense_test").value());
    traces_ = new std::vector<SuiteTrace>(ChosenTraces().value());
  }
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Executor>> made =
        MakeTorchExecutor(*circuit_, *base_, GetParam().form, GetParam().type);
    ASSERT_TRUE(made.ok()) << made.status();
    executor_ = *std::move(made);
  }
  static Circuit* circuit_;
  static std::string* base_;
  static std::vector<SuiteTrace>* traces_;
  std::unique_ptr<Executor> executor_;
};
Circuit* Machine::circuit_ = nullptr;
std::string* Machine::base_ = nullptr;
std::vector<SuiteTrace>* Machine::traces_ = nullptr;

INSTANTIATE_TEST_SUITE_P(Models, Machine,
                         testing::Values(Setting{ModelForm::kSplit, DataType::kFloat32},
                                         Setting{ModelForm::kSplit, DataType::kBFloat16},
                                         Setting{ModelForm::kDense, DataType::kFloat32},
                                         Setting{ModelForm::kDense, DataType::kBFloat16}),
                         [](const auto& info) {
                           return fmt::format("{}_{}", ModelFormName(info.param.form), DataTypeName(info.param.type));
                         });

// Prefill and free runs in one test, so that a setting's gigabytes are loaded once.
TEST_P(Machine, WritesTheTracesOfTheSuites) {
  ASSERT_FALSE(traces_->empty());
  for (const SuiteTrace& trace : *traces_) {
    SCOPED_TRACE(trace.Id());
    absl::StatusOr<CheckReport> forced = CheckTeacherForced(*executor_, trace.host, trace.trace);
    ASSERT_TRUE(forced.ok()) << forced.status();
    EXPECT_TRUE(forced->exact()) << FormatCheck(*forced);
    EXPECT_EQ(forced->positions_checked, static_cast<int64_t>(trace.trace.size()));
  }
  // On its own: the demo, and what ends soonest.
  const SuiteTrace shortest = *std::min_element(
      traces_->begin(), traces_->end(), [](const auto& a, const auto& b) { return a.trace.size() < b.trace.size(); });
  for (const SuiteTrace& trace : {DotDemo().value(), shortest}) {
    SCOPED_TRACE(trace.Id());
    absl::StatusOr<ModelRun> run =
        RunLaunch(*executor_, *circuit_, trace.host, static_cast<int64_t>(trace.trace.size()) + 10);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_TRUE(run->fault.ok()) << run->fault;
    const CheckReport report = CheckRun(trace.launch, *run);
    EXPECT_TRUE(report.exact()) << FormatCheck(report);
  }
}

}  // namespace
}  // namespace qgpu
