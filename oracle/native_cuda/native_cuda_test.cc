// The engine against the stand-in driver. Runs that leave a dead context happen in a process of their own, as they do
// in the oracle: EXPECT_EXIT makes one.
#include "oracle/native_cuda/native_cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace qgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

constexpr char kHeader[] = ".version 6.4\n.target sm_75\n.address_size 64\n";

// A kernel of two buffers and a word: %in, %out, %n, %t its thread, and %o the address of its own word of `out`.
std::string KernelPtx(const std::string& body, const std::string& before = "") {
  return kHeader + before + R"(
.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)
{
.reg .b64 %in, %out, %o, %rd<20>;
.reg .b32 %n, %t, %r<20>;
.reg .pred %p<8>;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
ld.param.u32 %n, [n];
mov.u32 %t, %tid.x;
mul.wide.u32 %rd0, %t, 4;
add.u64 %o, %out, %rd0;
)" + body +
         "\nret;\n}\n";
}

KernelArgument Buffer(std::vector<uint32_t> words) {
  KernelArgument argument;
  argument.kind = KernelArgument::Kind::kBuffer;
  argument.words = std::move(words);
  return argument;
}
KernelArgument Scalar(int64_t value) {
  KernelArgument argument;
  argument.scalar = static_cast<uint64_t>(value);
  return argument;
}

LaunchSpec Launch(uint32_t threads = 1, std::vector<uint32_t> in = {7}, size_t out_words = 1, uint32_t n = 0) {
  LaunchSpec spec;
  spec.block.x = threads;
  spec.arguments = {Buffer(std::move(in)), Buffer(std::vector<uint32_t>(out_words)), Scalar(n)};
  return spec;
}

absl::StatusOr<NativeCudaRun> RunPtx(const std::string& ptx, const LaunchSpec& spec, int64_t wall_ms = 10'000,
                                     const std::string& entry = "") {
  return RunNativeCuda("k.ptx", ptx, entry, spec, {}, {QGPU_STANDIN_CUDA, wall_ms});
}

// The memory after a run that must succeed.
MemoryImage Memory(const std::string& ptx, const LaunchSpec& spec, const std::string& entry = "") {
  const auto run = RunPtx(ptx, spec, 10'000, entry);
  EXPECT_TRUE(run.ok()) << run.status();
  if (!run.ok()) return {};
  EXPECT_EQ(run->end, CudaEnd::kDone) << run->message;
  return run->memory;
}

absl::Status Refusal(const std::string& ptx, const LaunchSpec& spec, const std::string& entry = "") {
  const auto run = RunPtx(ptx, spec, 10'000, entry);
  EXPECT_FALSE(run.ok());
  return run.status();
}

// An environment variable, while in scope.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

// For EXPECT_EXIT: runs, says on stderr how it ended, and ends the process at once.
[[noreturn]] void RunAndExit(const std::string& ptx, const LaunchSpec& spec, int64_t wall_ms = 10'000) {
  const auto run = RunPtx(ptx, spec, wall_ms);
  if (!run.ok()) {
    fmt::print(stderr, "status {}\n", run.status().ToString());
  } else {
    fmt::print(stderr, "end {}, {} words: {}\n", static_cast<int>(run->end), run->memory.size(), run->message);
  }
  std::fflush(stderr);
  _exit(0);
}
std::string Ended(CudaEnd end, const std::string& message) {
  return fmt::format("end {}, 0 words: {}", static_cast<int>(end), message);
}

TEST(NativeCuda, WithoutADriverItIsNotRun) {
  const auto missing = RunNativeCuda("k.ptx", KernelPtx(""), "", Launch(), {}, {"/no/such/libcuda.so.1", 1000});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(missing.status().message(), HasSubstr("/no/such/libcuda.so.1"));
  const auto other = CudaDriver::Load("libm.so.6");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(other.status().message(), HasSubstr("libm.so.6 has no cuInit"));
}

TEST(NativeCuda, WithoutADeviceItIsNotRun) {
  const Setting none("QGPU_STANDIN_DEVICES", "0");
  const absl::Status status = Refusal(KernelPtx(""), Launch());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("no CUDA device: cuInit: CUDA_ERROR_NO_DEVICE (100)"));
}

TEST(NativeCuda, ADriverThatDoesNotStartIsNotRun) {
  const Setting fail("QGPU_STANDIN_FAIL", "cuInit=999");
  const absl::Status status = Refusal(KernelPtx(""), Launch());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("cuInit: CUDA error (999)"));
}

TEST(NativeCuda, SaysWhatItRanOn) {
  const auto run = RunPtx(KernelPtx(""), Launch());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->device.name, "qgpu stand-in (native-cpu)");
  EXPECT_EQ(run->device.compute_capability, "7.5");
  EXPECT_EQ(run->device.cuda_version, "12.4");
  EXPECT_EQ(run->device.multiprocessors, 1);
  EXPECT_EQ(run->device.sm_clock_khz, 1'000'000);
  EXPECT_EQ(run->device.memory_clock_khz, 2'000'000);
  EXPECT_EQ(run->ptx_version, "6.4");
  EXPECT_EQ(run->target, "sm_75");
  CudaDevice device = {"Tesla T4", "7.5", "12.4", "550.54.15", 40, 1'590'000, 5'001'000};
  EXPECT_EQ(Describe(device),
            "Tesla T4, compute capability 7.5, driver 550.54.15, CUDA 12.4, SM 1590 MHz, memory 5001 MHz");
}

TEST(NativeCuda, GivesTheWholeMemory) {
  EXPECT_THAT(Memory(KernelPtx("ld.global.u32 %r1, [%in]; add.u32 %r1, %r1, %t; add.u32 %r1, %r1, %n;"
                               "st.global.u32 [%o], %r1;"),
                     Launch(3, {40, 41}, 4, 100)),
              ElementsAre(0, 40, 41, 140, 141, 142, 0));
}

TEST(NativeCuda, BuffersLieAsInTheArena) {
  LaunchSpec spec = Launch(1, {1, 2, 3}, 2);
  // Low byte of `in`'s address: the arena begins at a multiple of 256. Then the distance between the buffers.
  EXPECT_THAT(Memory(KernelPtx("cvt.u32.u64 %r1, %in; and.b32 %r1, %r1, 255; st.global.u32 [%out], %r1;"
                               "sub.u64 %rd1, %out, %in; cvt.u32.u64 %r2, %rd1; st.global.u32 [%out+4], %r2;"),
                     spec),
              ElementsAre(0, 1, 2, 3, 4, 12));
  spec.arguments[0].words.clear();  // an empty buffer points at where it would start
  EXPECT_THAT(Memory(KernelPtx("sub.u64 %rd1, %out, %in; cvt.u32.u64 %r2, %rd1; st.global.u32 [%out+4], %r2;"), spec),
              ElementsAre(0, 0, 0));
}

TEST(NativeCuda, ScalarsOfAllSizes) {
  constexpr char kBody[] = R"(
{
.reg .b64 %out, %rd<3>; .reg .b32 %r<8>; .reg .b16 %h<4>;
ld.param.u64 %out, [out];
ld.param.s8 %r1, [a]; st.global.u32 [%out], %r1;
ld.param.s16 %r2, [b]; st.global.u32 [%out+4], %r2;
ld.param.u32 %r3, [c]; st.global.u32 [%out+8], %r3;
ld.param.u64 %rd1, [d]; cvt.u32.u64 %r4, %rd1; shr.u64 %rd2, %rd1, 32; cvt.u32.u64 %r5, %rd2;
st.global.u32 [%out+12], %r4; st.global.u32 [%out+16], %r5;
ld.param.u8 %r6, [e]; st.global.u32 [%out+20], %r6;
ret;
})";
  const std::string ptx =
      std::string(kHeader) +
      ".visible .entry k(.param .u8 a, .param .u64 out, .param .u16 b, .param .u32 c, .param .u64 d, .param .u8 e)" +
      kBody;
  LaunchSpec spec;
  spec.arguments = {Scalar(-3),         Buffer(std::vector<uint32_t>(6)), Scalar(-300),
                    Scalar(0xdeadbeef), Scalar(0x123456789abcdef0),       Scalar(200)};
  EXPECT_THAT(Memory(ptx, spec),
              ElementsAre(0, 0xfffffffdu, static_cast<uint32_t>(-300), 0xdeadbeefu, 0x9abcdef0u, 0x12345678u, 200));
  spec.arguments[0] = Scalar(256);
  EXPECT_THAT(Refusal(ptx, spec).message(), HasSubstr("a: 256 does not fit the 1 bytes of the kernel's parameter"));
  spec.arguments[0] = Buffer({1});
  EXPECT_THAT(Refusal(ptx, spec).message(), HasSubstr("is a buffer, but the parameter a has 1 bytes"));
}

TEST(NativeCuda, StructsByValue) {
  const std::string ptx = std::string(kHeader) +
                          ".visible .entry k(.param .u64 out, .param .align 4 .b8 s[12], .param .u32 p) {"
                          ".reg .b64 %out; .reg .b32 %r<3>; ld.param.u64 %out, [out];"
                          "ld.param.u32 %r1, [s+8]; st.global.u32 [%out], %r1;"
                          "ld.param.u8 %r2, [s+3]; st.global.u32 [%out+4], %r2; ret; }";
  LaunchSpec spec;
  spec.arguments = {Buffer({0, 0}), KernelArgument::RawValue("", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), Scalar(1)};
  EXPECT_THAT(Memory(ptx, spec), ElementsAre(0, 0x0c0b0a09, 4));
  spec.arguments[2] = Buffer({1});
  EXPECT_THAT(Refusal(ptx, spec).message(), HasSubstr("argument 2 is a buffer, but the parameter p has 4 bytes"));
}

TEST(NativeCuda, ArgumentsByName) {
  LaunchSpec spec = Launch(1, {5}, 1, 0);
  spec.arguments[0].name = "x";
  spec.arguments[1].name = "y";
  std::swap(spec.arguments[0], spec.arguments[1]);
  const auto run = RunNativeCuda("k.ptx", KernelPtx("ld.global.u32 %r1, [%in]; st.global.u32 [%out], %r1;"), "k", spec,
                                 {"x", "y", "n"}, {QGPU_STANDIN_CUDA, 1000});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->memory, ElementsAre(0, 5, 5));
}

// Reversed through dynamic shared memory; the last word of it is used as well.
TEST(NativeCuda, DynamicSharedMemory) {
  const std::string ptx = KernelPtx(R"(
mov.u64 %rd1, buffer; mul.wide.u32 %rd2, %t, 4; add.u64 %rd2, %rd1, %rd2;
st.shared.u32 [%rd2], %t; bar.sync 0;
sub.u32 %r1, 3, %t; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd3, %rd1, %rd3; ld.shared.u32 %r2, [%rd3];
cvt.u64.u32 %rd4, %n; add.u64 %rd4, %rd1, %rd4; st.shared.u32 [%rd4], %r2;
st.global.u32 [%o], %r2;)",
                                    ".extern .shared .align 4 .b8 buffer[];\n");
  for (const uint32_t bytes : {20u, 48u << 10, 60u << 10}) {
    LaunchSpec spec = Launch(4, {}, 4, bytes - 4);
    spec.dynamic_shared_bytes = bytes;
    EXPECT_THAT(Memory(ptx, spec), ElementsAre(0, 3, 2, 1, 0)) << bytes;
  }
  LaunchSpec spec = Launch(4, {}, 4);
  spec.dynamic_shared_bytes = 100 << 10;
  EXPECT_THAT(Refusal(ptx, spec).message(), HasSubstr("102400 bytes of shared memory, the limit is 65536"));
}

TEST(NativeCuda, SeveralKernelsAndNoParameters) {
  const std::string ptx = std::string(kHeader) + ".visible .entry nothing() { ret; }\n" +
                          ".visible .entry one(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; "
                          "st.global.u32 [%a], 1; ret; }\n";
  LaunchSpec spec;
  EXPECT_THAT(Memory(ptx, spec, "nothing"), ElementsAre(0));
  spec.arguments = {Buffer({9})};
  EXPECT_THAT(Memory(ptx, spec, "one"), ElementsAre(0, 1));
  EXPECT_THAT(Refusal(ptx, spec, "two").message(), HasSubstr("two"));
  EXPECT_EQ(Refusal(ptx, spec).code(), absl::StatusCode::kInvalidArgument);
}

TEST(NativeCuda, TheDriversCompilerIsQuoted) {
  const absl::Status status = Refusal(KernelPtx("frobnicate.u32 %r1, %r2;"), Launch());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("k.ptx: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: "
                                          "ptxas application ptx input:"));
  EXPECT_THAT(status.message(), HasSubstr("frobnicate"));
  for (const char* fail : {"cuModuleLoadDataEx=302", "cuModuleLoadDataEx=200", "cuModuleGetFunction=500"}) {
    const Setting setting("QGPU_STANDIN_FAIL", fail);
    EXPECT_EQ(Refusal(KernelPtx(""), Launch()).code(), absl::StatusCode::kInvalidArgument) << fail;
  }
  for (const char* fail : {"cuModuleLoadDataEx=222", "cuModuleLoadDataEx=209"}) {
    const Setting setting("QGPU_STANDIN_FAIL", fail);
    const absl::Status old = Refusal(KernelPtx(""), Launch());
    EXPECT_EQ(old.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(old.message(), HasSubstr("PTX 6.4 for sm_75, the device is qgpu stand-in"));
  }
  EXPECT_THAT(Refusal(KernelPtx("") + std::string("//\0", 3), Launch()).message(), HasSubstr("NUL"));
  EXPECT_EQ(Refusal(".version 6.4\n.target sm_75\n.address_size 32\n.entry k() { ret; }", LaunchSpec()).code(),
            absl::StatusCode::kUnimplemented);
}

TEST(NativeCuda, ShapesThatDoNotFitAreRefused) {
  LaunchSpec spec = Launch(1025);
  EXPECT_THAT(Refusal(KernelPtx(""), spec).message(), HasSubstr("at most 1024 threads"));
  spec = Launch();
  spec.block.z = 65;
  EXPECT_THAT(Refusal(KernelPtx(""), spec).message(), HasSubstr("1024 x 1024 x 64"));
  spec = Launch();
  spec.grid.y = 65536;
  EXPECT_THAT(Refusal(KernelPtx(""), spec).message(), HasSubstr("2147483647 x 65535 x 65535"));
  spec.grid.y = 0;
  EXPECT_EQ(Refusal(KernelPtx(""), spec).code(), absl::StatusCode::kInvalidArgument);
  const Setting fail("QGPU_STANDIN_FAIL", "cuLaunchKernel=701");
  EXPECT_THAT(Refusal(KernelPtx(""), Launch()).message(), HasSubstr("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
}

TEST(NativeCuda, AFailingDeviceIsNoVerdictOnTheKernel) {
  for (const char* call :
       {"cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuModuleLoadDataEx", "cuMemAlloc_v2", "cuMemcpyHtoD_v2",
        "cuLaunchKernel", "cuStreamQuery", "cuCtxSynchronize", "cuMemcpyDtoH_v2"}) {
    const Setting fail("QGPU_STANDIN_FAIL", (std::string(call) + "=2").c_str());
    const absl::Status status = Refusal(KernelPtx(""), Launch());
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << call << status;
    EXPECT_THAT(status.message(), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"));
  }
  const Setting fail("QGPU_STANDIN_FAIL", "cuDevicePrimaryCtxRetain=46");
  EXPECT_THAT(Refusal(KernelPtx(""), Launch()).message(), HasSubstr("nvidia-smi -c DEFAULT"));
}

TEST(NativeCudaDeathTest, WhatGoesWrongInAKernel) {
  EXPECT_EXIT(RunAndExit(KernelPtx("mov.u64 %rd1, 0; st.global.u32 [%rd1], 1;"), Launch()), ExitedWithCode(0),
              Ended(CudaEnd::kOutOfRange, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EXIT(RunAndExit(KernelPtx("ld.global.u32 %r1, [%out+1000000];"), Launch()), ExitedWithCode(0),
              Ended(CudaEnd::kOutOfRange, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EXIT(RunAndExit(KernelPtx("ld.global.u32 %r1, [%in+2]; st.global.u32 [%o], %r1;"), Launch()),
              ExitedWithCode(0), Ended(CudaEnd::kMisaligned, "CUDA_ERROR_MISALIGNED_ADDRESS"));
  EXPECT_EXIT(RunAndExit(KernelPtx("trap;"), Launch()), ExitedWithCode(0),
              Ended(CudaEnd::kTrap, "CUDA_ERROR_LAUNCH_FAILED"));
}

// The machine's 126 words are there behind the arena as well, zero, and belong to nobody's result.
TEST(NativeCuda, MemoryBehindTheArenaIsThere) {
  EXPECT_THAT(Memory(KernelPtx("ld.global.u32 %r1, [%out+4]; ld.global.u32 %r2, [%out+492];"
                               "st.global.u32 [%out+492], 5; ld.global.u32 %r3, [%out+492];"
                               "or.b32 %r1, %r1, %r2; mad.lo.u32 %r1, %r1, 100, %r3; st.global.u32 [%out], %r1;"),
                     Launch()),
              ElementsAre(0, 7, 5));
}

// `out` is the last buffer, word 2 of 3; `in` the first one. Memory ends behind word 125, or with a larger arena.
TEST(NativeCudaDeathTest, WritesBesideTheMemoryAreOutOfRange) {
  EXPECT_EXIT(RunAndExit(KernelPtx("st.global.u32 [%out+496], 5;"), Launch()), ExitedWithCode(0),
              Ended(CudaEnd::kOutOfRange, "the kernel wrote 5 at byte 504 of a memory of 504 bytes"));
  EXPECT_EXIT(RunAndExit(KernelPtx("st.global.u32 [%out+4000], 5;"), Launch()), ExitedWithCode(0),
              Ended(CudaEnd::kOutOfRange, "the kernel wrote 5 at byte 4008 of a memory of 504 bytes"));
  EXPECT_EXIT(RunAndExit(KernelPtx("st.global.u32 [%in+-8], 5;"), Launch()), ExitedWithCode(0),
              Ended(CudaEnd::kOutOfRange, "the kernel wrote 5 at byte -4 of a memory of 504 bytes"));
  EXPECT_EXIT(RunAndExit(KernelPtx("st.global.u32 [%out+800], 5;"), Launch(1, {7}, 200)), ExitedWithCode(0),
              Ended(CudaEnd::kOutOfRange, "the kernel wrote 5 at byte 808 of a memory of 808 bytes"));
  // Word 0 belongs to the memory image, so that its change is seen where images are compared.
  EXPECT_THAT(Memory(KernelPtx("st.global.u32 [%in+-4], 5;"), Launch()), ElementsAre(5, 7, 0));
}

TEST(NativeCudaDeathTest, AKernelThatNeverEndsIsLeftAtTheTimeLimit) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EXIT(RunAndExit(KernelPtx("loop: ld.volatile.global.u32 %r1, [%in]; setp.ne.u32 %p1, %r1, 0; @%p1 bra loop;"),
                         Launch(), 200),
              ExitedWithCode(0), Ended(CudaEnd::kTimeout, "the kernel still runs after 200 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace qgpu
