// Calls, indirect branches, predicated control flow, traps and barrier divergence, lowered and interpreted, against
// native-cpu.
#include <gtest/gtest.h>

#include "tests/differential/warp_kernel.h"

namespace qgpu {
namespace {

using Kernel = WarpKernel;

// Functions for the calls below: two values and a result in .param variables; a struct as bytes; a guard inside; one
// that calls another one twice; one with shared and local variables.
constexpr const char* kFunctions = R"(
.func (.param .b32 sum) add3(.param .b32 x, .param .b32 y) {
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y]; mad.lo.u32 %r3, %r1, 3, %r2; st.param.b32 [sum], %r3; ret;
}
.func (.param .b32 result) early(.param .b32 x) {
  .reg .pred %p<2>; .reg .b32 %r<5>;
  ld.param.u32 %r1, [x]; setp.lt.u32 %p1, %r1, 5; mov.u32 %r2, 100; @%p1 bra SMALL;
  st.param.b32 [result], %r1; ret;
  SMALL: st.param.b32 [result+0], %r2; ret;
}
.func (.param .b32 result) twice(.param .b32 x) {
  .reg .b32 %r<5>;
  ld.param.u32 %r1, [x];
  { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b32 [b], 7;
    call.uni (c), add3, (a, b); ld.param.b32 %r2, [c]; }
  { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r2; st.param.b32 [b], %r1;
    call.uni (c), add3, (a, b); ld.param.b32 %r3, [c]; }
  st.param.b32 [result], %r3; ret;
}
.func (.param .align 8 .b8 result[16]) swap(.param .align 8 .b8 pair[16]) {
  .reg .b32 %r<5>; .reg .b64 %d<3>;
  ld.param.v2.u32 {%r1, %r2}, [pair]; ld.param.u64 %d1, [pair+8];
  st.param.b64 [result], %d1; st.param.v2.b32 [result+8], {%r2, %r1}; ret;
}
.func (.param .b32 result) pick(.param .align 4 .b8 list[12], .param .b32 i) {
  .reg .b32 %r<5>; .reg .b64 %d<5>;
  ld.param.u32 %r1, [i]; rem.u32 %r1, %r1, 3; mul.wide.u32 %d1, %r1, 4; mov.b64 %d2, list; add.s64 %d2, %d2, %d1;
  ld.param.u32 %r2, [%d2]; st.param.b32 [result], %r2; ret;
}
.func (.param .b32 result) bytes(.param .b32 small, .param .b32 half) {
  .reg .b32 %r<5>; .reg .b16 %h<3>;
  ld.param.s8 %r1, [small]; ld.param.u8 %h1, [small+1]; ld.param.s16 %r2, [half+2]; cvt.u32.u16 %r3, %h1;
  mad.lo.u32 %r1, %r1, 31, %r2; mad.lo.u32 %r1, %r1, 31, %r3; st.param.b32 [result], %r1; ret;
}
.func (.reg .u32 %result) oldstyle(.reg .u32 %x, .reg .u32 %y) { sub.u32 %result, %x, %y; ret; }
.func leave(.param .b32 x) {
  .reg .pred %p<2>; .reg .b32 %r<3>;
  ld.param.u32 %r1, [x]; setp.eq.u32 %p1, %r1, 2; @%p1 exit; ret;
}
.func (.param .b32 result) memory(.param .b32 x, .param .b32 t) {
  .shared .align 4 .b8 buffer[64]; .local .align 4 .b8 own[8];
  .reg .b32 %r<9>;
  ld.param.u32 %r1, [x]; ld.param.u32 %r2, [t]; shl.b32 %r3, %r2, 2; mov.u32 %r4, buffer; add.u32 %r4, %r4, %r3;
  st.shared.u32 [%r4], %r1; st.local.u32 [own+4], %r2; bar.sync 0; xor.b32 %r3, %r3, 4; mov.u32 %r4, buffer;
  add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4]; ld.local.u32 %r6, [own+4]; add.u32 %r5, %r5, %r6; bar.sync 0;
  st.param.b32 [result], %r5; ret;
}
)";

std::string CallOf(const std::string& function, const std::vector<std::string>& arguments, const std::string& result) {
  std::string text = "{ .param .b32 r; ", names;
  for (size_t i = 0; i < arguments.size(); ++i) {
    text += fmt::format(".param .b32 p{}; st.param.b32 [p{}], {}; ", i, i, arguments[i]);
    names += fmt::format("{}p{}", i == 0 ? "" : ", ", i);
  }
  return text + fmt::format("call.uni (r), {}, ({}); ld.param.b32 {}, [r]; }}\n", function, names, result);
}

TEST(ControlPtx, Calls) {
  const std::string pair =
      "{ .param .align 8 .b8 q[16]; .param .align 8 .b8 r[16]; st.param.b32 [q], %v; st.param.b32 [q+4], %t; "
      "st.param.v2.b32 [q+8], {%n, %v}; call.uni (r), swap, (q); ld.param.b32 %r1, [r]; ld.param.b32 %r2, [r+4]; "
      "ld.param.b64 %d1, [r+8]; cvt.u32.u64 %r3, %d1; shr.u64 %d1, %d1, 32; cvt.u32.u64 %r4, %d1; "
      "mad.lo.u32 %r9, %r1, 31, %r2; mad.lo.u32 %r9, %r9, 31, %r3; mad.lo.u32 %r9, %r9, 31, %r4; }";
  const std::string list =
      "{ .param .align 4 .b8 q[12]; .param .b32 i; .param .b32 r; st.param.b32 [q], %v; st.param.b32 [q+4], %t; "
      "st.param.b32 [q+8], 99; st.param.b32 [i], %t; call.uni (r), pick, (q, i); ld.param.b32 %r9, [r]; }";
  const std::string bodies[] = {
      CallOf("add3", {"%v", "%t"}, "%r9"),
      CallOf("add3", {"%v", "5"}, "%r8") + CallOf("add3", {"%r8", "%v"}, "%r9"),
      CallOf("early", {"%v"}, "%r9"),
      CallOf("twice", {"%v"}, "%r8") + CallOf("twice", {"%r8"}, "%r9"),
      CallOf("bytes", {"%v", "%v"}, "%r9"),
      CallOf("memory", {"%v", "%t"}, "%r8") + CallOf("memory", {"%r8", "%t"}, "%r9"),
      "mov.u32 %r9, 4; setp.lt.u32 %p1, %t, 3; { .param .b32 a; st.param.b32 [a], %t; @!%p1 call leave, (a); "
      "@%p1 call leave, (a); }",
      pair,
      list,
      "call.uni (%r9), add3, (%v, 3);",
  };
  for (const std::string& body : bodies) {
    Kernel kernel;
    kernel.before = kFunctions;
    kernel.body = "mov.u32 %r9, 0; " + body + kStore;
    ExpectAgreement(kernel, 3);
  }
}

// Parameters and results that are registers of the function: every width, several results, returns under a guard, and a
// result that the body does not set in every case.
TEST(ControlPtx, CallsWithRegisters) {
  Kernel kernel;
  kernel.before = std::string(kFunctions) + R"(
.func (.reg .u64 %wide, .reg .u16 %half, .reg .pred %odd) several(.reg .u32 %x, .reg .u64 %y, .reg .u16 %h, .reg .pred %q) {
  .reg .u32 %one;
  and.b32 %one, %x, 1; setp.eq.u32 %odd, %one, 1; cvt.u64.u32 %wide, %x; add.u64 %wide, %wide, %y; add.u16 %half, %h, 9;
  @%q ret;
  add.u64 %wide, %wide, 1; not.pred %odd, %odd; ret;
}
.func (.reg .u32 %result) nested(.reg .u32 %x) {
  .reg .u32 %y;
  call.uni (%y), oldstyle, (%x, 7); call.uni (%result), oldstyle, (%y, %x); add.u32 %result, %result, %y; ret;
}
.func (.reg .u32 %result) falls(.reg .u32 %x) { xor.b32 %result, %x, 21; }
)";
  for (const char* body :
       {"call.uni (%r9), oldstyle, (%v, 3);", "call (%r9), nested, (%v);", "call (%r9), falls, (%t);",
        "call (%r8), oldstyle, (%v, %t); call (%r9), oldstyle, (%r8, %v); call (_), oldstyle, (%r9, %v);",
        "mov.u32 %r9, 4; setp.lt.u32 %p1, %t, 3; @%p1 call (%r9), oldstyle, (%v, %t);",
        "cvt.u64.u32 %d1, %v; shl.b64 %d1, %d1, 20; setp.lt.u32 %p1, %t, 4; call (%d2, %h2, %p2), several, (%v, %d1, "
        "%h1, "
        "%p1); cvt.u32.u64 %r1, %d2; shr.u64 %d2, %d2, 32; cvt.u32.u64 %r2, %d2; cvt.u32.u16 %r3, %h2; selp.u32 %r4, "
        "1, 0, "
        "%p2; mad.lo.u32 %r9, %r1, 31, %r2; mad.lo.u32 %r9, %r9, 31, %r3; mad.lo.u32 %r9, %r9, 31, %r4;"}) {
    kernel.body = std::string(".reg .u16 %h1, %h2; cvt.u16.u32 %h1, %v; ") + body + kStore;
    ExpectAgreement(kernel, 2);
  }
}

// Forms that are rare: what nothing counts, where .aligned stands, special registers of 16 bits and as vectors.
TEST(ControlPtx, RareForms) {
  Kernel kernel;
  kernel.block = {4, 2, 1};
  kernel.grid = 2;
  for (const char* body :
       {"pmevent 3; pmevent.mask 5; mov.u32 %r9, %t;",
        "setp.lt.u32 %p1, %v, 3; barrier.red.popc.aligned.u32 %r9, 0, %p1;",
        "setp.lt.u32 %p1, %v, 3; barrier.red.aligned.popc.u32 %r9, 0, %p1;",
        "setp.lt.u32 %p1, %v, 3; barrier.cta.red.or.aligned.pred %p2, 0, !%p1; selp.u32 %r9, 5, 6, %p2;",
        ".reg .u16 %h1, %h2, %h3; mov.u16 %h1, %tid.x; mov.s16 %h2, %ctaid.x; mov.b16 %h3, %ntid.y; mad.lo.u16 %h1, "
        "%h1, "
        "100, %h2; mad.lo.u16 %h1, %h1, 10, %h3; cvt.u32.u16 %r9, %h1;",
        "mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid; mov.v4.u32 {%r5, %r6, _, _}, %ntid; mad.lo.u32 %r9, %r1, 10, %r2; "
        "mad.lo.u32 %r9, %r9, 10, %r3; mad.lo.u32 %r9, %r9, 10, %r4; mad.lo.u32 %r9, %r9, 10, %r5; mad.lo.u32 %r9, "
        "%r9, "
        "10, %r6;"}) {
    kernel.body = std::string(body) + kStore;
    ExpectAgreement(kernel, 4);
  }
}

TEST(ControlPtx, CallsThatAreRefused) {
  Kernel kernel;
  kernel.before =
      ".func loop(.param .b32 x) { .param .b32 y; call loop, (y); ret; }\n.extern .func missing;\n"
      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n";
  const auto refused = [&](const std::string& body, const std::string& why) {
    kernel.body = body;
    ExpectRefusal(kernel, why);
  };
  refused("{ .param .b32 a; call loop, (a); }", "recursion: loop calls itself");
  refused("call missing;", "missing has no body");
  refused("{ .param .b64 a; .param .b64 b; .param .b32 r; call (r), vprintf, (a, b); }", "printf");
  refused("mov.u64 %d1, loop; st.global.u32 [%o], %d1;", "function pointers");
  refused("{ .param .b32 a; .param .b32 b; call loop, (a, b); }", "loop takes 1 values, not 2");
}

TEST(ControlPtx, BranchesByIndex) {
  for (int count : {1, 2, 3, 5, 8}) {
    std::string targets, arms;
    for (int i = 0; i < count; ++i) {
      targets += fmt::format("{}L{}", i == 0 ? "" : ", ", i % 4);
      if (i < 4) arms += fmt::format("L{}: mad.lo.u32 %r9, %v, {}, {}; bra JOIN; ", i, i + 3, 7 * i);
    }
    Kernel kernel;
    kernel.block.x = 12;
    kernel.body = fmt::format(
        "add.u32 %r1, %v, %t; rem.u32 %r1, %r1, {}; T: .branchtargets {}; brx.idx %r1, T; {} "
        "JOIN: {}",
        count, targets, arms, kStore);
    ExpectAgreement(kernel);
  }
}

TEST(ControlPtx, PredicatedExitsAndBarriers) {
  Kernel kernel;
  kernel.before = ".shared .align 4 .b8 s[64];\n";
  for (const char* body :
       {"setp.gt.u32 %p1, %v, 2; @%p1 exit; mov.u32 %r9, 5; st.global.u32 [%o], %r9;",
        "setp.gt.u32 %p1, %v, 2; mov.u32 %r9, 5; @!%p1 st.global.u32 [%o], %r9; @%p1 ret; st.global.u32 [%o], %t;",
        // A barrier that all threads or none come to.
        "setp.gt.u32 %p1, %n, 2; shl.b32 %r1, %t, 2; mov.u32 %r2, s; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %v; "
        "@%p1 bar.sync 0; ld.shared.u32 %r9, [s]; st.global.u32 [%o], %r9;"}) {
    kernel.body = body;
    ExpectAgreement(kernel, 4);
  }
}

TEST(ControlPtx, TrapsAndBarrierDivergence) {
  Kernel kernel;
  kernel.body = "setp.eq.u32 %p1, %t, 5; @%p1 trap; st.global.u32 [%o], %t;";
  EXPECT_TRUE(CompareEngines(LaunchOf(kernel, 1)).machine_trapped);
  kernel.body = "setp.eq.u32 %p1, %t, 55; @%p1 trap; st.global.u32 [%o], %t;";
  ExpectAgreement(kernel);
  kernel.body = "setp.lt.u32 %p1, %t, 3; @%p1 bra A; bar.sync 0; bra B; A: bar.sync 0; st.global.u32 [%o], %t; B: ";
  EXPECT_TRUE(CompareEngines(LaunchOf(kernel, 1)).machine_trapped);
  kernel.body = "setp.lt.u32 %p1, %t, 3; @%p1 bar.sync 0; bar.sync 0; st.global.u32 [%o], %t;";
  EXPECT_TRUE(CompareEngines(LaunchOf(kernel, 1)).machine_trapped);
}

}  // namespace
}  // namespace qgpu
