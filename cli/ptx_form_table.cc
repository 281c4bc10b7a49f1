// The patterns of ptx_forms.h, in the order of the PTX ISA.
#include "cli/ptx_forms.h"

namespace qgpu {
namespace {

#define ALL "{u16 s16 u32 s32 u64 s64}"
#define BITS "{b16 b32 b64}"
#define MEMORY "{u8 s8 b8 u16 s16 b16 u32 s32 b32 u64 s64 b64}"
#define COMPARED "{b16 b32 b64 u16 s16 u32 s32 u64 s64}"

std::vector<PtxForms> Arithmetic() {
  return {
      {"{add sub}." ALL, "$T0, $T1, $T2"},
      {"{add sub}.sat.s32", "$T0, $T1, $T2"},
      {"{add sub addc subc}.cc.{u32 s32 u64 s64}", "$T0, $T1, $T2"},
      {"{addc subc}.{u32 s32 u64 s64}", "$T0, $T1, $T2"},
      {"mul.{lo hi}." ALL, "$T0, $T1, $T2"},
      {"mul.wide.{u16 s16 u32 s32}", "$W0, $T1, $T2"},
      {"mad.{lo hi}." ALL, "$T0, $T1, $T2, $T3"},
      {"mad.wide.{u16 s16 u32 s32}", "$W0, $T1, $T2, $W3"},
      {"mad.hi.sat.s32", "$T0, $T1, $T2, $T3"},
      {"{mad madc}.{lo hi}.cc.{u32 s32 u64 s64}", "$T0, $T1, $T2, $T3"},
      {"madc.{lo hi}.{u32 s32 u64 s64}", "$T0, $T1, $T2, $T3"},
      {"mul24.{lo hi}.{u32 s32}", "$T0, $T1, $T2"},
      {"mad24.{lo hi}.{u32 s32}", "$T0, $T1, $T2, $T3"},
      {"mad24.hi.sat.s32", "$T0, $T1, $T2, $T3"},
      {"sad." ALL, "$T0, $T1, $T2, $T3"},
      {"{div rem}." ALL, "$T0, $T1, $T2", "by zero: all ones, and the dividend; the least number by -1: itself, and 0"},
      {"{abs neg}.{s16 s32 s64}", "$T0, $T1"},
      {"{min max}." ALL, "$T0, $T1, $T2"},
      {"dp4a.{u32 s32}.{u32 s32}", "%r0, %r1, %r2, %r3"},
      {"dp2a.{lo hi}.{u32 s32}.{u32 s32}", "%r0, %r1, %r2, %r3"},
  };
}

std::vector<PtxForms> BitsAndLogic() {
  return {
      {"{popc clz}.{b32 b64}", "%r0, $T1"},
      {"brev.{b32 b64}", "$T0, $T1"},
      {"bfind[.shiftamt].{u32 s32 u64 s64}", "%r0, $T1"},
      {"fns.b32", "%r0, %r1, %r2, %r3"},
      {"bfe.{u32 s32 u64 s64}", "$T0, $T1, %r2, %r3"},
      {"bfi.{b32 b64}", "$T0, $T1, $T2, %r3, %r4"},
      {"szext.{clamp wrap}.{u32 s32}", "%r0, %r1, %r2"},
      {"bmsk.{clamp wrap}.b32", "%r0, %r1, %r2"},
      {"{and or xor}.{pred b16 b32 b64}", "$T0, $T1, $T2"},
      {"not.{pred b16 b32 b64}", "$T0, $T1"},
      {"cnot." BITS, "$T0, $T1"},
      {"lop3.b32", "%r0, %r1, %r2, %r3, 0x96", "every table"},
      {"lop3.{and or}.b32", "%r0|%p0, %r1, %r2, %r3, 0x96, %p1"},
      {"shf.{l r}.{clamp wrap}.b32", "%r0, %r1, %r2, %r3"},
      {"shl." BITS, "$T0, $T1, %r2"},
      {"shr." COMPARED, "$T0, $T1, %r2"},
      {"prmt.b32[.f4e .b4e .rc8 .ecl .ecr .rc16]", "%r0, %r1, %r2, %r3"},
  };
}

std::vector<PtxForms> ComparisonAndData() {
  return {
      {"setp.{eq ne}." COMPARED, "%p0, $T1, $T2"},
      {"setp.{lt le gt ge}." ALL, "%p0, $T1, $T2"},
      {"setp.{lo ls hi hs}.{u16 u32 u64}", "%p0, $T1, $T2"},
      {"setp.{lt ne}.{and or xor}.s32", "%p0|%p1, $T1, $T2, !%p2"},
      {"set.{eq ne}.{u32 s32}." COMPARED, "%r0, $T1, $T2"},
      {"set.{lt le gt ge}.{and or xor}.{u32 s32}." ALL, "%r0, $T1, $T2, %p1"},
      {"selp." COMPARED, "$T0, $T1, $T2, %p1"},
      {"slct." COMPARED ".s32", "$D0, $D1, $D2, %r3"},
      {"mov.{pred b16 b32 b64 u16 s16 u32 s32 u64 s64}", "$T0, $T1"},
      {"mov.b32", "mov.b32 %r0, {%h1, %h2}; mov.b32 {%h0, %h1}, %r1;", "packs and unpacks"},
      {"mov.b64",
       "mov.b64 %q0, {%r1, %r2}; mov.b64 {%r0, %r1}, %q1; mov.b64 %q2, {%h1, %h2, %h3, %h4}; mov.b64 {%r3, _}, %q3;",
       "packs and unpacks"},
      {"cvt.{u8 s8}." ALL, "%h0, $T1"},
      {"cvt." ALL ".{u8 s8}", "$D0, %h1"},
      {"cvt." ALL "." ALL, "$D0, $T1"},
      {"cvt.sat.{u8 s8}." ALL, "%h0, $T1"},
      {"cvt.sat.{u16 s16}.{u32 s32 u64 s64}", "$D0, $T1"},
      {"cvt.sat.{u32 s32}.{u64 s64}", "$D0, $T1"},
      {"cvt.sat.{u16.s16 s16.u16 u32.s16 u32.s32 s32.u32 u64.s16 u64.s32 u64.s64 s64.u64}", "$D0, $T1"},
      {"cvta[.to].{global shared local const}.u64", "%q0, %q1"},
      {"isspacep.{global shared local const}", "%p0, %q1"},
      {"{add mul.lo}.{u16 s32 u64}", "@%p1 $M $T0, $T1, $T2; @!%p2 $M $T3, $T1, $T2;",
       "predicated execution of every instruction but barriers"},
  };
}

std::vector<PtxForms> Memory() {
  return {
      {"ld[.volatile .relaxed.gpu .acquire.gpu .weak].global." MEMORY, "$T0, [%q1]"},
      {"ldu.global.{u8 u16 u32 s32 b32 u64 b64}", "$T0, [%q1]"},
      {"ld.global.nc." MEMORY, "$T0, [%q1]"},
      {"ld[.volatile].{shared local}." MEMORY, "$T0, [%q1]"},
      {"ld.const." MEMORY, "$T0, [c+8]"},
      {"ld." MEMORY, "$T0, [%q1]", "generic addresses"},
      {"ld.param.{u32 b32 s32 u16 u8}", "$T0, [v+4]"},
      {"ld.param.{u64 b64}", "$T0, [n]"},
      {"ld.{global shared local const}.v2.{u8 u16 u32 s32 b32 u64 b64}", "$M {$T0, $T1}, [%q2];"},
      {"ld.{global shared local}.v4.{u8 u16 u32 s32 b32}", "$M {$T0, $T1, $T2, $T3}, [%q2];"},
      {"st[.volatile .relaxed.gpu .release.gpu].{global shared local}." MEMORY, "[%q1], $T0"},
      {"st." MEMORY, "[%q1], $T0", "generic addresses"},
      {"st.{global shared local}.v2.{u8 u16 u32 s32 b32 u64}", "$M [%q2], {$T0, $T1};"},
      {"st.{global shared local}.v4.{u8 u16 u32 s32 b32}", "$M [%q2], {$T0, $T1, $T2, $T3};"},
      {"ld.global.{ca cg cs lu cv}.u32", "$T0, [%q1]", "cache hints mean nothing here"},
      {"st.global.{wb cg cs wt}.u32", "[%q1], $T0"},
      {"mov.{u32 u64}", "$M $T0, s; $M $T1, l; $M $T2, c;", "addresses of variables"},
      {"atom[.relaxed.gpu .acq_rel.cta].{global shared}.{min max}.{u32 s32 u64 s64}", "$T0, [%q1], $T2"},
      {"atom[.relaxed.gpu].{global shared}.add.{u32 s32 u64}", "$T0, [%q1], $T2"},
      {"atom.{global shared}.{and or xor exch}.{b32 b64}", "$T0, [%q1], $T2"},
      {"atom.{global shared}.cas.{b16 b32 b64}", "$T0, [%q1], $T2, $T3"},
      {"atom.{global shared}.{inc dec}.u32", "%r0, [%q1], %r2"},
      {"atom.{add.u32 exch.b32 cas.b32}", "atom.add.u32 %r0, [%q1], %r2; atom.exch.b32 %r0, [%q1], %r2;",
       "generic addresses"},
      {"red[.relaxed.gpu].{global shared}.{min max}.{u32 s32 u64 s64}", "[%q1], $T2"},
      {"red[.relaxed.gpu].{global shared}.add.{u32 s32 u64}", "[%q1], $T2"},
      {"red.{global shared}.{and or xor}.{b32 b64}", "[%q1], $T2"},
      {"red.{global shared}.{inc dec}.u32", "[%q1], %r2"},
      {"{membar.cta membar.gl membar.sys fence.sc.cta fence.acq_rel.gpu}", "$M;"},
      {"{prefetch.global.L1 prefetch.global.L2 prefetchu.L1}", "[%q1]"},
  };
}

std::vector<PtxForms> ControlAndWarp() {
  return {
      {"bra[.uni]", "@%p1 bra DONE; mov.u32 %r0, 1; DONE:"},
      {"brx.idx", "TO: .branchtargets A, B; brx.idx %r1, TO; A: mov.u32 %r0, 1; B: mov.u32 %r2, 1;"},
      {"call[.uni]",
       "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), f, (x); ld.param.b32 %r0, [y]; }",
       "functions of the same file, inlined; no recursion"},
      {"{ret exit trap}", "@%p1 $M;"},
      {"{bar.sync barrier.sync barrier.sync.aligned}", "0", "barrier 0 of the whole thread block"},
      {"{bar barrier}.red.{popc.u32 and.pred or.pred}",
       "bar.red.popc.u32 %r0, 0, %p1; barrier.red.and.pred %p0, 0, %p2; bar.red.or.pred %p3, 0, %p2;"},
      {"bar.warp.sync", "bar.warp.sync 0xffffffff;", "as shfl"},
      {"shfl.sync.{up down bfly idx}.b32", "%r0|%p0, %r1, 2, 0x1c1f, 0xffffffff",
       "a constant mask of all threads, at a place that all get to together; any place where a segment has at most 4 "
       "lanes"},
      {"vote.sync.{all any uni}.pred", "%p0, %p1, 0xffffffff", "as shfl"},
      {"vote.sync.ballot.b32", "%r0, %p1, 0xffffffff", "as shfl"},
      {"match.any.sync.{b32 b64}", "%r0, $T1, 0xffffffff", "as shfl"},
      {"match.all.sync.{b32 b64}", "%r0|%p0, $T1, 0xffffffff", "as shfl"},
      {"activemask.b32", "%r0"},
      {"mov.u32",
       "mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.y; mov.u32 %r2, %ctaid.z; mov.u32 %r3, %nctaid.x; mov.u32 %r4, "
       "%laneid; "
       "mov.u32 %r5, %warpid; mov.u32 %r6, %nwarpid; mov.u32 %r7, WARP_SZ;",
       "special registers"},
      {"mov.u32",
       "mov.u32 %r0, %lanemask_eq; mov.u32 %r1, %lanemask_lt; mov.u32 %r2, %lanemask_le; mov.u32 %r3, %lanemask_gt; "
       "mov.u32 %r4, %lanemask_ge;",
       "special registers"},
      {"nanosleep.u32", "20"},
      {"pmevent", "3"},
  };
}

}  // namespace

const std::vector<PtxSection>& IntegerPtx() {
  static const std::vector<PtxSection> sections = {{"Arithmetic", Arithmetic()},
                                                   {"Bits and logic", BitsAndLogic()},
                                                   {"Comparison, selection and moves", ComparisonAndData()},
                                                   {"Memory", Memory()},
                                                   {"Control, barriers and warps", ControlAndWarp()}};
  return sections;
}

const std::vector<PtxSection>& OtherPtx() {
  static const std::vector<PtxSection> sections = {
      {"Floating point",
       {{"{add sub mul}.f32", "%f0, %f1, %f2"},
        {"fma.rn.{f32 f64}", "fma.rn.f32 %f0, %f1, %f2, %f3;"},
        {"cvt.rn.f32.s32", "%f0, %r1"},
        {"sin.approx.f32", "%f0, %f1"},
        {"atom.global.add.f32", "%f0, [%q1], %f2"}}},
      {"Barriers and warps",
       {{"bar.sync", "bar.sync 1;"},
        {"bar.sync", "bar.sync 0, 4;"},
        {"bar.arrive", "bar.arrive 0, 8;"},
        {"shfl.sync.down.b32", "%r0|%p0, %r1, 1, 0x1f, 0xf"},
        {"shfl.sync.down.b32", "%r0|%p0, %r1, 1, 0x1f, %r2"},
        {"shfl.sync.down.b32",
         "mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 3; @%p1 bra PAST; shfl.sync.down.b32 %r0|%p0, %r1, 1, 0x1f, "
         "0xffffffff; PAST: bar.sync 0;"},
        {"redux.sync.add.s32", "%r0, %r1, 0xffffffff"},
        {"elect.sync", "%r0|%p0, 0xffffffff"}}},
      {"Calls and control", {{"call", "call %q1, ();"}, {"call", "call vprintf, ();"}, {"brkpt", "brkpt;"}}},
      {"Memory",
       {{"{atom red}.global.add.noftz.f16x2", "red.global.add.noftz.f16x2 [%q1], %r2;"},
        {"cp.async.ca.shared.global", "[%r0], [%q1], 4"},
        {"tex.1d.v4.s32.s32", "{%r0, %r1, %r2, %r3}, [%q1, {%r4}]"}}},
      {"Special registers", {{"mov.u32", "%r0, %clock"}, {"mov.u64", "%q0, %globaltimer"}, {"mov.u32", "%r0, %smid"}}},
      {"Video", {{"vadd.s32.s32.s32", "%r0, %r1, %r2"}, {"vabsdiff4.u32.u32.u32", "%r0, %r1, %r2, %r3"}}},
      {"Tensor cores", {{"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", "{%r0, %r1}, {%r2}, {%r3}, {%r4, %r5}"}}},
  };
  return sections;
}

}  // namespace qgpu
