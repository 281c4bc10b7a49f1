#include "lowering/cuda_to_ptx/cuda_to_ptx.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/cuda_to_ptx/sandbox.h"

namespace qgpu {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

absl::StatusOr<CompiledPtx> Compile(const std::string& text, const CompileLimits& limits = {}) {
  return CompileCudaToPtx({"kernel.cu", text, SourceLanguage::kCuda}, limits);
}

std::string Ptx(const std::string& text) {
  const absl::StatusOr<CompiledPtx> compiled = Compile(text);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? compiled->ptx : "";
}

// The error of a source that must not compile; it is always the user's to correct, and names the file.
std::string Error(const std::string& text, const CompileLimits& limits = {}) {
  const absl::StatusOr<CompiledPtx> compiled = Compile(text, limits);
  EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument) << compiled.status();
  const std::string message(compiled.status().message());
  EXPECT_THAT(message, HasSubstr("kernel.cu"));
  EXPECT_THAT(message, Not(HasSubstr("qgpu-compile-"))) << "names the scratch folder";
  return message;
}

std::set<std::string> ScratchFolders() {
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("qgpu-compile-")) folders.insert(name);
  }
  return folders;
}

// Every test here has a temporary folder of its own, and must leave nothing in it.
class CudaToPtxTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "qgpu-cuda-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    setenv("TMPDIR", path.c_str(), 1);
  }
  void TearDown() override {
    EXPECT_TRUE(ScratchFolders().empty()) << "scratch was left behind";
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

TEST_F(CudaToPtxTest, CompilesForTheT4) {
  const absl::StatusOr<CompiledPtx> compiled =
      Compile("__global__ void add(const int* a, int* out, int n) {\n  if (threadIdx.x < n) out[0] = a[0] + n;\n}\n");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(compiled->ptx, AllOf(HasSubstr(".version 6.4\n"), HasSubstr(".target sm_75\n"),
                                   HasSubstr(".address_size 64"), HasSubstr("add.s32"), HasSubstr("%tid.x")));
  EXPECT_THAT(compiled->ptx, AllOf(HasSubstr(".loc\t1 2 "), HasSubstr(".file\t1 \"kernel.cu\"")));
  EXPECT_EQ(compiled->warnings, "");
}

TEST_F(CudaToPtxTest, KernelsComeWithTheirParametersNames) {
  const absl::StatusOr<CompiledPtx> compiled = Compile(R"(
struct Pair { int a, b; };
namespace space {
template <typename T> __global__ void copy(const T* __restrict__ from, T* to, long long q, short s, bool f, char) {
  to[0] = from[0] + q + s + f;
}
template __global__ void copy<int>(const int*, int*, long long, short, bool, char);
}
extern "C" __global__ void swap(Pair pair, int4 quad, unsigned n) {}
__device__ int helper(int x) { return x; }
__global__ void declared_only(int);
static __global__ void hidden(int* p) { p[0] = helper(1); }
)");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->kernels.size(), 3u);
  EXPECT_EQ(compiled->kernels[2].name, "hidden");
  const CompiledKernel& copy = compiled->kernels[0];
  EXPECT_EQ(copy.name, "copy<int>");
  EXPECT_EQ(copy.file, "kernel.cu");
  EXPECT_EQ(copy.line, 4);
  EXPECT_THAT(copy.ParameterNames(), ElementsAre("from", "to", "q", "s", "f", ""));
  std::vector<uint32_t> bytes;
  for (const CompiledParameter& parameter : copy.parameters) bytes.push_back(parameter.bytes);
  EXPECT_THAT(bytes, ElementsAre(8, 8, 8, 2, 1, 1));
  EXPECT_TRUE(copy.parameters[0].is_pointer);
  EXPECT_FALSE(copy.parameters[2].is_pointer);
  EXPECT_EQ(copy.parameters[3].type, "i16");
  const CompiledKernel& swap = compiled->kernels[1];
  EXPECT_EQ(swap.name, "swap");
  EXPECT_EQ(swap.ptx_name, "swap");
  EXPECT_THAT(swap.ParameterNames(), ElementsAre("pair", "quad", "n"));
  EXPECT_EQ(swap.parameters[0].bytes, 8u);
  EXPECT_EQ(swap.parameters[0].type, "struct");
  EXPECT_FALSE(swap.parameters[0].is_pointer);
  EXPECT_EQ(swap.parameters[1].bytes, 16u);
}

TEST_F(CudaToPtxTest, NamesMayBeUnusual) {
  const absl::StatusOr<CompiledPtx> compiled = Compile(
      "extern \"C\" __global__ void a$b(int* \xc3\xa9, int (*$x)[4], const int4* const q) { *\xc3\xa9 = 1; }\n"
      "template <int N, typename... T> __global__ void v(int* p, T... more) { *p = N + sizeof...(more); }\n"
      "template __global__ void v<3, int, long>(int*, int, long);\n"
      "#line 70 \"other.cu\"\n__global__ void moved(int* p) { *p = 1; }\n");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->kernels.size(), 3u);
  EXPECT_EQ(compiled->kernels[0].name, "a$b");
  EXPECT_THAT(compiled->kernels[0].ParameterNames(), ElementsAre("\xc3\xa9", "$x", "q"));
  EXPECT_TRUE(compiled->kernels[0].parameters[1].is_pointer);
  EXPECT_EQ(compiled->kernels[1].name, "v<3, int, long>");
  EXPECT_EQ(compiled->kernels[1].parameters.size(), 3u);
  EXPECT_EQ(compiled->kernels[2].file, "other.cu");
  EXPECT_EQ(compiled->kernels[2].line, 70);
}

TEST_F(CudaToPtxTest, FindsKernelsByName) {
  const absl::StatusOr<CompiledPtx> one = Compile("__global__ void k(int* p) { p[0] = 1; }");
  ASSERT_TRUE(one.ok()) << one.status();
  for (const char* name : {"", "k", "_Z1kPi"}) {
    ASSERT_TRUE(FindKernel(*one, name).ok()) << name;
    EXPECT_EQ((*FindKernel(*one, name))->ptx_name, "_Z1kPi");
  }
  EXPECT_EQ(FindKernel(*one, "q").status().message(), "no kernel is called q; there are: k (_Z1kPi)");
  const absl::StatusOr<CompiledPtx> two =
      Compile("__global__ void k(int* p) { p[0] = 1; }\n__global__ void k(unsigned* p) { p[0] = 2; }");
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(FindKernel(*two, "").status().message(),
            "the file has several kernels, give --kernel with one of: k (_Z1kPi), k (_Z1kPj)");
  EXPECT_EQ(FindKernel(*two, "k").status().message(),
            "more than one kernel is called k; there are: k (_Z1kPi), k (_Z1kPj)");
  EXPECT_EQ((*FindKernel(*two, "_Z1kPj"))->line, 2);
  EXPECT_THAT(std::string(FindKernel(CompiledPtx(), "").status().message()), HasSubstr("no __global__ function"));
}

TEST_F(CudaToPtxTest, IsDeterministicWhereverItRuns) {
  const std::string text =
      "__device__ int v = sizeof(__DATE__ __TIME__ __FILE__);\n__global__ void k(char* p) { p[0] = __TIME__[4]; }";
  const std::string first = Ptx(text);
  setenv("SOURCE_DATE_EPOCH", "12345", 1);
  const fs::path before = fs::current_path();
  fs::current_path("/");
  EXPECT_EQ(Ptx(text), first);
  fs::current_path(before);
  unsetenv("SOURCE_DATE_EPOCH");
  const absl::StatusOr<CompiledPtx> elsewhere = CompileCudaToPtx({"some/folder/kernel.cu", text});
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  EXPECT_EQ(elsewhere->ptx, first);
}

TEST_F(CudaToPtxTest, StrangeFileNamesAreHarmless) {
  for (const char* name :
       {"", "-o", "../../x.cu", "a b\"c\n.cu", ".cu", "kernel.ll", "include", "files.json", "\xc3\xa9"}) {
    const absl::StatusOr<CompiledPtx> compiled = CompileCudaToPtx({name, "__global__ void k(int* p) { p[0] = 1; }"});
    EXPECT_TRUE(compiled.ok()) << name << ": " << compiled.status();
    const absl::Status error = CompileCudaToPtx({name, "\nint x = y;"}).status();
    EXPECT_THAT(std::string(error.message()),
                HasSubstr(std::string(name) + (*name ? ":2:9: error:" : "kernel.cu:2:9")));
  }
}

TEST_F(CudaToPtxTest, SignedArithmeticWraps) {
  // Without -fwrapv the comparison would be folded to true.
  EXPECT_THAT(Ptx("__global__ void k(int* p) { int x = p[0]; p[1] = x + 1 > x; }"), HasSubstr("setp"));
}

TEST_F(CudaToPtxTest, VariablesThatSomeThreadsSetMayBePassedOn) {
  // A compiler that takes arguments for defined makes the condition true.
  EXPECT_THAT(Ptx("__global__ void k(int* p) { int b; if (threadIdx.x == 0) b = atomicAdd(p, 5);\n"
                  "b = __shfl_sync(0xffffffffu, b, 0); p[threadIdx.x + 1] = b; }"),
              HasSubstr("setp"));
}

TEST_F(CudaToPtxTest, MemoryMayBeAccessedAsAnyType) {
  // The word is read again after the store of a half, which may be its own.
  const std::string ptx =
      Ptx("__global__ void k(int* p, int* q) { int a = p[0]; ((short*)q)[0] = 7; q[1] = a + p[0]; }");
  EXPECT_NE(ptx.find("ld.global.u32"), ptx.rfind("ld.global.u32"));
}

TEST_F(CudaToPtxTest, BytePermTakesThreeBitsOfEachSelector) {
  // prmt takes four; nvcc clears the others as well.
  EXPECT_THAT(Ptx("__global__ void k(unsigned* p) { p[0] = __byte_perm(p[1], p[2], p[3]); }"),
              HasSubstr(std::to_string(0x7777)));
}

TEST_F(CudaToPtxTest, LoopsStayLoopsUnlessAskedFor) {
  const std::string loop = "for (int i = 0; i < 8; ++i) p[i] += i; }";
  EXPECT_THAT(Ptx("__global__ void k(int* p) { " + loop), HasSubstr("bra"));
  EXPECT_THAT(Ptx("__global__ void k(int* p) {\n#pragma unroll\n" + loop), Not(HasSubstr("bra")));
}

TEST_F(CudaToPtxTest, HeaderCodeCarriesTheCallersLine) {
  const std::string ptx = Ptx("__global__ void k(int* p) {\n  int x = p[0];\n  p[1] = max(x, 3);\n}");
  const size_t instruction = ptx.find("max.s32");
  ASSERT_NE(instruction, std::string::npos);
  const size_t line = ptx.rfind(".loc", instruction);
  EXPECT_EQ(ptx.substr(line, 8), ".loc\t1 3");
  EXPECT_THAT(ptx, Not(HasSubstr("qgpu_cuda.h")));
}

TEST_F(CudaToPtxTest, CodeForNvccCompilesUnchanged) {
  const std::string ptx = Ptx(R"(
#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <stdio.h>
#include <cstdint>
#include <climits>
#include <assert.h>
#define CHECK(call) do { cudaError_t e = call; if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
__constant__ int table[4] = {1, 2, 3, 4};
__device__ __forceinline__ int twice(int x) { return 2 * x; }
__global__ void __launch_bounds__(32, 1) k(int* __restrict__ out, const uint32_t* in, size_t n) {
  __shared__ int cells[32];
  extern __shared__ int more[];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  dim3 shape = gridDim;
  uint3 place = threadIdx;
  cells[threadIdx.x] = twice(min((int)in[i], INT_MAX)) + table[i & 3] + warpSize + shape.y + place.z;
  __syncthreads();
  out[i] = cells[31 - threadIdx.x] + __shfl_xor_sync(0xffffffff, cells[0], 1) + more[0] + __popc(in[i]);
  atomicAdd(&out[0], 1);
}
int main() {
  int* device = nullptr;
  CHECK(cudaMalloc(&device, 128));
  CHECK(cudaMemcpy(device, device, 4, cudaMemcpyHostToDevice));
  printf("%d\n", max(1, 2));
  cudaFree(device);
  return 0;
}
)");
  EXPECT_THAT(ptx, AllOf(HasSubstr(".maxntid 32"), HasSubstr("bar.sync"), HasSubstr("shfl.sync.bfly.b32"),
                         HasSubstr("atom.global.add.u32"), HasSubstr(".const"), HasSubstr("popc.b32")));
  EXPECT_THAT(ptx, Not(HasSubstr("cudaMalloc")));
}

TEST_F(CudaToPtxTest, EveryIntegerFunctionOfTheHeaderIsOneInstruction) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"__popc(x)", "popc.b32"},
      {"__clz(x)", "clz.b32"},
      {"__brev(x)", "brev.b32"},
      {"min(x, y)", "min.s32"},
      {"max((unsigned)x, (unsigned)y)", "max.u32"},
      {"abs(x)", "abs.s32"},
      {"__mulhi(x, y)", "mul.hi.s32"},
      {"__umulhi(x, y)", "mul.hi.u32"},
      {"__mul24(x, y)", "mul24.lo.s32"},
      {"__sad(x, y, z)", "sad.s32"},
      {"__byte_perm(x, y, z)", "prmt.b32"},
      {"__funnelshift_l(x, y, z)", "shf.l.wrap.b32"},
      {"__funnelshift_rc(x, y, z)", "shf.r.clamp.b32"},
      {"__dp4a(x, y, z)", "dp4a.s32.s32"},
      {"__fns(x, y, z)", "fns.b32"},
      {"__shfl_sync(0xffffffff, x, y)", "shfl.sync.idx.b32"},
      {"__shfl_up_sync(0xffffffff, x, y, 4)", "shfl.sync.up.b32"},
      {"__ballot_sync(0xffffffff, x)", "vote.sync.ballot.b32"},
      {"__all_sync(0xffffffff, x)", "vote.sync.all.pred"},
      {"__activemask()", "activemask.b32"},
      {"__match_any_sync(0xffffffff, x)", "match.any.sync.b32"},
      {"__syncthreads_count(x)", "bar.red.popc.u32"},
      {"__ldg(p + x)", "ld.global.nc.u32"},
      {"atomicMax(p, x)", "atom.global.max.s32"},
      {"atomicCAS(p, x, y)", "atom.global.cas.b32"},
      {"atomicXor(p, x)", "atom.global.xor.b32"},
  };
  std::string text = "extern \"C\" {\n";
  for (size_t i = 0; i < expected.size(); ++i) {
    text += fmt::format("__global__ void k{}(int* p, int x, int y, int z, int* out) {{ *out = {}; }}\n", i,
                        expected[i].first);
  }
  const std::string ptx = Ptx(text + "}\n");
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t begin = ptx.find(fmt::format(".entry k{}(", i));
    ASSERT_NE(begin, std::string::npos);
    EXPECT_THAT(ptx.substr(begin, ptx.find("\n}", begin) - begin), HasSubstr(expected[i].second)) << expected[i].first;
  }
}

TEST_F(CudaToPtxTest, ErrorsNameTheUsersLine) {
  const std::string message = Error("__global__ void k(int* p) {\n  p[0] = q;\n}\n");
  EXPECT_THAT(message,
              HasSubstr("kernel.cu does not compile:\nkernel.cu:2:10: error: use of undeclared identifier 'q'"));
  EXPECT_THAT(message, Not(HasSubstr("generated")));
}

TEST_F(CudaToPtxTest, WarningsAreKept) {
  const absl::StatusOr<CompiledPtx> compiled = Compile("__global__ void k(int* p) {\n  p[0] == 1;\n}\n");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(compiled->warnings, HasSubstr("kernel.cu:2:8: warning:"));
}

TEST_F(CudaToPtxTest, HostLaunchesAreRefusedByLine) {
  const std::string message = Error("__global__ void k(int* p) {}\nint main() {\n  k<<<1, 32>>>(nullptr);\n}\n");
  EXPECT_THAT(message, AllOf(HasSubstr("kernel.cu:3:4: error:"), HasSubstr("--grid and --block")));
  // Not even by providing what a launch compiles to.
  EXPECT_THAT(Error("extern \"C\" int cudaConfigureCall(dim3, dim3, size_t = 0, void* = 0);\n"
                    "__global__ void k(int* p) {}\nint main() { k<<<1, 32>>>(nullptr); }\n"),
              HasSubstr("kernel.cu:1:"));
}

TEST_F(CudaToPtxTest, EndlessLoopsStayEndless) {
  for (const char* loop : {"while (n) n |= 1;", "while (true) {}", "for (;;) n += 3;"}) {
    const absl::StatusOr<CompiledPtx> compiled =
        Compile(fmt::format("__global__ void k(int* out, int n) {{ {} out[0] = n; }}\n", loop));
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_THAT(compiled->ptx, HasSubstr("bra")) << loop;
  }
}

TEST_F(CudaToPtxTest, FilesCannotBeReadIntoAKernel) {
  const std::string embed =
      "const unsigned char x[] = {\n#embed \"/etc/passwd\"\n};\n__global__ void k(int* p) { p[0] = x[0]; }";
  const std::string include = "#include \"/etc/passwd\"\n__global__ void k(int* p) {}";
  const std::string asks =
      "#if __has_include(\"/etc/passwd\") || __has_embed(\"/etc/passwd\")\n#error seen\n#endif\n"
      "__global__ void k(int* p) {}";
  SandboxLayers layers = ProbeSandbox();
  for (const bool with_landlock : {true, false}) {
    if (!with_landlock) layers.landlock_abi = 0;  // clang's file table alone keeps them away as well
    EXPECT_THAT(std::string(CompileCudaToPtxWith(layers, {"kernel.cu", embed}).status().message()),
                HasSubstr("kernel.cu:2:8: fatal error: '/etc/passwd' file not found"));
    EXPECT_THAT(std::string(CompileCudaToPtxWith(layers, {"kernel.cu", include}).status().message()),
                HasSubstr("kernel.cu:1:10: fatal error: '/etc/passwd' file not found"));
    const absl::StatusOr<CompiledPtx> asked = CompileCudaToPtxWith(layers, {"kernel.cu", asks});
    EXPECT_TRUE(asked.ok()) << asked.status();
  }
  for (const char* path : {"../../../../etc/passwd", "/proc/self/environ", "kernel.ll", "files.json", "/dev/zero"}) {
    EXPECT_THAT(Error(fmt::format("const unsigned char x[] = {{\n#embed \"{}\"\n}};", path)),
                HasSubstr("file not found"))
        << path;
  }
}

TEST_F(CudaToPtxTest, MissingHeadersSayWhichThereAre) {
  EXPECT_THAT(Error("#include <vector>\n"),
              AllOf(HasSubstr("'vector' file not found"), HasSubstr("a kernel is one file")));
}

TEST_F(CudaToPtxTest, TemplateBombsEndAtALimit) {
  const std::string bomb =
      "template <int N, int M> struct T { T<N - 1, M> a; T<N - 1, M + (1 << N)> b; };\n"
      "template <int M> struct T<0, M> {};\n__global__ void k(int* p) { T<30, 0> t; p[0] = sizeof(t); }";
  CompileLimits patient;  // so that a busy machine meets the limit in question first
  patient.wall_ms = 120000;
  CompileLimits limits = patient;
  limits.address_space_bytes = 500 << 20;
  EXPECT_THAT(Error(bomb, limits), HasSubstr("the compiler's frontend needs more than 500 MiB of address space; make"));
  limits = patient;
  limits.cpu_seconds = 1;
  EXPECT_THAT(Error(bomb, limits), HasSubstr("needs more than 1 s of processor time; make"));
  limits = {};
  limits.wall_ms = 300;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(Error(bomb, limits), HasSubstr("needs more than 300 ms; make"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_THAT(Error("template <int N> struct T { T<N + 1> t; };\nT<0> t;"), HasSubstr("exceeded maximum depth"));
}

TEST_F(CudaToPtxTest, ConstexprExplosionsEndAtALimit) {
  EXPECT_THAT(Error("constexpr int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\nconstexpr int v = f(60);"),
              HasSubstr("constexpr evaluation hit maximum step limit"));
}

TEST_F(CudaToPtxTest, HugeOutputEndsAtALimit) {
  CompileLimits limits;
  limits.output_bytes = 1 << 20;
  limits.wall_ms = 120000;
  const std::string macros =
      "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(x))))\n__global__ void k(int* p) { B(p[0] *= p[1]; p[p[0]] = "
      "3;) }";
  EXPECT_THAT(Error(macros, limits), HasSubstr("needs more than 1048576 bytes of output; make"));
}

TEST_F(CudaToPtxTest, CrashesOfTheCompilerAreErrorsAboutTheKernel) {
  EXPECT_THAT(Error("__global__ void k(int* p) {\n#pragma clang __debug crash\n}"),
              AllOf(HasSubstr("the compiler's frontend crashed ("), HasSubstr("write it differently"),
                    Not(HasSubstr("PLEASE submit"))));
  EXPECT_THAT(Error("__global__ void k(int* p) {\n#pragma clang __debug llvm_fatal_error\n}"),
              AllOf(HasSubstr("frontend gave up"), HasSubstr("llvm_fatal_error")));
  // A real one: NVPTX cannot select this.
  EXPECT_THAT(Error("__global__ void caf\xc3\xa9(int* p) { p[0] = 1; }"), HasSubstr("the compiler's backend gave up"));
  EXPECT_THAT(Error("__global__ void k(int* p) { p[0] = " + std::string(60000, '~') + "p[1]; }"),
              HasSubstr("the compiler's frontend crashed ("));
}

TEST_F(CudaToPtxTest, LongMessagesAreCut) {
  std::string text;
  for (int i = 0; i < 10; ++i) text += fmt::format("int a{} = {}q;\n", i, std::string(4000, '+'));
  EXPECT_LT(Error(text).size(), 10000u);
}

TEST_F(CudaToPtxTest, SourcesAreBounded) {
  CompileLimits limits;
  limits.source_bytes = 100;
  EXPECT_THAT(Error(std::string(101, ' '), limits), HasSubstr("kernel.cu has 101 bytes; at most 100 are compiled"));
  EXPECT_EQ(CompileCudaToPtx({"a.ptx", "", SourceLanguage::kPtx}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CudaToPtxTest, MissingCompilerNamesThePackage) {
  setenv("QGPU_CLANG", "/nonexistent/clang", 1);
  const absl::Status given = Compile("").status();
  unsetenv("QGPU_CLANG");
  EXPECT_EQ(given.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(given.message(), "no clang 19 at /nonexistent/clang (QGPU_CLANG)");
  EXPECT_TRUE(FindClang().ok()) << FindClang().status();
}

}  // namespace
}  // namespace qgpu
