// native-cuda on a real NVIDIA GPU: every kernel of the suites against plain C++, and how hardware answers what is
// wrong. Without a GPU nothing here is run, and each test says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/expected.h"
#include "kernels/suite.h"
#include "oracle/serve/engine_set.h"
#include "oracle/serve/engines.h"
#include "proto/convert.h"

namespace qgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OracleGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engines = EngineSet::Make(std::string(QGPU_BIN) + "/qgpu-oracle", {kEngineNativeCuda, ""});
    if (!engines.ok()) GTEST_SKIP() << engines.status().message();
    engines_ = *std::move(engines);
    const std::string witness = engines_->native().witness();
    if (witness.find("stand-in") != std::string::npos) GTEST_SKIP() << "not run: the driver is the " << witness;
    RecordProperty("device", witness);
  }
  v1::OracleResult Run(const LaunchSpec& spec, int64_t time_limit_ms = 10'000) {
    const auto reply = engines_->Run(kEngineNativeCuda, ToMessage(spec, time_limit_ms));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->result() : v1::OracleResult();
  }
  // One thread, one buffer %a of one word, 21.
  v1::OracleResult RunBody(const std::string& body, int64_t time_limit_ms = 10'000) {
    LaunchSpec spec;
    spec.source = {"t.ptx",
                   ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
                   ".reg .b64 %a; .reg .b32 %r; .reg .pred %q; ld.param.u64 %a, [p];\n" +
                       body + "\nret; }\n",
                   SourceLanguage::kPtx};
    spec.arguments = {KernelArgument::RawBuffer("", {21, 0, 0, 0})};
    return Run(spec, time_limit_ms);
  }
  std::unique_ptr<EngineSet> engines_;
};

TEST_F(OracleGpu, KernelsOfTheSuitesLeaveTheMemoryThatPlainCppDoes) {
  std::set<std::string> seen;
  const auto cases = EmbeddedCases();
  ASSERT_TRUE(cases.ok()) << cases.status();
  for (const KernelCase& one : *cases) {
    if (one.expect != KernelCase::Expect::kResult || !seen.insert(one.kernel).second) continue;
    const v1::OracleResult result = Run(one.spec);
    EXPECT_EQ(result.outcome(), v1::ORACLE_OUTCOME_DONE) << one.Id() << result.message();
    const auto expected = ExpectedMemory(one);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(MemoryImage(result.memory().begin(), result.memory().end()), *expected) << one.Id();
  }
  EXPECT_GE(seen.size(), 49u);
}

TEST_F(OracleGpu, WhatHardwareSaysOfWhatIsWrong) {
  EXPECT_THAT(RunBody("ld.global.u32 %r, [%a]; add.u32 %r, %r, %r; st.global.u32 [%a], %r;").memory(),
              ElementsAre(0, 42));
  const v1::OracleResult null = RunBody("mov.u64 %a, 0; st.global.u32 [%a], 1;");
  EXPECT_EQ(null.outcome(), v1::ORACLE_OUTCOME_TRAP) << null.message();
  EXPECT_THAT(null.message(), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  const v1::OracleResult odd = RunBody("st.global.u32 [%a+1], 1;");
  EXPECT_EQ(odd.outcome(), v1::ORACLE_OUTCOME_TRAP) << odd.message();
  EXPECT_THAT(odd.message(), HasSubstr("CUDA_ERROR_MISALIGNED_ADDRESS"));
  EXPECT_EQ(RunBody("trap;").outcome(), v1::ORACLE_OUTCOME_TRAP);
  EXPECT_THAT(RunBody("st.global.u32 [%a+500], 1;").message(), HasSubstr("wrote 1 at byte 504 of a memory of 504"));
  const v1::OracleResult broken = RunBody("frobnicate.u32 %r, %r;");
  EXPECT_EQ(broken.outcome(), v1::ORACLE_OUTCOME_REFUSED);
  EXPECT_THAT(broken.message(), HasSubstr("frobnicate"));
  const v1::OracleResult hanging =
      RunBody("loop: ld.volatile.global.u32 %r, [%a]; setp.ne.u32 %q, %r, 0; @%q bra loop;", 500);
  EXPECT_EQ(hanging.outcome(), v1::ORACLE_OUTCOME_TIMEOUT) << hanging.message();
}

}  // namespace
}  // namespace qgpu
