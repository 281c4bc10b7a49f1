// Who may use whom, as docs/ARCHITECTURE.md says: in the includes, and in what CMake links.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/link_rules/include_graph.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const std::vector<std::string> kParts = {"bench",   "cli",   "common", "coordinator", "evals",   "kernels", "lowering",
                                         "machine", "model", "oracle", "proto",       "reports", "tests",   "worker"};

class LinkRules : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> parts;
    for (const std::string& part : kParts) {
      if (fs::exists(fs::path(QGPU_SOURCE_DIR) / part)) parts.push_back(part);
    }
    auto graph = IncludeGraph::Read(QGPU_SOURCE_DIR, parts);
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
    ASSERT_GT(graph_.Files().size(), 30u);
  }
  IncludeGraph graph_;
};

TEST_F(LinkRules, CommonHasNothingOfOursBelowIt) {
  std::vector<std::string> others;
  for (const std::string& part : kParts) {
    if (part != "common") others.push_back(part + "/");
  }
  EXPECT_THAT(Violations(graph_, "common/", others), IsEmpty());
}

TEST_F(LinkRules, TheMachineKnowsNeitherModelNorLowering) {
  EXPECT_THAT(Violations(graph_, "machine/", {"model/", "lowering/", "oracle/", "worker/", "coordinator/", "cli/"}),
              IsEmpty());
}

TEST_F(LinkRules, TheModelTakesNothingFromTheInterpreterToCompute) {
  for (const char* part : {"model/netlist/", "model/schedule/", "model/weights/", "model/forward/", "model/base/"}) {
    std::vector<std::string> violations;
    for (const std::string& violation : Violations(graph_, part, {"machine/interpreter/", "oracle/", "lowering/"})) {
      const bool in_test = violation.find("_test.cc > ") != std::string::npos;
      if (!in_test) violations.push_back(violation);
    }
    EXPECT_THAT(violations, IsEmpty()) << part;
  }
}

TEST_F(LinkRules, TheTextSideKnowsOnlyFilesOfABase) {
  EXPECT_THAT(Violations(graph_, "model/text/",
                         {"machine/", "kernels/", "lowering/", "oracle/", "model/netlist/", "model/schedule/",
                          "model/weights/", "model/forward/", "model/launch/", "model/merge/"}),
              IsEmpty());
}

TEST_F(LinkRules, WhatWritesTextKnowsTheModelOnlyAsATextModel) {
  EXPECT_THAT(
      Violations(graph_, "model/generate/",
                 {"machine/", "kernels/", "lowering/", "oracle/", "model/netlist/", "model/schedule/", "model/weights/",
                  "model/forward/sparse/", "model/forward/torch/", "model/launch/", "model/merge/"}),
      IsEmpty());
}

TEST_F(LinkRules, NativeEnginesShareOnlyThePtxSyntaxWithTheMachine) {
  std::vector<std::string> violations;
  for (const char* part : {"oracle/arguments/", "oracle/native_cpu/", "oracle/native_cuda/", "oracle/golden/"}) {
    for (const std::string& violation : Violations(
             graph_, part, {"model/", "machine/interpreter/", "lowering/ptx_to_blocks/", "lowering/compile.h"})) {
      violations.push_back(violation);
    }
  }
  EXPECT_THAT(violations, IsEmpty());
}

// The stand-in is the one place where they meet, and no part of the engine.
TEST_F(LinkRules, NativeCudaKnowsNothingOfNativeCpu) {
  int in_standin = 0;
  for (const std::string& violation : Violations(graph_, "oracle/native_cuda/", {"oracle/native_cpu/"})) {
    const bool is_standin = violation.rfind("oracle/native_cuda/standin/", 0) == 0;
    in_standin += is_standin;
    EXPECT_TRUE(is_standin) << violation;
  }
  EXPECT_GT(in_standin, 0);
  EXPECT_THAT(Violations(graph_, "oracle/native_cpu/", {"oracle/native_cuda/"}), IsEmpty());
}

TEST_F(LinkRules, TheOracleNeverUsesTheModel) { EXPECT_THAT(Violations(graph_, "oracle/", {"model/"}), IsEmpty()); }

TEST_F(LinkRules, NoFileSeesTorchAndProtobuf) { EXPECT_THAT(TorchWithProtobuf(graph_), IsEmpty()); }

// What CMake links, written when the tree was configured: one target a line, "target: closure".
std::set<std::string> LinkClosure(const std::string& target) {
  const auto text = ReadFile(QGPU_LINK_CLOSURES);
  EXPECT_TRUE(text.ok()) << text.status();
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(target + ":", 0) != 0) continue;
    std::istringstream words(line.substr(target.size() + 1));
    std::set<std::string> closure;
    for (std::string word; words >> word;) closure.insert(word);
    return closure;
  }
  ADD_FAILURE() << "no target " << target;
  return {};
}

bool Links(const std::set<std::string>& closure, const std::string& prefix) {
  const auto found = closure.lower_bound(prefix);
  return found != closure.end() && found->rfind(prefix, 0) == 0;
}

TEST(LinkClosure, NativeCpuLinksNeitherInterpreterNorLoweringNorModel) {
  const std::set<std::string> closure = LinkClosure("qgpu_native_cpu");
  EXPECT_TRUE(Links(closure, "qgpu_ptx"));  // the syntax parser, which is shared
  for (const char* forbidden :
       {"qgpu_interpreter", "qgpu_ptx_to_blocks", "qgpu_compile", "qgpu_circuit", "qgpu_forward", "qgpu_netlist",
        "qgpu_schedule", "qgpu_weights", "qgpu_model", "qgpu_torch_sdk"}) {
    EXPECT_FALSE(Links(closure, forbidden)) << forbidden;
  }
}

TEST(LinkClosure, NativeCudaLinksNothingThatRunsKernelsItself) {
  const std::set<std::string> closure = LinkClosure("qgpu_native_cuda");
  EXPECT_TRUE(Links(closure, "qgpu_ptx"));
  for (const char* forbidden :
       {"qgpu_native_cpu", "qgpu_llvm_sdk", "qgpu_standin", "qgpu_interpreter", "qgpu_ptx_to_blocks", "qgpu_compile",
        "qgpu_lowering", "qgpu_circuit", "qgpu_forward", "qgpu_netlist", "qgpu_schedule", "qgpu_weights", "qgpu_model",
        "qgpu_torch_sdk", "cuda"}) {
    EXPECT_FALSE(Links(closure, forbidden)) << forbidden;
  }
}

TEST(LinkClosure, TheOracleProgramLinksNoModelAndNoStandIn) {
  const std::set<std::string> closure = LinkClosure("qgpu-oracle");
  EXPECT_TRUE(Links(closure, "qgpu_native_cuda"));
  EXPECT_FALSE(Links(closure, "qgpu_standin"));
  EXPECT_TRUE(Links(closure, "qgpu_native_cpu"));
  for (const char* forbidden : {"qgpu_circuit", "qgpu_forward", "qgpu_netlist", "qgpu_schedule", "qgpu_weights",
                                "qgpu_model", "qgpu_torch_sdk"}) {
    EXPECT_FALSE(Links(closure, forbidden)) << forbidden;
  }
}

// The rules can fail: a tree of our own that breaks them.
TEST(IncludeGraph, FindsViolationsThroughHeaders) {
  const fs::path root = fs::path(testing::TempDir()) / "include_graph_test";
  fs::remove_all(root);
  fs::create_directories(root / "oracle");
  fs::create_directories(root / "model");
  std::ofstream(root / "oracle/a.cc") << "#include <vector>\n  #  include \"oracle/b.h\"\n// #include \"model/no.h\"\n";
  std::ofstream(root / "oracle/b.h") << "#include \"model/c.h\"\n#include \"oracle/b.h\"\n";
  std::ofstream(root / "model/c.h") << "#include \"torch/torch.h\"\n";
  std::ofstream(root / "model/d.cc") << "#include \"model/c.h\"\n#include \"proto/x.pb.h\"\n";
  const auto graph = IncludeGraph::Read(root, {"oracle", "model"});
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(Violations(*graph, "oracle/", {"model/"}),
              ElementsAre("oracle/a.cc > oracle/b.h > model/c.h", "oracle/b.h > model/c.h"));
  EXPECT_THAT(TorchWithProtobuf(*graph),
              ElementsAre("model/d.cc > model/c.h > torch/torch.h and model/d.cc > proto/x.pb.h"));
  EXPECT_THAT(Violations(*graph, "model/", {"oracle/"}), IsEmpty());
  EXPECT_THAT(IncludeGraph::Read(root, {"nowhere"}).status().code(), absl::StatusCode::kNotFound);
  fs::remove_all(root);
}

}  // namespace
}  // namespace qgpu
