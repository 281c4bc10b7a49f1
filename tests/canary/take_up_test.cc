// Which runs of the store can be gone on with, and what a refusal names.
#include "coordinator/run/take_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/exit_code.h"
#include "coordinator/run/run_suite.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

class TakeUpTest : public ::testing::Test {
 public:
  void SetUp() override {
    stored_.run.id = 3;
    stored_.run.state = "running";
    stored_.run.suites = {{"kernels", "hash1", SuiteKind::kKernels}};
    stored_.run.manifest = {{kReplaySetting, "yes"}};
    for (const char* name : {"demo", "small"}) {
      ItemRow& item = stored_.items.emplace_back();
      item.suite = "kernels";
      item.kernel = "dot";
      item.case_name = name;
      item.case_hash = fmt::format("hash of {}", name);
      item.worker = "local";
      items_.push_back({{SuiteKind::kKernels, "kernels", "dot", name, item.case_hash}, "local", 1});
    }
    for (const char* role : {"coordinator", "oracle", "worker"}) {
      NodeRow& node = nodes_.emplace_back();
      node.role = role;
      node.name = "local";
      node.program = "qgpu";
      node.commit = "abc";
    }
    nodes_[2].circuit_sha256 = "c1";
    nodes_[2].base = "embedded";
    nodes_[2].form = "split";
    stored_.nodes = nodes_;
    asked_ = stored_.run;
  }
  std::string Refusal() {
    const absl::Status status = CheckSameRun(stored_, asked_, items_, nodes_);
    if (status.ok()) return "";
    EXPECT_EQ(ExitCodeFor(status), kExitUsage);
    return std::string(status.message());
  }

  RunReport stored_;
  RunRow asked_;
  std::vector<PlannedItem> items_;
  std::vector<NodeRow> nodes_;
};

TEST_F(TakeUpTest, RunsThatDidNotFinishAreTakenUpAsTheyWereStarted) {
  EXPECT_EQ(Refusal(), "");
  stored_.run.state = "interrupted";
  EXPECT_EQ(Refusal(), "");
  nodes_[2].address = "127.0.0.1:99";  // any free port
  EXPECT_EQ(Refusal(), "");
  stored_.run.state = "finished";
  EXPECT_THAT(Refusal(), HasSubstr("run 3 is finished"));
}

TEST_F(TakeUpTest, OtherSuitesSettingsAndItemsAreRefusedByName) {
  const std::pair<std::function<void(TakeUpTest&)>, const char*> changes[] = {
      {[](TakeUpTest& t) { t.asked_.suites[0].name = "extra"; }, "its suites are kernels, here extra"},
      {[](TakeUpTest& t) { t.asked_.suites[0].hash = "hash2"; },
       "the suite kernels has another content: hash hash1 then, hash2 now"},
      {[](TakeUpTest& t) { t.asked_.repetitions = 2; }, "repetitions: 1 then, 2 now"},
      {[](TakeUpTest& t) { t.asked_.quick = true; }, "--quick: not given then, given now"},
      {[](TakeUpTest& t) { t.asked_.manifest[0].second = "no"; }, "replay of every position: yes then, no now"},
      {[](TakeUpTest& t) { t.items_.pop_back(); }, "it has 2 items, here 1 are selected"},
      {[](TakeUpTest& t) { t.items_[1].name.name = "large"; },
       "its item 2 is kernels dot/small on local, repetition 1, here kernels dot/large"},
      {[](TakeUpTest& t) { t.items_[0].worker = "b:1"; }, "here kernels dot/demo on b:1"},
      {[](TakeUpTest& t) { t.items_[0].name.hash = "other"; }, "the case dot/demo has another content"},
      {[](TakeUpTest& t) { t.nodes_[0].commit = "def"; },
       "this coordinator has another build: qgpu , commit abc,  then, qgpu , commit def,  now"},
      {[](TakeUpTest& t) { t.nodes_[1].version = "0.2.0"; }, "oracle local has another build"},
      {[](TakeUpTest& t) { t.nodes_[2].circuit_sha256 = "c2"; }, "worker local has another circuit: c1 then, c2 now"},
      {[](TakeUpTest& t) { t.nodes_[2].base = "Qwen"; }, "worker local has another base: embedded then, Qwen now"},
      {[](TakeUpTest& t) { t.nodes_[2].form = "dense"; }, "worker local has another form: split then, dense now"},
      {[](TakeUpTest& t) { t.nodes_[2].name = "b:1"; }, "the worker local takes no part here"}};
  for (const auto& [change, message] : changes) {
    TakeUpTest::SetUp();
    change(*this);
    EXPECT_THAT(Refusal(), HasSubstr(message));
    stored_ = {};
    items_.clear();
    nodes_.clear();
  }
}

TEST_F(TakeUpTest, AttemptsAreNumberedBehindTheLargest) {
  EXPECT_EQ(NextAttempt(stored_), 1);
  stored_.items[0].attempts.resize(2);
  stored_.items[0].attempts[0].id = "3-17";
  stored_.items[0].attempts[1].id = "3-4";
  EXPECT_EQ(NextAttempt(stored_), 18);
}

class NamedCase : public SuiteCase {
 public:
  using SuiteCase::SuiteCase;
  int64_t attempt_limit_ms() const override { return 1; }
  absl::StatusOr<std::shared_ptr<const PreparedCase>> Prepare(const CaseTools&) const override {
    return SettledCase({});
  }
};

// Kernels repeat as a suite, so that times spread; drift repeats by probe, so that its models are loaded once.
TEST(OrderItemsTest, KernelsByRepetitionDriftByProbe) {
  std::vector<std::shared_ptr<const SuiteCase>> cases;
  const auto add = [&cases](SuiteKind kind, const char* suite, const char* group, const char* name) {
    cases.push_back(std::make_shared<NamedCase>(CaseName{kind, suite, group, name, ""}));
  };
  add(SuiteKind::kKernels, "kernels", "dot", "demo");
  add(SuiteKind::kKernels, "kernels", "gcd", "small");
  add(SuiteKind::kDrift, "drift", "split", "prose");
  add(SuiteKind::kDrift, "drift", "split", "code");
  add(SuiteKind::kDrift, "drift", "dense", "prose");
  std::string order;
  for (const WorkItem& item : OrderItems(cases, 2, 2)) {
    order += fmt::format("{}{}{} ", item.case_index, "ab"[item.worker], item.repetition);
  }
  EXPECT_EQ(order, "0a1 0b1 1a1 1b1 0a2 0b2 1a2 1b2 2a1 2b1 3a1 3b1 2a2 2b2 3a2 3b2 4a1 4b1 4a2 4b2 ");
}

}  // namespace
}  // namespace qgpu
