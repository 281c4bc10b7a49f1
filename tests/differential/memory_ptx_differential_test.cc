// Memory accesses and atomic operations of PTX, lowered and interpreted, against native-cpu: every space, width and
// modifier, with all threads of several thread blocks.
#include <gtest/gtest.h>

#include "common/prng.h"
#include "fmt/format.h"
#include "tests/differential/compare_engines.h"

namespace qgpu {
namespace {

constexpr uint32_t kThreads = 10;  // two whole machine warps and a half
constexpr int kInWords = 40, kOutWords = 20;

struct Kernel {
  std::string body;
  std::string before;  // declarations of the module
  uint32_t threads = kThreads;
  uint32_t dynamic_shared_bytes = 0;
  int in_words = kInWords, out_words = kOutWords;
  uint32_t n = 3;
  bool may_not_fit = false;
};

// in and out: %in, %out, also as 64-bit registers of the thread's own word (%i, %o); %t is the thread, %n a number.
std::string PtxOf(const Kernel& kernel) {
  return ".version 6.4\n.target sm_75\n.address_size 64\n" + kernel.before +
         "\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n) {\n"
         ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<30>, %t, %n; .reg .b64 %d<20>, %in, %out, %i, %o;\n"
         "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x;\n"
         "mul.wide.u32 %i, %t, 4; add.u64 %o, %out, %i; add.u64 %i, %in, %i;\n" +
         kernel.body + "\nret;\n}\n";
}

Comparison Compare(const Kernel& kernel, uint64_t seed = 1) {
  LaunchSpec spec;
  spec.source = {"memory.ptx", PtxOf(kernel), SourceLanguage::kPtx};
  spec.block.x = kernel.threads;
  spec.dynamic_shared_bytes = kernel.dynamic_shared_bytes;
  spec.arguments.resize(3);
  SplitMix64 random(seed);
  constexpr uint32_t kCorners[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x80, 0xff00, 0x8000};
  const auto fill = [&](KernelArgument& argument, int words) {
    argument.kind = KernelArgument::Kind::kBuffer;
    for (int i = 0; i < words; ++i) {
      const uint64_t bits = random.Next();
      argument.words.push_back(bits >> 63 != 0 ? kCorners[bits & 7] : static_cast<uint32_t>(bits));
    }
  };
  fill(spec.arguments[0], kernel.in_words);
  fill(spec.arguments[1], kernel.out_words);
  spec.arguments[2].scalar = kernel.n;
  return CompareEngines(spec);
}

void ExpectAgreement(const Kernel& kernel, uint64_t seed = 1) {
  const Comparison comparison = Compare(kernel, seed);
  EXPECT_EQ(comparison.difference, "") << kernel.body;
  EXPECT_FALSE(comparison.machine_trapped) << kernel.body;
}

void ExpectTrap(const Kernel& kernel) {
  const Comparison comparison = Compare(kernel);
  EXPECT_EQ(comparison.difference, "") << kernel.body;
  EXPECT_TRUE(comparison.machine_trapped) << kernel.body;
}

TEST(MemoryPtx, LoadsOfEveryWidthAndSpace) {
  const std::string spaces[] = {"global", "", "shared", "const", "local"};
  const std::string before =
      ".const .align 16 .b8 c[32] = {1, 2, 128, 255, 5, 6, 7, 136, 9, 10, 11, 200, 13, 14, 15, 16};\n"
      ".shared .align 16 .b8 s[32];\n";
  for (const std::string& space : spaces) {
    for (const char* type : {"u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32"}) {
      const int bytes = type[1] == '8' ? 1 : type[1] == '1' ? 2 : 4;
      Kernel kernel;
      kernel.threads = space == "local" ? 2 : kThreads;
      kernel.before = before;
      kernel.body = ".local .align 16 .b8 l[16];\n";
      const std::string base = space == "shared" ? "s" : space == "const" ? "c" : space == "local" ? "l" : "%in";
      if (space == "shared" || space == "local") {  // both words that are read come from `in`
        for (int word = 0; word < 4; ++word) {
          kernel.body +=
              fmt::format("ld.global.u32 %r9, [%in+{0}]; st.{1}.u32 [{2}+{0}], %r9;\n", 4 * word, space, base);
        }
        if (space == "shared") kernel.body += "bar.sync 0;\n";
      }
      kernel.body += fmt::format("and.b32 %r1, %t, {}; mul.wide.u32 %d1, %r1, {};\n", 8 / bytes - 1, bytes);
      kernel.body += base[0] == '%' ? fmt::format("add.u64 %d2, {}, %d1;\n", base)
                                    : fmt::format("mov.u64 %d2, {}; add.u64 %d2, %d2, %d1;\n", base);
      const std::string dot = space.empty() ? "" : fmt::format(".{}", space);
      kernel.body += fmt::format("ld{}.{} %r2, [%d2+{}]; st.global.u32 [%o], %r2;", dot, type, bytes);
      ExpectAgreement(kernel);
    }
  }
}

TEST(MemoryPtx, StoresOfEveryWidthAndSpace) {
  for (const char* space : {"global", "", "shared"}) {
    for (const char* type : {"u8", "s8", "b8", "u16", "b16", "u32", "s32"}) {
      const int bytes = type[1] == '8' ? 1 : type[1] == '1' ? 2 : 4;
      const bool shared = std::string_view(space) == "shared";
      Kernel kernel;
      kernel.before = ".shared .align 4 .b8 s[40];\n";
      kernel.body = fmt::format(
          "ld.global.u32 %r1, [%i]; mov.u64 %d1, {}; mul.wide.u32 %d2, %t, {}; add.u64 %d1, %d1, %d2;\n"
          "st{}{}.{} [%d1], %r1;\n",
          shared ? "s" : "%out", bytes, *space == 0 ? "" : ".", space, type);
      if (shared)
        kernel.body +=
            "bar.sync 0; mov.u64 %d3, s; add.u64 %d3, %d3, %d2; ld.shared.u8 %r2, [%d3];\n"
            "st.global.u32 [%o], %r2;";
      ExpectAgreement(kernel);
    }
  }
}

TEST(MemoryPtx, NeighboursThatShareAWord) {
  // Each thread changes one byte of two, at places that only the run knows.
  for (const char* type : {"u8", "u16"}) {
    Kernel kernel;
    const int bytes = type[1] == '8' ? 1 : 2;
    kernel.body = fmt::format(
        "ld.global.u32 %r1, [%i]; xor.b32 %r2, %t, 3; mul.wide.u32 %d2, %r2, {0}; add.u64 %d1, %out, %d2;\n"
        "setp.ge.u32 %p1, %t, 2; @%p1 st.global.{1} [%d1], %r1; @!%p1 st.global.{1} [%d1+8], 0x5a;",
        bytes, type);
    ExpectAgreement(kernel);
  }
}

TEST(MemoryPtx, Vectors) {
  for (const char* body :
       {"ld.global.v2.u32 {%r1, %r2}, [%in]; st.global.v2.u32 [%out], {%r2, %r1};",
        "ld.global.v4.u32 {%r1, _, %r3, %r4}, [%in+16]; st.global.v4.b32 [%out+16], {%r4, %r3, %r1, 7};",
        "ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%i]; st.global.v4.u8 [%o], {%h4, %h3, %h2, %h1};",
        "ld.global.v2.u8 {%h1, %h2}, [%in+2]; st.global.v2.u8 [%out+6], {%h2, %h1};",
        "ld.global.v4.s8 {%r1, %r2, %r3, %r4}, [%i]; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r4; st.global.u32 [%o], "
        "%r1;",
        "ld.global.v2.s16 {%r1, %r2}, [%i]; add.u32 %r1, %r1, %r2; st.global.u32 [%o], %r1;",
        "ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%in+8]; st.global.v4.u16 [%out+8], {%h3, %h4, %h1, %h2};",
        "ld.global.v2.u64 {%d1, %d2}, [%in]; st.global.v2.u64 [%out], {%d2, %d1};",
        "ld.global.u64 %d1, [%in+8]; st.global.u64 [%out+8], %d1;",
        "ld.global.v2.u32 {%r1, %r2}, [%in]; setp.eq.u32 %p1, %t, 1; @%p1 st.global.v2.u32 [%out+8], {%r1, %t};"}) {
    Kernel kernel;
    kernel.body = body;
    ExpectAgreement(kernel);
  }
}

TEST(MemoryPtx, ModifiersThatOrderOrHint) {
  for (const char* load : {"ld.volatile.global", "ld.relaxed.gpu.global", "ld.acquire.cta.global", "ld.global.nc",
                           "ldu.global", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu", "ld.global.cv",
                           "ld.weak.global", "ld.global.L1::evict_last", "ld.global.ca.nc", "ld.global.L2::128B"}) {
    for (const char* store : {"st.volatile.global", "st.relaxed.sys.global", "st.release.gpu.global", "st.global.wb",
                              "st.global.wt", "st.weak.global"}) {
      Kernel kernel;
      kernel.body = fmt::format(
          "{}.u32 %r1, [%i]; prefetch.global.L2 [%i]; membar.gl; fence.acq_rel.gpu; {}.u32 [%o], %r1;", load, store);
      ExpectAgreement(kernel);
    }
  }
}

TEST(MemoryPtx, VariablesOfTheModule) {
  const char* before =
      ".global .align 4 .u32 counter = 5;\n.global .align 2 .u16 halves[3] = {1, 65535, 3};\n"
      ".const .align 8 .u64 wide[2] = {0x123456789abcdef0, 0xffffffffffffffff};\n"
      ".const .align 1 .b8 text[6] = {72, 101, 108, 108, 111, 0};\n.global .u32 unused[1000];\n";
  for (const char* body :
       {"ld.global.u32 %r1, [counter]; st.global.u32 [%o], %r1;",
        "atom.global.add.u32 %r1, [counter], 2; bar.sync 0; ld.global.u32 %r2, [counter]; st.global.u32 [%o], %r2;",
        "ld.global.u16 %r1, [halves+2]; ld.global.s16 %r2, [halves+2]; xor.b32 %r1, %r1, %r2; st.global.u32 [%o], %r1;",
        "ld.const.u64 %d1, [wide]; ld.const.u64 %d2, [wide+8]; st.global.u64 [%out], %d1; st.global.u64 [%out+8], %d2;",
        "mov.u64 %d1, text; rem.u32 %r1, %t, 6; cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2; ld.const.u8 %r1, [%d1];"
        " st.global.u32 [%o], %r1;",
        "mov.u64 %d1, text; cvta.const.u64 %d1, %d1; ld.u8 %r1, [%d1+1]; st.global.u32 [%o], %r1;"}) {
    Kernel kernel;
    kernel.before = before;
    kernel.body = body;
    ExpectAgreement(kernel);
  }
}

TEST(MemoryPtx, SharedMemoryByNameRegisterAndGenericAddress) {
  const char* before = ".shared .align 4 .b8 first[20];\n.shared .align 4 .b8 second[40];\n";
  for (const char* body :
       {// as nvcc writes it: 32-bit addresses
        "mov.u32 %r1, second; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %t; bar.sync 0;"
        " sub.u32 %r4, 9, %t; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r1; ld.shared.u32 %r5, [%r4]; st.global.u32 "
        "[%o], %r5;",
        "st.shared.u32 [second+36], %n; bar.sync 0; ld.shared.u32 %r1, [second+36]; st.global.u32 [%o], %r1;",
        "mov.u64 %d1, second; cvta.shared.u64 %d2, %d1; mul.wide.u32 %d3, %t, 4; add.u64 %d2, %d2, %d3; st.u32 [%d2], "
        "%t;"
        " bar.sync 0; cvta.to.shared.u64 %d4, %d2; ld.shared.u32 %r1, [%d4]; st.global.u32 [%o], %r1;",
        "cvta.shared.u64 %d1, first; isspacep.shared %p1, %d1; isspacep.global %p2, %d1; isspacep.shared %p3, %in;"
        " isspacep.global %p4, %in; isspacep.local %p5, %d1; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2;"
        " selp.u32 %r3, 4, 0, %p3; selp.u32 %r4, 8, 0, %p4; selp.u32 %r5, 16, 0, %p5; or.b32 %r1, %r1, %r2;"
        " or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4; or.b32 %r1, %r1, %r5; st.global.u32 [%o], %r1;"}) {
    Kernel kernel;
    kernel.before = before;
    kernel.body = body;
    ExpectAgreement(kernel);
  }
}

TEST(MemoryPtx, DynamicSharedMemory) {
  Kernel kernel;
  kernel.before = ".shared .align 4 .b8 fixed[8];\n.extern .shared .align 4 .b8 dynamic[];\n";
  kernel.dynamic_shared_bytes = 40;
  kernel.body =
      "mov.u64 %d1, dynamic; mul.wide.u32 %d2, %t, 4; add.u64 %d1, %d1, %d2; ld.global.u32 %r1, [%i];"
      " st.shared.u32 [%d1], %r1; st.shared.u32 [fixed], %n; bar.sync 0; ld.shared.u32 %r2, [dynamic+4];"
      " ld.shared.u32 %r3, [fixed]; add.u32 %r2, %r2, %r3; mov.u32 %r4, %dynamic_smem_size; add.u32 %r2, %r2, %r4;"
      " st.global.u32 [%o], %r2;";
  ExpectAgreement(kernel);
  kernel.body = "st.shared.u32 [dynamic+40], %t;";
  ExpectTrap(kernel);
}

TEST(MemoryPtx, LocalMemory) {
  Kernel kernel;
  kernel.threads = 6;
  kernel.body =
      ".local .align 4 .b8 depot[16];\n"
      "mov.u64 %d1, depot; cvta.local.u64 %d2, %d1; ld.global.u32 %r1, [%i]; st.local.u32 [depot+4], %r1;\n"
      "and.b32 %r2, %r1, 3; mul.wide.u32 %d3, %r2, 4; add.u64 %d4, %d1, %d3; st.local.u32 [%d4], %t;\n"
      "add.u64 %d5, %d2, %d3; ld.u32 %r3, [%d5]; ld.local.u32 %r4, [depot+4]; xor.b32 %r3, %r3, %r4; st.global.u32 "
      "[%o], %r3;";
  ExpectAgreement(kernel);
}

TEST(MemoryPtx, AtomicOperations) {
  const std::pair<const char*, const char*> operations[] = {
      {"add", "u32 s32 u64"}, {"min", "u32 s32 u64 s64"}, {"max", "u32 s32 u64 s64"}, {"and", "b32 b64"},
      {"or", "b32 b64"},      {"xor", "b32 b64"},         {"exch", "b32 b64"},        {"inc", "u32"},
      {"dec", "u32"},         {"cas", "b32 b64 b16"}};
  for (const auto& [operation, types] : operations) {
    std::string rest = types;
    while (!rest.empty()) {
      const std::string type = rest.substr(0, rest.find(' '));
      rest.erase(0, type.size() + 1);
      for (const char* where : {"global", "shared", ""}) {
        for (uint64_t seed = 1; seed <= 3; ++seed) {
          Kernel kernel;
          const bool wide = type == "u64" || type == "s64" || type == "b64", half = type == "b16";
          const std::string value = wide ? "%d" : half ? "%h" : "%r";
          const bool shared = std::string_view(where) == "shared", cas = std::string_view(operation) == "cas";
          kernel.before = ".shared .align 8 .b8 s[16];\n";
          // Pairs of threads share an operand's place; threads meet at two places in memory.
          kernel.body =
              "and.b32 %r1, %t, 1; mul.wide.u32 %d1, %r1, 8; mul.wide.u32 %d2, %t, 8; add.u64 %d2, %in, %d2;\n";
          kernel.body += shared ? "mov.u64 %d3, s; add.u64 %d3, %d3, %d1;\nadd.u64 %d4, %in, %d1; ld.global.u32 %r9, "
                                  "[%d4]; st.shared.u32 [%d3], %r9; ld.global.u32 %r9, [%d4+4]; st.shared.u32 [%d3+4], "
                                  "%r9; bar.sync 0;\n"
                                : "add.u64 %d3, %out, %d1;\n";
          const char* loaded = wide ? "u64" : half ? "u16" : "u32";
          kernel.body +=
              fmt::format("ld.global.{0} {1}5, [%d2]; ld.global.{0} {1}6, [%d2+{2}];\n", loaded, value, wide ? 8 : 4);
          if (cas) kernel.body += fmt::format("ld{}.{} {}5, [%d3];\n", shared ? ".shared" : "", loaded, value);
          kernel.body += fmt::format("atom{}{}.{}.{} {}7, [%d3], {}5{};\n", *where == 0 ? "" : ".", where, operation,
                                     type, value, value, cas ? fmt::format(", {}6", value) : "");
          kernel.body +=
              wide   ? "cvt.u32.u64 %r7, %d7; shr.u64 %d7, %d7, 32; cvt.u32.u64 %r8, %d7; xor.b32 %r7, %r7, %r8;\n"
              : half ? "cvt.u32.u16 %r7, %h7;\n"
                     : "";
          kernel.body +=
              "add.u64 %o, %out, 40; mul.wide.u32 %d9, %t, 4; add.u64 %o, %o, %d9; st.global.u32 [%o], %r7;\n";
          if (shared) {
            kernel.body +=
                "bar.sync 0; ld.shared.u32 %r8, [s]; ld.shared.u32 %r9, [s+8]; st.global.u32 [%out], %r8; "
                "st.global.u32 [%out+4], %r9;";
          }
          // The order in which threads come is the machine's own; results that depend on it are compared with one
          // thread a place only.
          kernel.threads = 2;
          kernel.in_words = 40;
          ExpectAgreement(kernel, seed);
        }
      }
    }
  }
}

// What does not depend on the order: what is in memory afterwards, for operations that commute.
TEST(MemoryPtx, AtomicOperationsOfManyThreadsOnOnePlace) {
  for (const char* operation : {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32",
                                "xor.b32", "inc.u32", "dec.u32"}) {
    for (const char* opcode : {"red", "atom"}) {
      for (const char* space : {"global", "shared"}) {
        Kernel kernel;
        const bool counts = std::string_view(operation).substr(1, 2) == "nc" || *operation == 'd';
        const bool shared = *space == 's';
        kernel.before = ".shared .u32 s;\n";
        if (shared) kernel.body += "st.shared.u32 [s], 3; bar.sync 0;\n";
        kernel.body +=
            fmt::format("ld.global.u32 %r1, [%i]; setp.ne.u32 %p1, %t, 4;\n@%p1 {}.{}.{} {}[{}], {};\n", opcode, space,
                        operation, *opcode == 'a' ? "%r2, " : "", shared ? "s" : "%out", counts ? "%n" : "%r1");
        if (shared) kernel.body += "bar.sync 0; ld.shared.u32 %r3, [s]; st.global.u32 [%o], %r3;";
        ExpectAgreement(kernel);
      }
    }
  }
}

TEST(MemoryPtx, EveryThreadGetsAnotherTicket) {
  for (const char* add : {"atom.global.add.u32 %r1, [%in], 1;", "atom.relaxed.gpu.global.inc.u32 %r1, [%in], 1000;",
                          "atom.acq_rel.cta.global.add.u32 %r1, [%in], 1;"}) {
    Kernel kernel;  // out[ticket] = 1: whatever the order
    kernel.in_words = 2;
    kernel.body = fmt::format(
        "bar.sync 0; setp.ne.u32 %p1, %t, 0; @%p1 bra go; st.global.u32 [%in], 0; go: bar.sync 0;\n{}\n"
        "mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %out, %d1; st.global.u32 [%d1], 77;",
        add);
    ExpectAgreement(kernel);
  }
}

TEST(MemoryPtx, ParametersOfAnySize) {
  LaunchSpec spec;
  const std::string head =
      ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out, .param .align 4 .b8 "
      "s[20])\n{\n"
      ".reg .b64 %d<6>; .reg .b32 %r<9>; .reg .b16 %h<3>;\nld.param.u64 %d1, [out];\n";
  for (const char* body :
       {"ld.param.u32 %r1, [s+4]; ld.param.u16 %r2, [s+2]; ld.param.s8 %r3, [s+19]; st.global.u32 [%d1], %r1;"
        " st.global.u32 [%d1+4], %r2; st.global.u32 [%d1+8], %r3;",
        "ld.param.v2.u32 {%r1, %r2}, [s+8]; ld.param.v4.u8 {%h1, %h2, _, _}, [s]; st.global.u32 [%d1], %r1;"
        " st.global.u32 [%d1+4], %r2; st.global.u8 [%d1+8], %h1; st.global.u8 [%d1+9], %h2;",
        "mov.b64 %d2, s; ld.param.u32 %r1, [%d2+12]; mov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 4; add.u64 %d2, %d2, "
        "%d3;"
        " ld.param.u32 %r3, [%d2]; add.u64 %d1, %d1, %d3; add.u32 %r3, %r3, %r1; st.global.u32 [%d1], %r3;"}) {
    spec.source = {"memory.ptx", head + body + "\nret;\n}\n", SourceLanguage::kPtx};
    spec.arguments.assign(2, {});
    spec.arguments[0].kind = KernelArgument::Kind::kBuffer;
    spec.arguments[0].words.resize(8);
    Bytes bytes;
    for (int i = 0; i < 20; ++i) bytes.push_back(static_cast<uint8_t>(i * 37 + 200));
    spec.arguments[1] = KernelArgument::RawValue("", bytes);
    spec.block.x = 5;
    EXPECT_EQ(CompareEngines(spec).difference, "") << body;
  }
}

TEST(MemoryPtx, WhatLeavesItsSpaceTraps) {
  const char* before = ".const .align 4 .b8 c[8] = {1};\n.shared .align 4 .b8 s[16];\n.global .align 4 .b8 g[8];\n";
  for (const char* access :
       {"ld.shared.u32 %r1, [%d1+16];", "ld.shared.u32 %r1, [%d1+-4];", "st.shared.u32 [%d1+400], %r1;",
        "ld.shared.u8 %r1, [%d1+16];", "ld.const.u32 %r1, [%d2+8];", "ld.const.u32 %r1, [%d2+-4];",
        "st.u32 [%d3], %r1;", "ld.local.u32 %r1, [%d4+16];", "ld.local.u32 %r1, [%d4+-4];",
        "atom.shared.add.u32 %r1, [%d1+16], 1;", "ld.global.u32 %r1, [504];", "ld.global.u32 %r1, [0];",
        "ld.global.v2.u32 {%r1, %r2}, [%in+4];", "ld.global.u32 %r1, [%in+2];", "ld.shared.u16 %r1, [%d1+1];",
        "st.global.u16 [%in+1], %r1;", "ld.global.u64 %d5, [%in+4]; cvt.u32.u64 %r1, %d5;",
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%in+8];"}) {
    for (const char* index : {"0", "%n"}) {  // proven, and known at run time only
      Kernel kernel;
      kernel.n = 0;
      kernel.threads = 3;
      kernel.before = before;
      // Something wider than its alignment: `in` has an even number of words.
      kernel.body = fmt::format(
          ".local .align 4 .b8 l[8];\nmov.u32 %r9, {}; mul.wide.s32 %d9, %r9, 4; ld.global.u32 %r8, [%i]; and.b32 %r8, "
          "%r8, 0;\n"
          "cvt.u64.u32 %d8, %r8; add.u64 %d9, %d9, %d8;\n"
          "mov.u64 %d1, s; mov.u64 %d2, c; cvta.const.u64 %d3, %d2; mov.u64 %d4, l; add.u64 %d1, %d1, %d9;\n"
          "add.u64 %d2, %d2, %d9; add.u64 %d3, %d3, %d9; add.u64 %d4, %d4, %d9; mov.u32 %r1, 1;\n"
          "{} st.global.v4.u32 [%out], {{%r1, %r1, %r1, %r1}};",
          index, access);
      ExpectTrap(kernel);
    }
  }
}

TEST(MemoryPtx, PointersThatWalkByAStrideOfTheLaunch) {
  for (const char* step : {"mul.wide.s32 %d2, %n, 4;", "mul.wide.s32 %d2, %n, -4; add.u64 %d1, %d1, 96;"}) {
    Kernel kernel;
    kernel.threads = 2;
    kernel.body = fmt::format(
        "mov.u64 %d1, %in; {} mov.u32 %r1, 0; mov.u32 %r2, 0;\n"
        "loop: ld.global.u32 %r3, [%d1]; add.u32 %r1, %r1, %r3; add.u64 %d1, %d1, %d2; add.u32 %r2, %r2, 1;\n"
        "setp.lt.u32 %p1, %r2, 5; @%p1 bra loop; st.global.u32 [%o], %r1;",
        step);
    ExpectAgreement(kernel);
  }
}

}  // namespace
}  // namespace qgpu
