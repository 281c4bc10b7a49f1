// The oracle with a CUDA device, which is the stand-in: what it answers, what it says it ran on, and what becomes of
// kernels and drivers that go wrong.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>

#include "common/file.h"
#include "kernels/expected.h"
#include "kernels/suite.h"
#include "oracle/serve/commands.h"
#include "oracle/serve/engine_set.h"
#include "oracle/serve/engines.h"
#include "oracle/serve/oracle_service.h"
#include "proto/channel.h"
#include "proto/convert.h"
#include "proto/server.h"
#include "qgpu/v1/oracle.grpc.pb.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const std::string kProgram = std::string(QGPU_BIN) + "/qgpu-oracle";
const std::string kStandIn = QGPU_STANDIN_CUDA;
constexpr char kDevice[] = "qgpu stand-in (native-cpu), compute capability 7.5, CUDA 12.4";

constexpr char kPtx[] = R"(.version 6.4
.target sm_75
.address_size 64
.visible .entry twice(.param .u64 p) {
.reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [p];
ld.global.u32 %r, [%a]; add.u32 %r, %r, %r; st.global.u32 [%a], %r; ret; }
.visible .entry forever(.param .u64 p) {
.reg .b64 %a; .reg .b32 %r; .reg .pred %q; ld.param.u64 %a, [p];
loop: ld.volatile.global.u32 %r, [%a]; setp.ne.u32 %q, %r, 0; @%q bra loop; ret; }
.visible .entry far(.param .u64 p) {
.reg .b64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a+100000000], 1; ret; }
)";

LaunchSpec PtxLaunch(const std::string& kernel, const std::string& ptx = kPtx) {
  LaunchSpec spec;
  spec.source = {"t.ptx", ptx, SourceLanguage::kPtx};
  spec.kernel = kernel;
  spec.arguments.resize(1);
  spec.arguments[0].kind = KernelArgument::Kind::kBuffer;
  spec.arguments[0].words = {21};
  return spec;
}

class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

class OracleCuda : public ::testing::Test {
 protected:
  // This process finds the stand-in because a library of that name is loaded, its children by the path.
  static void SetUpTestSuite() {
    ASSERT_NE(dlopen(kStandIn.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
    setenv("LD_LIBRARY_PATH", fs::path(kStandIn).parent_path().c_str(), 1);
  }
  static std::unique_ptr<EngineSet> Engines(const EngineChoice& choice = {}) {
    auto engines = EngineSet::Make(kProgram, choice);
    EXPECT_TRUE(engines.ok()) << engines.status();
    return engines.ok() ? *std::move(engines) : nullptr;
  }
  static v1::OracleResult Run(EngineSet& engines, const LaunchSpec& spec, int64_t time_limit_ms = 10'000) {
    const auto reply = engines.Run(engines.native().name(), ToMessage(spec, time_limit_ms));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->result() : v1::OracleResult();
  }
};

TEST_F(OracleCuda, AnswersWhereThereIsADeviceAndSaysWhich) {
  const auto engines = Engines();
  const auto service = MakeOracleService(*engines);
  auto server = RpcServer::Start({}, {service.get()});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::Oracle::NewStub(*OpenChannel((*server)->address(), {}, false));
  grpc::ClientContext describe, run;
  SetDeadline(describe, 10'000);
  v1::DescribeOracleReply description;
  ASSERT_TRUE(stub->Describe(&describe, {}, &description).ok());
  EXPECT_THAT(description.program().machine().accelerator(), StartsWith(std::string("native-cuda (") + kDevice));
  ASSERT_EQ(description.engines_size(), 3);
  EXPECT_EQ(description.engines(0).name(), kEngineNativeCuda);
  EXPECT_TRUE(description.engines(0).answers_native());
  EXPECT_EQ(description.engines(0).not_run(), "");

  SetDeadline(run, 30'000);
  const auto reader = stub->RunNative(&run, ToMessage(PtxLaunch("twice"), 10'000));
  v1::OracleRunReply reply;
  ASSERT_TRUE(reader->Read(&reply));
  const v1::OracleResult& result = reply.result();
  EXPECT_EQ(result.outcome(), v1::ORACLE_OUTCOME_DONE) << result.message();
  EXPECT_THAT(result.memory(), ElementsAre(0, 42));
  EXPECT_EQ(result.witness(),
            std::string("native-cuda (") + kDevice + ", SM 1000 MHz, memory 2000 MHz; PTX 6.4 for sm_75)");
  EXPECT_EQ(result.device().name(), "qgpu stand-in (native-cpu)");
  EXPECT_EQ(result.device().sm_clock_khz(), 1'000'000u);
  EXPECT_EQ(result.device().memory_clock_khz(), 2'000'000u);
  EXPECT_EQ(result.device().ptx_version(), "6.4");
}

TEST_F(OracleCuda, KernelsOfTheSuiteLeaveTheMemoryTheyShould) {
  const auto engines = Engines();
  std::set<std::string> kernels = {"vector_add", "dot",        "sum_shared",   "sum_shuffle",  "histogram",
                                   "matmul",     "atomic_max", "all_any_vote", "collatz_steps"};
  const auto cases = EmbeddedCases();
  ASSERT_TRUE(cases.ok()) << cases.status();
  for (const KernelCase& one : *cases) {
    if (one.expect != KernelCase::Expect::kResult || kernels.erase(one.kernel) == 0) continue;
    const v1::OracleResult result = Run(*engines, one.spec);
    EXPECT_EQ(result.outcome(), v1::ORACLE_OUTCOME_DONE) << one.Id() << result.message();
    const auto expected = ExpectedMemory(one);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(MemoryImage(result.memory().begin(), result.memory().end()), *expected) << one.Id();
  }
  EXPECT_THAT(kernels, IsEmpty());
}

TEST_F(OracleCuda, AKernelThatGoesWrongCostsItselfOnly) {
  const auto engines = Engines();
  const v1::OracleResult far = Run(*engines, PtxLaunch("far"));
  EXPECT_EQ(far.outcome(), v1::ORACLE_OUTCOME_TRAP);
  EXPECT_THAT(far.message(), HasSubstr("address out of range: CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_EQ(far.memory_size(), 0);
  EXPECT_THAT(far.witness(), HasSubstr("qgpu stand-in"));
  const v1::OracleResult broken =
      Run(*engines, PtxLaunch("k", std::string(kPtx) + ".entry k(.param .u64 p) { frobnicate.u32; }"));
  EXPECT_EQ(broken.outcome(), v1::ORACLE_OUTCOME_REFUSED);
  EXPECT_THAT(broken.message(), HasSubstr("CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: ptxas"));
  EXPECT_THAT(Run(*engines, PtxLaunch("twice")).memory(), ElementsAre(0, 42));
}

TEST_F(OracleCuda, AKernelThatNeverEndsCostsItsTimeLimit) {
  const auto engines = Engines();
  const auto start = std::chrono::steady_clock::now();
  const v1::OracleResult result = Run(*engines, PtxLaunch("forever"), 300);
  EXPECT_EQ(result.outcome(), v1::ORACLE_OUTCOME_TIMEOUT);
  EXPECT_THAT(result.message(), HasSubstr("the kernel still runs after 300 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_F(OracleCuda, ADriverThatHangsIsKilledAndOneThatCrashesIsNoted) {
  const auto engines = Engines();
  const LaunchSpec spec = PtxLaunch("twice");
  PtxSource source;
  source.ptx_name = "t.ptx";
  source.ptx = spec.source.text;
  source.entry = "twice";
  const v1::EngineJob job = MakeJob(kEngineNativeCuda, ToMessage(spec, 100), source);
  const auto start = std::chrono::steady_clock::now();
  {
    const Setting hang("QGPU_STANDIN_FAIL", "cuModuleLoadDataEx=hang");
    const auto reply = RunInChild(kProgram, job, 400);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->result().outcome(), v1::ORACLE_OUTCOME_TIMEOUT);
    EXPECT_THAT(reply->result().message(), HasSubstr("its process was killed after 500 ms"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD);
  const Setting crash("QGPU_STANDIN_FAIL", "cuMemAlloc_v2=abort");
  const auto reply = RunInChild(kProgram, job);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->result().outcome(), v1::ORACLE_OUTCOME_CRASH);
  EXPECT_THAT(reply->result().message(), HasSubstr("died of signal 6"));
}

TEST_F(OracleCuda, ADeviceThatFailsIsInfrastructure) {
  const auto engines = Engines();
  const auto status = [&engines] {
    return engines->Run(kEngineNativeCuda, ToMessage(PtxLaunch("twice"), 10'000)).status();
  };
  {
    const Setting fail("QGPU_STANDIN_FAIL", "cuMemAlloc_v2=2");
    EXPECT_EQ(status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(status().message(), HasSubstr("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"));
  }
  const Setting gone("QGPU_STANDIN_DEVICES", "0");
  EXPECT_EQ(status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status().message(), HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST_F(OracleCuda, WithoutADeviceItIsNotRunAndNativeCpuAnswers) {
  const Setting none("QGPU_STANDIN_DEVICES", "0");
  const auto engines = Engines();
  EXPECT_EQ(engines->native().name(), kEngineNativeCpu);
  EXPECT_THAT(engines->engines()[0].not_run(), HasSubstr("no CUDA device: cuInit: CUDA_ERROR_NO_DEVICE (100)"));
  const auto asked = engines->Run(kEngineNativeCuda, ToMessage(PtxLaunch("twice"), 10'000));
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->result().outcome(), v1::ORACLE_OUTCOME_NOT_RUN);
  EXPECT_EQ(asked->result().memory_size(), 0);
  EXPECT_THAT(Run(*engines, PtxLaunch("twice")).witness(), StartsWith("native-cpu ("));
  const auto refused = EngineSet::Make(kProgram, {kEngineNativeCuda, ""});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), HasSubstr("native-cuda: not run: no CUDA device"));
}

TEST_F(OracleCuda, NativeCpuCanBeChosenAllTheSame) {
  const auto engines = Engines({kEngineNativeCpu, ""});
  EXPECT_THAT(Run(*engines, PtxLaunch("twice")).witness(), StartsWith("native-cpu ("));
  EXPECT_FALSE(EngineSet::Make(kProgram, {kEngineGolden, ""}).ok());
  EXPECT_FALSE(EngineSet::Make(kProgram, {"abacus", ""}).ok());
}

// A suite of two kernels in a folder, one case of which goes wrong on a device.
class OracleGolden : public OracleCuda {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "oracle_golden";
    fs::create_directories(folder_);
    Write("t.ptx", kPtx);
    Write("good.json", Suite(""));
    Write("bad.json", Suite(R"(, {"kernel": "far", "source": "t.ptx", "cases": [
        {"name": "one", "launch": {"arguments": [{"words": [1]}]}},
        {"name": "trap", "expect": "trap", "launch": {"arguments": [{"words": [1]}]}}]})"));
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string Suite(const std::string& more) {
    return R"({"suite": "few", "version": 1, "sources": ".", "kernels": [
        {"kernel": "twice", "source": "t.ptx", "cases": [
          {"name": "one", "launch": {"token_budget": 7, "arguments": [{"words": [21], "output": true}]}},
          {"name": "two", "launch": {"arguments": [{"words": [-1, 5]}]}}]})" +
           more + "]}";
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(At(name), text).ok());
  }
  std::string At(const std::string& name) const { return folder_ / name; }

  fs::path folder_;
};

TEST_F(OracleGolden, RecordsWhatADeviceComputesAndAnswersWithoutOne) {
  const auto recorder = Engines({kEngineNativeCuda, ""});
  const auto recorded = RecordCommand(*recorder, LoadSuite(At("good.json")).value(), {"", At("golden.json"), 10});
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(*recorded, 0);

  const Setting none("QGPU_STANDIN_DEVICES", "0");
  const auto engines = Engines({"auto", At("golden.json")});
  EXPECT_EQ(engines->native().name(), kEngineGolden);
  const v1::OracleResult result = Run(*engines, PtxLaunch("twice"));
  EXPECT_EQ(result.outcome(), v1::ORACLE_OUTCOME_DONE) << result.message();
  EXPECT_THAT(result.memory(), ElementsAre(0, 42));
  EXPECT_THAT(result.witness(), StartsWith("golden (recorded 2"));
  EXPECT_THAT(result.witness(), HasSubstr(std::string("on ") + kDevice));  // never taken for a GPU
  EXPECT_EQ(result.device().name(), "qgpu stand-in (native-cpu)");
  EXPECT_EQ(result.device().ptx_version(), "6.4");

  LaunchSpec other = PtxLaunch("twice");
  other.arguments[0].words[0] = 22;
  for (const LaunchSpec& spec : {other, PtxLaunch("far"), PtxLaunch("twice", std::string(kPtx) + "\n")}) {
    const v1::OracleResult missing = Run(*engines, spec);
    EXPECT_EQ(missing.outcome(), v1::ORACLE_OUTCOME_NOT_RUN);
    EXPECT_THAT(missing.message(), HasSubstr("not in the golden file " + At("golden.json")));
    EXPECT_EQ(missing.memory_size(), 0);
  }
}

TEST_F(OracleGolden, LeavesOutWhatDoesNotEndWell) {
  const auto recorder = Engines({kEngineNativeCuda, ""});
  const auto recorded = RecordCommand(*recorder, LoadSuite(At("bad.json")).value(), {"", At("golden.json"), 10});
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  EXPECT_EQ(*recorded, 1);
  const auto golden = GoldenAnswers::Read(At("golden.json"));
  ASSERT_TRUE(golden.ok()) << golden.status();
  ASSERT_EQ(golden->file().results.size(), 2u);
  EXPECT_EQ(golden->file().suite, "few");
  EXPECT_EQ(golden->file().results[1].case_id, "twice/two");
  EXPECT_THAT(golden->file().results[1].memory, ElementsAre(0, static_cast<uint32_t>(-2), 5));
  EXPECT_EQ(golden->file().device.name, "qgpu stand-in (native-cpu)");
}

TEST_F(OracleGolden, ADamagedFileIsRefusedAtTheStart) {
  Write("golden.json", "{}");
  EXPECT_EQ(EngineSet::Make(kProgram, {"auto", At("golden.json")}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EngineSet::Make(kProgram, {"auto", At("missing.json")}).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace qgpu
