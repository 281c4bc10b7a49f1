// Every operation against plain C++, on the edges of its types and on random values. One launch runs an operation on
// all operand triples, one thread each.
#include "oracle/native_cpu/native_cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>

#include "common/file.h"
#include "common/prng.h"

namespace qgpu {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 7;
constexpr uint32_t kThreads = 512;

struct Triple {
  uint64_t a, b, c;
};

std::vector<Triple> Triples() {
  static constexpr uint64_t kEdges[] = {0,
                                        1,
                                        2,
                                        7,
                                        8,
                                        15,
                                        16,
                                        31,
                                        32,
                                        33,
                                        63,
                                        64,
                                        65,
                                        0x7f,
                                        0x80,
                                        0xff,
                                        0x100,
                                        0x7fff,
                                        0x8000,
                                        0xffff,
                                        0x7fffffff,
                                        0x80000000,
                                        0xffffffff,
                                        0x123456789abcdef0,
                                        0x7fffffffffffffff,
                                        0x8000000000000000,
                                        ~uint64_t{0},
                                        ~uint64_t{1}};
  SplitMix64 random(kSeed);
  std::vector<Triple> triples;
  const auto pick = [&]() {
    return random.Below(4) == 0 ? random.Next() : kEdges[random.Below(static_cast<uint32_t>(std::size(kEdges)))];
  };
  for (size_t i = 0; triples.size() < kThreads; ++i) {
    const Triple triple = {pick(), pick(), pick()};
    triples.push_back(triple);
  }
  // The corners of division.
  triples[0] = {0x8000000080008000, ~uint64_t{0}, 0};
  triples[1] = {0x8000000000000000, ~uint64_t{0}, 1};
  triples[2] = {5, 0, 3};
  triples[3] = {static_cast<uint64_t>(-5), 0, 3};
  return triples;
}

// Loads operands a, b, c (64 bits each), gives them as %rda.. (64), %a.. (32), %ha.. (16) and %pa.. (bit 0), runs
// `code`, which leaves its result in %d (32), %rd (64), %h (16) or %p, and stores it.
std::string OperationPtx(const std::string& code, const std::string& store) {
  std::string text = R"(.version 7.6
.target sm_75
.address_size 64
.entry op(.param .u64 in, .param .u64 out)
{
  .reg .b64 %in, %out, %rda, %rdb, %rdc, %rd, %rd2, %t, %index;
  .reg .b32 %a, %b, %c, %d, %d2, %me;
  .reg .b16 %ha, %hb, %hc, %h;
  .reg .pred %pa, %pb, %pc, %p, %q;
  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  mov.u32 %me, %tid.x;
  mul.wide.u32 %index, %me, 24;
  add.u64 %in, %in, %index;
  mul.wide.u32 %index, %me, 8;
  add.u64 %out, %out, %index;
)";
  for (const auto& [name, offset] : {std::pair("a", 0), std::pair("b", 8), std::pair("c", 16)}) {
    text += fmt::format(
        "  ld.global.u64 %rd{0}, [%in+{1}];\n  cvt.u32.u64 %{0}, %rd{0};\n  cvt.u16.u64 %h{0}, %rd{0};\n"
        "  and.b64 %t, %rd{0}, 1;\n  setp.ne.u64 %p{0}, %t, 0;\n",
        name, offset);
  }
  text += "  " + code + "\n" + store + "  ret;\n}\n";
  return text;
}

// Whether ptxas takes what the tests run is asked once, at the end, where it is installed: a test of PTX that NVIDIA's
// assembler refuses would test nothing.
class PtxasEnvironment : public testing::Environment {
 public:
  static PtxasEnvironment& Get() {
    static auto* const environment = new PtxasEnvironment;  // owned by GoogleTest
    return *environment;
  }
  void Add(const std::string& ptx) {
    const size_t entry = ptx.find(".entry op");
    if (module_.empty()) module_ = ptx.substr(0, entry);
    module_ += fmt::format(".entry op_{}{}", count_++, ptx.substr(entry + std::string(".entry op").size()));
  }
  void TearDown() override {
    if (count_ == 0) return;
    if (std::system("command -v ptxas >/dev/null 2>&1") != 0) {
      std::cout << "ptxas is not installed: not assembled\n";
      return;
    }
    const std::string path = testing::TempDir() + fmt::format("native_cpu_test_{}.ptx", getpid());
    const absl::Status written = WriteFileAtomically(path, module_);
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_EQ(std::system(fmt::format("ptxas -arch=sm_75 -O0 -o /dev/null '{}'", path).c_str()), 0);
    std::filesystem::remove(path);
    std::cout << fmt::format("ptxas assembled {} operations\n", count_);
  }

 private:
  std::string module_;
  int count_ = 0;
};
const testing::Environment* const registered = testing::AddGlobalTestEnvironment(&PtxasEnvironment::Get());

enum class Result { k16, k32, k64, kPredicate };

using Expected = std::function<uint64_t(uint64_t a, uint64_t b, uint64_t c)>;

void CheckOperation(const std::string& code, Result result, const Expected& expected) {
  SCOPED_TRACE(code);
  const char* store = result == Result::k64   ? "  st.global.u64 [%out], %rd;\n"
                      : result == Result::k32 ? "  cvt.u64.u32 %rd, %d;\n  st.global.u64 [%out], %rd;\n"
                      : result == Result::k16 ? "  cvt.u64.u16 %rd, %h;\n  st.global.u64 [%out], %rd;\n"
                                              : "  selp.u64 %rd, 1, 0, %p;\n  st.global.u64 [%out], %rd;\n";
  const std::vector<Triple> triples = Triples();
  LaunchSpec spec;
  spec.block.x = kThreads;
  spec.arguments.resize(2);
  for (KernelArgument& argument : spec.arguments) argument.kind = KernelArgument::Kind::kBuffer;
  std::vector<uint32_t>& in = spec.arguments[0].words;
  in.push_back(0);  // so that 64-bit words are aligned: the arena begins at word 1
  for (const Triple& triple : triples) {
    for (uint64_t value : {triple.a, triple.b, triple.c}) {
      in.push_back(static_cast<uint32_t>(value));
      in.push_back(static_cast<uint32_t>(value >> 32));
    }
  }
  spec.arguments[1].words.resize(2 * kThreads);
  NativeCpuLimits limits;
  limits.memory_words = 1 << 20;
  std::string ptx = OperationPtx(code, store);
  const size_t at = ptx.find("[%in");
  ASSERT_NE(at, std::string::npos);
  ptx.insert(ptx.find("  ld.param.u64 %out"), "  add.u64 %in, %in, 4;\n");
  PtxasEnvironment::Get().Add(ptx);
  const auto run = RunNativeCpu(ptx, spec, {}, limits);
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->end, NativeEnd::kDone) << run->message;
  const size_t first = run->buffer_addresses[1] / 4;
  for (size_t i = 0; i < kThreads; ++i) {
    const Triple& t = triples[i];
    const uint64_t got = run->memory[first + 2 * i] | uint64_t{run->memory[first + 2 * i + 1]} << 32;
    uint64_t want = expected(t.a, t.b, t.c);
    if (result == Result::k32) want = static_cast<uint32_t>(want);
    if (result == Result::k16) want = static_cast<uint16_t>(want);
    if (result == Result::kPredicate) want = want != 0;
    ASSERT_EQ(got, want) << fmt::format("a={:#x} b={:#x} c={:#x}", t.a, t.b, t.c);
  }
}

// One integer type of PTX and what C++ calls it.
template <typename T>
struct TypeOf;
#define QGPU_TYPE(T, ptx_name, letter, result)                                                        \
  template <>                                                                                         \
  struct TypeOf<T> {                                                                                  \
    static constexpr const char* kName = ptx_name;                                                    \
    static constexpr const char* kPrefix = letter;                                                    \
    static constexpr const char* kTarget = letter[0] == 'h' ? "%h" : letter[0] == 'r' ? "%rd" : "%d"; \
    static constexpr Result kResult = result;                                                         \
  }
QGPU_TYPE(uint16_t, "u16", "h", Result::k16);
QGPU_TYPE(int16_t, "s16", "h", Result::k16);
QGPU_TYPE(uint32_t, "u32", "", Result::k32);
QGPU_TYPE(int32_t, "s32", "", Result::k32);
QGPU_TYPE(uint64_t, "u64", "rd", Result::k64);
QGPU_TYPE(int64_t, "s64", "rd", Result::k64);
#undef QGPU_TYPE

using Wide = __int128;

// "add.s32 %d, %a, %b" for T = int32_t; `f` computes in 128 bits, the result is cut.
template <typename T>
void CheckBinary(const std::string& name, const std::function<Wide(Wide, Wide, Wide)>& f, int operands = 2) {
  using Type = TypeOf<T>;
  std::string code = fmt::format("{}.{} {}", name, Type::kName, Type::kTarget);
  for (int i = 0; i < operands; ++i) code += fmt::format(", %{}{}", Type::kPrefix, "abc"[i]);
  CheckOperation(code + ";", Type::kResult, [&](uint64_t a, uint64_t b, uint64_t c) {
    return static_cast<uint64_t>(f(static_cast<T>(a), static_cast<T>(b), static_cast<T>(c)));
  });
}

template <typename... Ts>
void CheckAll(const std::string& name, const std::function<Wide(Wide, Wide, Wide)>& f, int operands = 2) {
  (CheckBinary<Ts>(name, f, operands), ...);
}

#define ALL_TYPES uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t

TEST(NativeCpuOps, AddSubMulWrap) {
  CheckAll<ALL_TYPES>("add", [](Wide a, Wide b, Wide) { return a + b; });
  CheckAll<ALL_TYPES>("sub", [](Wide a, Wide b, Wide) { return a - b; });
  CheckAll<ALL_TYPES>("mul.lo", [](Wide a, Wide b, Wide) {
    return static_cast<Wide>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  });
  CheckAll<ALL_TYPES>(
      "mad.lo",
      [](Wide a, Wide b, Wide c) {
        return static_cast<Wide>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b) + static_cast<uint64_t>(c));
      },
      3);
}

// The high half of a product needs 128 bits and for u64 one more, so it is computed in halves of 32 bits.
uint64_t HighU64(uint64_t a, uint64_t b) { return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64); }

TEST(NativeCpuOps, MulHighAndWide) {
  CheckAll<uint16_t, int16_t>("mul.hi", [](Wide a, Wide b, Wide) { return a * b >> 16; });
  CheckAll<uint32_t, int32_t>("mul.hi", [](Wide a, Wide b, Wide) { return a * b >> 32; });
  CheckAll<int64_t>("mul.hi", [](Wide a, Wide b, Wide) { return a * b >> 64; });
  CheckOperation("mul.hi.u64 %rd, %rda, %rdb;", Result::k64,
                 [](uint64_t a, uint64_t b, uint64_t) { return HighU64(a, b); });
  CheckOperation("mad.hi.u32 %d, %a, %b, %c;", Result::k32, [](uint64_t a, uint64_t b, uint64_t c) {
    return (uint64_t{static_cast<uint32_t>(a)} * static_cast<uint32_t>(b) >> 32) + c;
  });
  CheckOperation("mul.wide.u32 %rd, %a, %b;", Result::k64, [](uint64_t a, uint64_t b, uint64_t) {
    return uint64_t{static_cast<uint32_t>(a)} * static_cast<uint32_t>(b);
  });
  CheckOperation("mul.wide.s32 %rd, %a, %b;", Result::k64, [](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b));
  });
  CheckOperation("mul.wide.s16 %d, %ha, %hb;", Result::k32, [](uint64_t a, uint64_t b, uint64_t) {
    return static_cast<uint64_t>(int64_t{static_cast<int16_t>(a)} * static_cast<int16_t>(b));
  });
  CheckOperation("mul.wide.u16 %d, %ha, %hb;", Result::k32, [](uint64_t a, uint64_t b, uint64_t) {
    return uint64_t{static_cast<uint16_t>(a)} * static_cast<uint16_t>(b);
  });
  CheckOperation("mad.wide.s32 %rd, %a, %b, %rdc;", Result::k64, [](uint64_t a, uint64_t b, uint64_t c) {
    return static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)} * static_cast<int32_t>(b)) + c;
  });
}

Wide Clamp32(Wide value) { return std::min<Wide>(std::max<Wide>(value, INT32_MIN), INT32_MAX); }

TEST(NativeCpuOps, Saturate) {
  CheckAll<int32_t>("add.sat", [](Wide a, Wide b, Wide) { return Clamp32(a + b); });
  CheckAll<int32_t>("sub.sat", [](Wide a, Wide b, Wide) { return Clamp32(a - b); });
  CheckAll<int32_t>("mad.hi.sat", [](Wide a, Wide b, Wide c) { return Clamp32((a * b >> 32) + c); }, 3);
}

TEST(NativeCpuOps, DivideWithTheCornersThatAT4Shows) {
  CheckAll<ALL_TYPES>("div", [](Wide a, Wide b, Wide) { return b == 0 ? Wide{-1} : a / b; });
  CheckAll<ALL_TYPES>("rem", [](Wide a, Wide b, Wide) { return b == 0 ? a : a % b; });
}

TEST(NativeCpuOps, AbsNegMinMaxSad) {
  CheckAll<int16_t, int32_t, int64_t>("abs", [](Wide a, Wide, Wide) { return a < 0 ? -a : a; }, 1);
  CheckAll<int16_t, int32_t, int64_t>("neg", [](Wide a, Wide, Wide) { return -a; }, 1);
  CheckAll<ALL_TYPES>("min", [](Wide a, Wide b, Wide) { return std::min(a, b); });
  CheckAll<ALL_TYPES>("max", [](Wide a, Wide b, Wide) { return std::max(a, b); });
  CheckAll<ALL_TYPES>("sad", [](Wide a, Wide b, Wide c) { return c + (a < b ? b - a : a - b); }, 3);
}

TEST(NativeCpuOps, TwentyFourBits) {
  const auto s24 = [](uint64_t x) { return int64_t{static_cast<int32_t>(static_cast<uint32_t>(x) << 8) >> 8}; };
  const auto u24 = [](uint64_t x) { return x & 0xffffff; };
  CheckOperation("mul24.lo.s32 %d, %a, %b;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t) { return static_cast<uint64_t>(s24(a) * s24(b)); });
  CheckOperation("mul24.lo.u32 %d, %a, %b;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t) { return u24(a) * u24(b); });
  CheckOperation("mul24.hi.s32 %d, %a, %b;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t) { return static_cast<uint64_t>(s24(a) * s24(b) >> 16); });
  CheckOperation("mul24.hi.u32 %d, %a, %b;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t) { return u24(a) * u24(b) >> 16; });
  CheckOperation("mad24.lo.s32 %d, %a, %b, %c;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t c) { return static_cast<uint64_t>(s24(a) * s24(b)) + c; });
  CheckOperation("mad24.hi.sat.s32 %d, %a, %b, %c;", Result::k32, [&](uint64_t a, uint64_t b, uint64_t c) {
    return static_cast<uint64_t>(Clamp32(Wide{static_cast<int32_t>(s24(a) * s24(b) >> 16)} + static_cast<int32_t>(c)));
  });
}

TEST(NativeCpuOps, CarryChains) {
  // 128-bit sums from 64-bit halves, and 96-bit ones from 32-bit words.
  CheckOperation("add.cc.u64 %t, %rda, %rdb; addc.u64 %rd, %rdc, %rda;", Result::k64,
                 [](uint64_t a, uint64_t b, uint64_t c) { return c + a + (a + b < a ? 1 : 0); });
  CheckOperation("sub.cc.u64 %t, %rda, %rdb; subc.u64 %rd, %rdc, %rda;", Result::k64,
                 [](uint64_t a, uint64_t b, uint64_t c) { return c - a - (a < b ? 1 : 0); });
  const auto low = [](uint64_t x) { return uint64_t{static_cast<uint32_t>(x)}; };
  CheckOperation("add.cc.u32 %d2, %a, %b; addc.cc.u32 %d2, %b, %c; addc.u32 %d, %a, %c;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t c) {
                   const uint64_t first = (low(a) + low(b)) >> 32;
                   const uint64_t second = (low(b) + low(c) + first) >> 32;
                   return a + c + second;
                 });
  CheckOperation("sub.cc.s32 %d2, %a, %b; subc.cc.s32 %d2, %b, %c; subc.s32 %d, %a, %c;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t c) {
                   const uint64_t first = low(a) < low(b);
                   const uint64_t second = low(b) < low(c) + first;
                   return a - c - second;
                 });
  CheckOperation("mad.lo.cc.u32 %d2, %a, %b, %c; madc.hi.u32 %d, %a, %b, %c;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t c) {
                   const uint64_t product = low(a) * low(b);
                   return (product >> 32) + low(c) + ((low(product) + low(c)) >> 32);
                 });
  CheckOperation("add.cc.u32 %d2, -1, 1; add.u32 %d2, %a, %b; addc.u32 %d, %a, 0;", Result::k32,
                 [](uint64_t a, uint64_t, uint64_t) { return a + 1; });
}

TEST(NativeCpuOps, ShiftsClamp) {
  const auto amount = [](uint64_t b) { return static_cast<uint32_t>(b); };
  const struct {
    const char* type;
    const char* prefix;
    const char* target;
    uint32_t bits;
    Result result;
  } widths[] = {
      {"16", "h", "%h", 16, Result::k16}, {"32", "", "%d", 32, Result::k32}, {"64", "rd", "%rd", 64, Result::k64}};
  for (const auto& w : widths) {
    const uint64_t mask = w.bits == 64 ? ~uint64_t{0} : (uint64_t{1} << w.bits) - 1;
    CheckOperation(fmt::format("shl.b{} {}, %{}a, %b;", w.type, w.target, w.prefix), w.result,
                   [&](uint64_t a, uint64_t b, uint64_t) { return amount(b) >= w.bits ? 0 : (a & mask) << amount(b); });
    for (const char* kind : {"b", "u"}) {
      CheckOperation(
          fmt::format("shr.{}{} {}, %{}a, %b;", kind, w.type, w.target, w.prefix), w.result,
          [&](uint64_t a, uint64_t b, uint64_t) { return amount(b) >= w.bits ? 0 : (a & mask) >> amount(b); });
    }
    CheckOperation(fmt::format("shr.s{} {}, %{}a, %b;", w.type, w.target, w.prefix), w.result,
                   [&](uint64_t a, uint64_t b, uint64_t) {
                     const int64_t value = static_cast<int64_t>(a << (64 - w.bits)) >> (64 - w.bits);
                     return static_cast<uint64_t>(value >> std::min(amount(b), 63u));
                   });
  }
  for (const char* mode : {"clamp", "wrap"}) {
    const auto n = [&](uint64_t c) { return mode[0] == 'c' ? std::min<uint32_t>(amount(c), 32) : amount(c) & 31; };
    CheckOperation(
        fmt::format("shf.l.{}.b32 %d, %a, %b, %c;", mode), Result::k32,
        [&](uint64_t a, uint64_t b, uint64_t c) { return (b << 32 | static_cast<uint32_t>(a)) << n(c) >> 32; });
    CheckOperation(fmt::format("shf.r.{}.b32 %d, %a, %b, %c;", mode), Result::k32,
                   [&](uint64_t a, uint64_t b, uint64_t c) { return (b << 32 | static_cast<uint32_t>(a)) >> n(c); });
  }
}

TEST(NativeCpuOps, Logic) {
  CheckOperation("and.b32 %d, %a, %b;", Result::k32, [](uint64_t a, uint64_t b, uint64_t) { return a & b; });
  CheckOperation("or.b64 %rd, %rda, %rdb;", Result::k64, [](uint64_t a, uint64_t b, uint64_t) { return a | b; });
  CheckOperation("xor.b16 %h, %ha, %hb;", Result::k16, [](uint64_t a, uint64_t b, uint64_t) { return a ^ b; });
  CheckOperation("not.b32 %d, %a;", Result::k32, [](uint64_t a, uint64_t, uint64_t) { return ~a; });
  CheckOperation("cnot.b32 %d, %a;", Result::k32,
                 [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint32_t>(a) == 0; });
  CheckOperation("cnot.b64 %rd, %rda;", Result::k64, [](uint64_t a, uint64_t, uint64_t) { return a == 0; });
  CheckOperation("and.pred %p, %pa, %pb;", Result::kPredicate,
                 [](uint64_t a, uint64_t b, uint64_t) { return a & b & 1; });
  CheckOperation("or.pred %p, %pa, %pb;", Result::kPredicate,
                 [](uint64_t a, uint64_t b, uint64_t) { return (a | b) & 1; });
  CheckOperation("xor.pred %p, %pa, %pb;", Result::kPredicate,
                 [](uint64_t a, uint64_t b, uint64_t) { return (a ^ b) & 1; });
  CheckOperation("not.pred %p, %pa;", Result::kPredicate, [](uint64_t a, uint64_t, uint64_t) { return ~a & 1; });
  CheckOperation("mov.pred %p, %pa;", Result::kPredicate, [](uint64_t a, uint64_t, uint64_t) { return a & 1; });
  for (uint32_t table : {0x80u, 0xfeu, 0x96u, 0xe8u, 0xcau, 0x1bu, 0u, 255u}) {
    CheckOperation(fmt::format("lop3.b32 %d, %a, %b, %c, {};", table), Result::k32,
                   [&](uint64_t a, uint64_t b, uint64_t c) {
                     uint64_t result = 0;
                     if ((table & 1) != 0) result |= ~a & ~b & ~c;
                     if ((table & 2) != 0) result |= ~a & ~b & c;
                     if ((table & 4) != 0) result |= ~a & b & ~c;
                     if ((table & 8) != 0) result |= ~a & b & c;
                     if ((table & 16) != 0) result |= a & ~b & ~c;
                     if ((table & 32) != 0) result |= a & ~b & c;
                     if ((table & 64) != 0) result |= a & b & ~c;
                     if ((table & 128) != 0) result |= a & b & c;
                     return result;
                   });
  }
}

TEST(NativeCpuOps, BitFields) {
  CheckOperation("bfe.u32 %d, %a, %b, %c;", Result::k32, [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    const uint32_t pos = b & 0xff, len = c & 0xff;
    if (pos >= 32 || len == 0) return 0;
    const uint64_t field = uint64_t{static_cast<uint32_t>(a)} >> pos;
    return len >= 32 ? field : field & ((uint64_t{1} << len) - 1);
  });
  CheckOperation("bfe.s32 %d, %a, %b, %c;", Result::k32, [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    const uint32_t pos = b & 0xff, len = c & 0xff;
    const int64_t value =
        static_cast<int32_t>(a);  // sign bits continue above bit 31, as the clamped sign position says
    if (len == 0) return 0;
    if (pos >= 32) return static_cast<uint64_t>(value < 0 ? -1 : 0);
    const int64_t field = value >> pos;
    if (pos + len >= 32) return static_cast<uint64_t>(field);
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<uint64_t>(field) << (64 - len)) >> (64 - len));
  });
  CheckOperation("bfe.u64 %rd, %rda, %b, %c;", Result::k64, [](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    const uint32_t pos = b & 0xff, len = c & 0xff;
    if (pos >= 64 || len == 0) return 0;
    return len >= 64 ? a >> pos : a >> pos & ((uint64_t{1} << len) - 1);
  });
  const auto insert = [](uint64_t a, uint64_t b, uint32_t pos, uint32_t len, uint32_t bits) {
    const unsigned __int128 ones = len >= 64 ? ~uint64_t{0} : (uint64_t{1} << len) - 1;
    const auto mask = pos >= bits ? 0 : static_cast<uint64_t>(ones << pos);
    return (b & ~mask) | (pos >= bits ? 0 : static_cast<uint64_t>(static_cast<unsigned __int128>(a) << pos) & mask);
  };
  for (uint32_t length : {0u, 1u, 5u, 31u, 32u, 64u, 255u}) {
    CheckOperation(fmt::format("bfi.b32 %d, %a, %b, %c, {};", length), Result::k32,
                   [&](uint64_t a, uint64_t b, uint64_t c) { return insert(a, b, c & 0xff, length, 32); });
    CheckOperation(fmt::format("bfi.b64 %rd, %rda, %rdb, %c, {};", length), Result::k64,
                   [&](uint64_t a, uint64_t b, uint64_t c) { return insert(a, b, c & 0xff, length, 64); });
  }
}

TEST(NativeCpuOps, CountAndFindBits) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  CheckOperation("popc.b32 %d, %a;", Result::k32,
                 [&](uint64_t a, uint64_t, uint64_t) { return std::popcount(low(a)); });
  CheckOperation("popc.b64 %d, %rda;", Result::k32, [](uint64_t a, uint64_t, uint64_t) { return std::popcount(a); });
  CheckOperation("clz.b32 %d, %a;", Result::k32,
                 [&](uint64_t a, uint64_t, uint64_t) { return std::countl_zero(low(a)); });
  CheckOperation("clz.b64 %d, %rda;", Result::k32, [](uint64_t a, uint64_t, uint64_t) { return std::countl_zero(a); });
  const auto reverse = [](uint64_t a, int bits) {
    uint64_t result = 0;
    for (int i = 0; i < bits; ++i) result |= (a >> i & 1) << (bits - 1 - i);
    return result;
  };
  CheckOperation("brev.b32 %d, %a;", Result::k32, [&](uint64_t a, uint64_t, uint64_t) { return reverse(a, 32); });
  CheckOperation("brev.b64 %rd, %rda;", Result::k64, [&](uint64_t a, uint64_t, uint64_t) { return reverse(a, 64); });
  const auto find = [](uint64_t a, int bits) { return a == 0 ? -1 : bits - 1 - (std::countl_zero(a) - (64 - bits)); };
  const auto without_sign = [](int64_t a) { return static_cast<uint64_t>(a < 0 ? ~a : a); };
  CheckOperation("bfind.u32 %d, %a;", Result::k32, [&](uint64_t a, uint64_t, uint64_t) { return find(low(a), 32); });
  CheckOperation("bfind.s32 %d, %a;", Result::k32,
                 [&](uint64_t a, uint64_t, uint64_t) { return find(without_sign(static_cast<int32_t>(a)), 32); });
  CheckOperation("bfind.u64 %d, %rda;", Result::k32, [&](uint64_t a, uint64_t, uint64_t) { return find(a, 64); });
  CheckOperation("bfind.s64 %d, %rda;", Result::k32,
                 [&](uint64_t a, uint64_t, uint64_t) { return find(without_sign(static_cast<int64_t>(a)), 64); });
  CheckOperation("bfind.shiftamt.u32 %d, %a;", Result::k32,
                 [&](uint64_t a, uint64_t, uint64_t) { return low(a) == 0 ? -1 : std::countl_zero(low(a)); });
  CheckOperation("fns.b32 %d, %a, 0, 1;", Result::k32,
                 [&](uint64_t a, uint64_t, uint64_t) { return low(a) == 0 ? -1 : std::countr_zero(low(a)); });
  CheckOperation("fns.b32 %d, %a, 31, -1;", Result::k32,
                 [&](uint64_t a, uint64_t, uint64_t) { return find(low(a), 32); });
  CheckOperation("fns.b32 %d, %a, 4, 0;", Result::k32,
                 [](uint64_t a, uint64_t, uint64_t) { return (a >> 4 & 1) != 0 ? 4 : -1; });
  CheckOperation("fns.b32 %d, 0x1248, 4, 2;", Result::k32, [](uint64_t, uint64_t, uint64_t) { return 9; });
}

TEST(NativeCpuOps, MasksAndExtensions) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto ones = [](uint64_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; };
  CheckOperation("bmsk.clamp.b32 %d, %a, %b;", Result::k32, [&](uint64_t a, uint64_t b, uint64_t) {
    return low(a) >= 32 ? 0 : ones(std::min(low(b), 32u)) << low(a);
  });
  CheckOperation("bmsk.wrap.b32 %d, %a, %b;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t) { return ones(b & 31) << (a & 31); });
  const auto extend = [&](uint64_t a, uint32_t n, bool is_signed) -> uint64_t {
    if (n == 0) return 0;
    if (n >= 32) return a;
    const uint64_t value = a & ones(n);
    return is_signed && (value >> (n - 1) & 1) != 0 ? value | ~ones(n) : value;
  };
  CheckOperation("szext.clamp.s32 %d, %a, %b;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t) { return extend(a, low(b), true); });
  CheckOperation("szext.wrap.u32 %d, %a, %b;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t) { return extend(a, b & 31, false); });
}

TEST(NativeCpuOps, PermuteAndDotProducts) {
  const auto byte = [](uint64_t a, uint64_t b, uint32_t selector) -> uint32_t {
    const uint64_t bytes = (b << 32) | static_cast<uint32_t>(a);
    const uint32_t value = bytes >> (8 * (selector & 7)) & 0xff;
    return (selector & 8) == 0 ? value : (value & 0x80) != 0 ? 0xff : 0;
  };
  CheckOperation("prmt.b32 %d, %a, %b, %c;", Result::k32, [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    return byte(a, b, c & 15) | byte(a, b, c >> 4 & 15) << 8 | byte(a, b, c >> 8 & 15) << 16 |
           byte(a, b, c >> 12 & 15) << 24;
  });
  // Forward and backward extraction count from the selected byte on, round the eight bytes.
  CheckOperation("prmt.b32.f4e %d, %a, %b, %c;", Result::k32, [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    const uint32_t s = c & 3;
    return byte(a, b, s) | byte(a, b, s + 1) << 8 | byte(a, b, s + 2) << 16 | byte(a, b, s + 3) << 24;
  });
  CheckOperation("prmt.b32.b4e %d, %a, %b, %c;", Result::k32, [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    const uint32_t s = c & 3;
    const auto at = [&](uint32_t i) { return byte(a, b, (s + 8 - i) % 8); };
    return at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
  });
  CheckOperation("prmt.b32.rc8 %d, %a, %b, %c;", Result::k32,
                 [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t { return byte(a, b, c & 3) * 0x01010101u; });
  CheckOperation("prmt.b32.ecl %d, %a, %b, %c;", Result::k32, [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) result |= byte(a, b, std::max<uint32_t>(c & 3, i)) << (8 * i);
    return result;
  });
  CheckOperation("prmt.b32.ecr %d, %a, %b, %c;", Result::k32, [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) result |= byte(a, b, std::min<uint32_t>(c & 3, i)) << (8 * i);
    return result;
  });
  CheckOperation("prmt.b32.rc16 %d, %a, %b, %c;", Result::k32, [](uint64_t a, uint64_t, uint64_t c) -> uint64_t {
    return ((a >> (16 * (c & 1))) & 0xffff) * 0x00010001u;
  });
  const auto dot = [](uint64_t a, uint64_t b, uint64_t c, bool a_signed, bool b_signed) {
    for (int i = 0; i < 4; ++i) {
      const int x = a_signed ? static_cast<int8_t>(a >> 8 * i) : static_cast<uint8_t>(a >> 8 * i);
      const int y = b_signed ? static_cast<int8_t>(b >> 8 * i) : static_cast<uint8_t>(b >> 8 * i);
      c += static_cast<uint64_t>(static_cast<int64_t>(x) * y);
    }
    return c;
  };
  for (const auto& [name, x, y] : {std::tuple("s32.s32", true, true), std::tuple("s32.u32", true, false),
                                   std::tuple("u32.s32", false, true), std::tuple("u32.u32", false, false)}) {
    const bool a_signed = x, b_signed = y;
    CheckOperation(fmt::format("dp4a.{} %d, %a, %b, %c;", name), Result::k32,
                   [&](uint64_t a, uint64_t b, uint64_t c) { return dot(a, b, c, a_signed, b_signed); });
  }
  CheckOperation("dp2a.hi.s32.u32 %d, %a, %b, %c;", Result::k32, [](uint64_t a, uint64_t b, uint64_t c) {
    const int64_t sum = int64_t{static_cast<int16_t>(a)} * static_cast<uint8_t>(b >> 16) +
                        int64_t{static_cast<int16_t>(a >> 16)} * static_cast<uint8_t>(b >> 24);
    return c + static_cast<uint64_t>(sum);
  });
  CheckOperation("dp2a.lo.u32.s32 %d, %a, %b, %c;", Result::k32, [](uint64_t a, uint64_t b, uint64_t c) {
    const int64_t sum = int64_t{static_cast<uint16_t>(a)} * static_cast<int8_t>(b) +
                        int64_t{static_cast<uint16_t>(a >> 16)} * static_cast<int8_t>(b >> 8);
    return c + static_cast<uint64_t>(sum);
  });
}

template <typename T>
void CheckComparisons() {
  using Type = TypeOf<T>;
  const std::pair<const char*, bool (*)(T, T)> comparisons[] = {
      {"eq", [](T a, T b) { return a == b; }}, {"ne", [](T a, T b) { return a != b; }},
      {"lt", [](T a, T b) { return a < b; }},  {"le", [](T a, T b) { return a <= b; }},
      {"gt", [](T a, T b) { return a > b; }},  {"ge", [](T a, T b) { return a >= b; }},
      {"lo", [](T a, T b) { return a < b; }},  {"ls", [](T a, T b) { return a <= b; }},
      {"hi", [](T a, T b) { return a > b; }},  {"hs", [](T a, T b) { return a >= b; }}};
  for (const auto& [name, compare] : comparisons) {
    if (std::is_signed_v<T> && (name[1] == 'o' || name[1] == 's' || name[0] == 'h')) continue;
    CheckOperation(
        fmt::format("setp.{0}.{1} %p, %{2}a, %{2}b;", name, Type::kName, Type::kPrefix), Result::kPredicate,
        [&, f = compare](uint64_t a, uint64_t b, uint64_t) { return f(static_cast<T>(a), static_cast<T>(b)); });
  }
}

TEST(NativeCpuOps, EveryComparison) {
  CheckComparisons<uint16_t>();
  CheckComparisons<int16_t>();
  CheckComparisons<uint32_t>();
  CheckComparisons<int32_t>();
  CheckComparisons<uint64_t>();
  CheckComparisons<int64_t>();
}

TEST(NativeCpuOps, CombinedComparisonsAndSelections) {
  const auto less = [](uint64_t a, uint64_t b) { return static_cast<int32_t>(a) < static_cast<int32_t>(b); };
  const std::pair<const char*, bool (*)(bool, bool)> combinations[] = {{"and", [](bool x, bool y) { return x && y; }},
                                                                       {"or", [](bool x, bool y) { return x || y; }},
                                                                       {"xor", [](bool x, bool y) { return x != y; }}};
  for (const auto& [name, combine] : combinations) {
    const auto f = combine;
    CheckOperation(fmt::format("setp.lt.{}.s32 %p, %a, %b, %pc;", name), Result::kPredicate,
                   [&](uint64_t a, uint64_t b, uint64_t c) { return f(less(a, b), c & 1); });
    CheckOperation(fmt::format("setp.lt.{}.s32 %p, %a, %b, !%pc;", name), Result::kPredicate,
                   [&](uint64_t a, uint64_t b, uint64_t c) { return f(less(a, b), ~c & 1); });
    CheckOperation(fmt::format("setp.lt.{}.s32 %q|%p, %a, %b, %pc;", name), Result::kPredicate,
                   [&](uint64_t a, uint64_t b, uint64_t c) { return f(!less(a, b), c & 1); });
    CheckOperation(fmt::format("set.lt.{}.u32.s32 %d, %a, %b, %pc;", name), Result::k32,
                   [&](uint64_t a, uint64_t b, uint64_t c) { return f(less(a, b), c & 1) ? ~uint64_t{0} : 0; });
  }
  CheckOperation("setp.lt.s32 %q|%p, %a, %b;", Result::kPredicate,
                 [&](uint64_t a, uint64_t b, uint64_t) { return !less(a, b); });
  CheckOperation("set.eq.s32.b64 %d, %rda, %rdb;", Result::k32,
                 [](uint64_t a, uint64_t b, uint64_t) { return a == b ? ~uint64_t{0} : 0; });
  CheckOperation("selp.b32 %d, %a, %b, %pc;", Result::k32,
                 [](uint64_t a, uint64_t b, uint64_t c) { return (c & 1) != 0 ? a : b; });
  CheckOperation("selp.s16 %h, %ha, %hb, !%pc;", Result::k16,
                 [](uint64_t a, uint64_t b, uint64_t c) { return (c & 1) == 0 ? a : b; });
  CheckOperation("slct.b64.s32 %rd, %rda, %rdb, %c;", Result::k64,
                 [](uint64_t a, uint64_t b, uint64_t c) { return static_cast<int32_t>(c) >= 0 ? a : b; });
}

TEST(NativeCpuOps, MovesPackAndUnpack) {
  CheckOperation("mov.b64 %rd, {%a, %b};", Result::k64,
                 [](uint64_t a, uint64_t b, uint64_t) { return b << 32 | static_cast<uint32_t>(a); });
  CheckOperation("mov.b64 {_, %d}, %rda;", Result::k32, [](uint64_t a, uint64_t, uint64_t) { return a >> 32; });
  CheckOperation("mov.b32 {%h, _}, %a;", Result::k16, [](uint64_t a, uint64_t, uint64_t) { return a; });
  CheckOperation("mov.b64 %rd, {%ha, %hb, %hc, %ha};", Result::k64, [](uint64_t a, uint64_t b, uint64_t c) {
    const auto half = [](uint64_t x) { return x & 0xffff; };
    return half(a) | half(b) << 16 | half(c) << 32 | half(a) << 48;
  });
  CheckOperation("mov.u32 %d, -5;", Result::k32, [](uint64_t, uint64_t, uint64_t) { return -5; });
  CheckOperation("mov.u32 %d, WARP_SZ;", Result::k32, [](uint64_t, uint64_t, uint64_t) { return 32; });
}

// cvt between all pairs of integer types, with and without saturation.
TEST(NativeCpuOps, Conversions) {
  const int bits_of[] = {8, 16, 32, 64};
  const auto value_of = [](uint64_t raw, int bits, bool is_signed) -> Wide {
    if (is_signed) return static_cast<int64_t>(raw << (64 - bits)) >> (64 - bits);
    return static_cast<Wide>(raw << (64 - bits) >> (64 - bits));
  };
  for (int from : bits_of) {
    for (int to : bits_of) {
      for (int kind = 0; kind < 8; ++kind) {
        const bool from_signed = (kind & 1) != 0, to_signed = (kind & 2) != 0, saturate = (kind & 4) != 0;
        const bool holds_all = from_signed == to_signed ? to >= from : to_signed && to > from;
        if (saturate && holds_all) continue;  // PTX has no .sat here
        const char* source = from == 64 ? "%rda" : from == 32 ? "%a" : "%ha";
        const std::string code = fmt::format("cvt{}.{}{}.{}{} %rd, {};", saturate ? ".sat" : "", to_signed ? 's' : 'u',
                                             to, from_signed ? 's' : 'u', from, source);
        CheckOperation(code, Result::k64, [&](uint64_t a, uint64_t, uint64_t) {
          Wide value = value_of(a, from, from_signed);
          if (saturate) {
            const Wide low = to_signed ? -(Wide{1} << (to - 1)) : 0;
            const Wide high = (Wide{1} << (to_signed ? to - 1 : to)) - 1;
            value = std::min(std::max(value, low), high);
          }
          return static_cast<uint64_t>(value_of(static_cast<uint64_t>(value), to, to_signed));
        });
      }
    }
  }
  CheckOperation("cvt.u32.u8 %d, %a;", Result::k32, [](uint64_t a, uint64_t, uint64_t) { return a & 0xff; });
  CheckOperation("cvt.pack.sat.s16.s32 %d, %a, %b;", Result::k32, [](uint64_t a, uint64_t b, uint64_t) {
    const auto clamp = [](uint64_t x) {
      return static_cast<uint64_t>(std::clamp(static_cast<int32_t>(x), -32768, 32767)) & 0xffff;
    };
    return clamp(a) << 16 | clamp(b);
  });
  CheckOperation("cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", Result::k32, [](uint64_t a, uint64_t b, uint64_t c) {
    const auto clamp = [](uint64_t x) { return static_cast<uint64_t>(std::clamp(static_cast<int32_t>(x), 0, 255)); };
    return c << 16 | clamp(a) << 8 | clamp(b);
  });
}

TEST(NativeCpuOps, GuardsSkipInstructions) {
  CheckOperation("mov.u32 %d, %a; @%pb mov.u32 %d, 7; @!%pc add.u32 %d, %d, 1;", Result::k32,
                 [](uint64_t a, uint64_t b, uint64_t c) { return ((b & 1) != 0 ? 7 : a) + ((c & 1) == 0 ? 1 : 0); });
}

}  // namespace
}  // namespace qgpu
