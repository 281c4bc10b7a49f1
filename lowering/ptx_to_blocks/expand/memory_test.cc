// Where variables lie, and what memory accesses become.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowering/ptx_to_blocks/test_kernel.h"
#include "lowering/ptx_to_blocks/translate/memory_layout.h"
#include "machine/interpreter/interpreter.h"
#include "machine/isa/machine_launch.h"

namespace qgpu::lower {
namespace {

using testing::HasSubstr;

ptx::Module ModuleOf(const std::string& variables, const std::string& body, const std::string& parameters = "") {
  const std::string text = ".version 6.4\n.target sm_75\n.address_size 64\n" + variables + "\n.visible .entry k(" +
                           (parameters.empty() ? ".param .u64 out, .param .u32 n" : parameters) +
                           ")\n{\n.reg .pred %p<5>; .reg .b16 %h<5>; .reg .b32 %r<20>; .reg .b64 %d<20>;\n" + body +
                           "\nret;\n}\n";
  absl::StatusOr<ptx::Module> module = ptx::ParsePtx("t.ptx", text);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? *module : ptx::Module{};
}

struct Place {
  uint32_t threads = 1, dynamic = 0, arena = 10;
};

absl::StatusOr<MemoryLayout> LayOut(const ptx::Module& module, const Place& place = {}) {
  LayoutRequest request;
  request.module = &module;
  request.kernel = &module.functions.at(0);
  request.threads = place.threads;
  request.dynamic_shared_bytes = place.dynamic;
  request.arena_words = place.arena;
  return MemoryLayout::Create(request);
}

uint32_t AddressOf(const ptx::Module& module, const MemoryLayout& layout, const std::string& name) {
  ptx::Operand symbol;
  symbol.kind = ptx::Operand::Kind::kSymbol;
  symbol.name = name;
  const std::vector<ptx::Variable>& own = module.functions[0].variables;
  const auto found = std::find_if(own.begin(), own.end(), [&](const ptx::Variable& v) { return v.name == name; });
  if (found != own.end()) symbol.index = static_cast<int>(found - own.begin());
  const PlacedVariable* variable = layout.Find(symbol);
  return variable == nullptr ? 0 : variable->address;
}

TEST(MemoryLayout, SharedMemoryIsLastAndOnlyWhatIsMentionedTakesWords) {
  const ptx::Module module = ModuleOf(
      ".shared .align 4 .b8 s[20];\n.global .u32 g = 7;\n.const .align 2 .u16 c[3] = {1, 2, 3};\n.shared .b8 no[400];",
      ".shared .align 8 .b8 own[8];\n.local .align 4 .b8 l[6];\n"
      "mov.u64 %d1, s; mov.u64 %d1, own; mov.u64 %d1, g; mov.u64 %d1, c; mov.u64 %d1, l;");
  const absl::StatusOr<MemoryLayout> layout = LayOut(module, {.threads = 3});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(AddressOf(module, *layout, "own"), 472u);
  EXPECT_EQ(AddressOf(module, *layout, "s"), 480u);
  EXPECT_EQ(AddressOf(module, *layout, "no"), 0u);
  EXPECT_EQ(layout->shared(), (Window{472, 500}));
  EXPECT_EQ(AddressOf(module, *layout, "g"), 468u);
  EXPECT_EQ(AddressOf(module, *layout, "c"), 460u);
  EXPECT_EQ(layout->local_bytes(), 8u);
  EXPECT_EQ(layout->local(), (Window{436, 460}));
  EXPECT_EQ(layout->free_words(), 109u - 10u);
  std::vector<uint32_t> memory(10, 5);
  layout->WriteInitialContent(&memory);
  ASSERT_EQ(memory.size(), 118u);
  EXPECT_EQ(memory[9], 5u);
  EXPECT_EQ(memory[115], 0x00020001u);
  EXPECT_EQ(memory[116], 3u);
  EXPECT_EQ(memory[117], 7u);
}

TEST(MemoryLayout, DynamicSharedMemoryFollowsTheStaticOne) {
  const ptx::Module module = ModuleOf(".extern .shared .align 8 .b8 d[];\n.extern .shared .align 4 .b8 e[];",
                                      ".shared .u32 s;\nmov.u64 %d1, s; mov.u64 %d1, d; mov.u64 %d1, e;");
  const absl::StatusOr<MemoryLayout> layout = LayOut(module, {.dynamic = 16});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(AddressOf(module, *layout, "s"), 480u);
  EXPECT_EQ(AddressOf(module, *layout, "d"), 488u);
  EXPECT_EQ(AddressOf(module, *layout, "e"), 488u);
  EXPECT_EQ(layout->shared(), (Window{480, 504}));
}

TEST(MemoryLayout, SaysByHowMuchItDoesNotFit) {
  const ptx::Module module = ModuleOf("", ".shared .b8 s[320];\n.local .b8 l[24];\nmov.u64 %d1, s; mov.u64 %d1, l;");
  EXPECT_TRUE(LayOut(module, {.threads = 4, .arena = 20}).ok());
  EXPECT_EQ(LayOut(module, {.threads = 4, .arena = 23}).status().message(),
            "needs 127 words: arena 23, shared 80, local 24; the memory holds 126 (word 0 is never given out)");
  absl::StatusOr<MemoryLayout> layout = LayOut(module, {.threads = 4, .arena = 20});
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->free_words(), 2u);
  EXPECT_EQ(layout->TakeScratchWords(2).value(), 80u);
  EXPECT_EQ(layout->TakeScratchWords(3).status().message(),
            "needs 129 words: arena 20, shared 80, local 24, scratch 5; the memory holds 126 (word 0 is never given "
            "out)");
  for (const char* huge : {".shared .b8 s[2000000000];", ".local .b8 s[2000000000];", ".shared .b8 s[504];"}) {
    const ptx::Module large = ModuleOf("", std::string(huge) + "\nmov.u64 %d1, s;");
    EXPECT_THAT(std::string(LayOut(large, {.threads = 32}).status().message()), HasSubstr("the memory holds 126"))
        << huge;
  }
}

TEST(MemoryLayout, RefusesPointers) {
  const ptx::Module pointer = ModuleOf(".global .u32 a;\n.global .u64 p = a;", "mov.u64 %d1, p;");
  EXPECT_THAT(std::string(LayOut(pointer).status().message()), HasSubstr("t.ptx:5: p holds the address of a: "));
}

// ---- what becomes of accesses ----

LoweredTestKernel Lower(const std::string& variables, const std::string& body, uint32_t threads, uint32_t n = 3) {
  const ptx::Module module = ModuleOf(variables, "ld.param.u64 %d0, [out]; ld.param.u32 %r0, [n];\n" + body);
  return LowerTestKernel(module, {threads, 1, 1}, {FromWords({4, 0}, 8), FromWords({n}, 4)}, /*arena_words=*/40);
}

int SerialBlocks(const Program& program) {
  return static_cast<int>(std::count_if(program.blocks.begin(), program.blocks.end(),
                                        [](const MachineBlock& block) { return block.control.serial; }));
}

int Slots(const Program& program, Op op) {
  int count = 0;
  for (const MachineBlock& block : program.blocks) {
    count += static_cast<int>(
        std::count_if(block.slots.begin(), block.slots.end(), [&](const Instruction& in) { return in.op == op; }));
  }
  return count;
}

constexpr char kThread[] = "mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d0, %d1;\n";

TEST(MemoryAccess, AtomicOperationsTakeOneSerialBlock) {
  for (const char* atom : {"atom.global.add.u32 %r2, [%d0], %r0;", "atom.global.max.s32 %r2, [%d0], 5;",
                           "atom.global.exch.b32 %r2, [%d0], %r1;", "atom.global.cas.b32 %r2, [%d0], %r0, %r1;",
                           "red.global.xor.b32 [%d0], %r1; mov.u32 %r2, 0;"}) {
    const LoweredTestKernel lowered = Lower("", std::string(kThread) + atom + " st.global.u32 [%d2+4], %r2;", 8);
    ASSERT_TRUE(lowered.status.ok()) << lowered.status;
    EXPECT_EQ(SerialBlocks(lowered.launch.program), 1) << atom;
    const auto block = std::find_if(lowered.launch.program.blocks.begin(), lowered.launch.program.blocks.end(),
                                    [](const MachineBlock& b) { return b.control.serial; });
    const auto is = [&](Op op) {
      return std::any_of(block->slots.begin(), block->slots.end(), [&](const Instruction& in) { return in.op == op; });
    };
    EXPECT_TRUE(is(Op::kLd) && is(Op::kSt)) << atom;
  }
}

TEST(MemoryAccess, WhatDoesNotFitOneBlockStaysAtomic) {
  // Every thread of a machine warp adds 1 modulo 3: the tickets are 0, 1, 2, 3, 0, 1, ... in some order.
  const LoweredTestKernel lowered =
      Lower("", std::string(kThread) + "atom.global.inc.u32 %r2, [%d0], %r0; st.global.u32 [%d2+4], %r2;", 8);
  ASSERT_TRUE(lowered.status.ok()) << lowered.status;
  EXPECT_EQ(SerialBlocks(lowered.launch.program), 1);
  const MachineRun run = Interpret(lowered.launch, 20000);
  ASSERT_EQ(run.end, LaunchEnd::kDone);
  std::vector<uint32_t> tickets(run.state.memory.begin() + 2, run.state.memory.begin() + 10);
  std::sort(tickets.begin(), tickets.end());
  EXPECT_THAT(tickets, testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST(MemoryAccess, OneThreadNeedsNoSerialBlock) {
  const LoweredTestKernel lowered = Lower("", "atom.global.add.u32 %r2, [%d0], 1; st.global.u8 [%d0+5], %r2;", 1);
  ASSERT_TRUE(lowered.status.ok()) << lowered.status;
  EXPECT_EQ(SerialBlocks(lowered.launch.program), 0);
}

TEST(MemoryAccess, WaitingForAnotherMachineWarpEnds) {
  // The first thread waits for what the last one writes; then the last one for what the first one writes.
  const std::string wait =
      "setp.eq.u32 %p1, %r1, 0; @%p1 bra first; setp.ne.u32 %p1, %r1, 4; @%p1 bra end;\n"
      "st.global.u32 [%d0+4], 1;\nlast: ld.volatile.global.u32 %r2, [%d0+8]; setp.eq.u32 %p2, %r2, 0; @%p2 bra last;\n"
      "st.global.u32 [%d0+12], 5; bra end;\n"
      "first: atom.global.cas.b32 %r2, [%d0+4], 1, 2; setp.ne.u32 %p2, %r2, 1; @%p2 bra first;\n"
      "st.global.u32 [%d0+8], 1;\nend:";
  const LoweredTestKernel lowered = Lower("", kThread + wait, 5);
  ASSERT_TRUE(lowered.status.ok()) << lowered.status;
  const MachineRun run = Interpret(lowered.launch, 2000);
  EXPECT_EQ(run.end, LaunchEnd::kDone);
  EXPECT_EQ(run.state.memory[2], 2u);
  EXPECT_EQ(run.state.memory[4], 5u);
}

TEST(MemoryAccess, ProvenIndicesAreNotChecked) {
  const char* shared = ".shared .align 4 .b8 s[32];";
  const std::string proven = "mov.u64 %d3, s; add.u64 %d3, %d3, %d1; st.shared.u32 [%d3], %r1;";
  EXPECT_EQ(Slots(Lower(shared, kThread + proven, 8).launch.program, Op::kMinU), 0);
  // What is behind the end of memory traps by itself, what lies before shared memory does not.
  const LoweredTestKernel one_too_many = Lower(shared, kThread + proven, 9);
  EXPECT_EQ(Slots(one_too_many.launch.program, Op::kMinU), 0);
  EXPECT_EQ(Interpret(one_too_many.launch, 2000).end, LaunchEnd::kTrap);
  const LoweredTestKernel one_too_few = Lower(shared, kThread + proven + " st.shared.u32 [%d3+-4], %r1;", 8);
  EXPECT_EQ(Slots(one_too_few.launch.program, Op::kMinU), 1);
  EXPECT_EQ(Interpret(one_too_few.launch, 2000).end, LaunchEnd::kTrap);
  // The branch says enough.
  const std::string guarded = "setp.lt.u32 %p1, %r1, 8; @!%p1 bra end;\n" + proven + "\nend:";
  EXPECT_EQ(Slots(Lower(shared, kThread + guarded, 32).launch.program, Op::kMinU), 0);
  // So does the loop: for (i = t; i < 8; i += n) s[i] = t, with a pointer that walks.
  const std::string loop =
      "setp.gt.u32 %p1, %r1, 7; @%p1 bra end;\nmov.u64 %d3, s; add.u64 %d3, %d3, %d1; mov.u32 %r3, %r1;\n"
      "mul.wide.u32 %d4, %r0, 4;\nloop: st.shared.u32 [%d3], %r1; add.u32 %r3, %r3, %r0; add.u64 %d3, %d3, %d4;\n"
      "setp.lt.u32 %p2, %r3, 8; @%p2 bra loop;\nend:";
  const LoweredTestKernel lowered = Lower(shared, kThread + loop, 2);
  ASSERT_TRUE(lowered.status.ok()) << lowered.status;
}

TEST(MemoryAccess, PointersAreNotStored) {
  for (const char* store : {"st.global.u64 [%d0+4], %d2;", "atom.global.exch.b64 %d5, [%d0+4], %d0;",
                            "cvt.u32.u64 %r5, %d2; st.global.u32 [%d0], %r5;",
                            "mov.u64 %d3, %d0; loop: add.u64 %d3, %d3, 4; setp.ne.u32 %p1, %r0, 3; @%p1 bra loop; "
                            "st.global.u64 [%d0+4], %d3;"}) {
    const absl::Status status = Lower("", std::string(kThread) + store, 1).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << store;
    EXPECT_THAT(std::string(status.message()), HasSubstr("pointers in memory")) << store;
  }
  EXPECT_TRUE(Lower("", std::string(kThread) + "sub.u64 %d3, %d2, %d0; st.global.u64 [%d0+4], %d3;", 1).status.ok());
}

TEST(MemoryAccess, RefusalsSayWhy) {
  for (const auto& [body, why] :
       {std::pair{"atom.local.add.u32 %r2, [%d0], 1;", "atomic operations are for global and shared memory"},
        {"st.const.u32 [%d0], %r0;", "const memory is read-only"},
        {"ld.global.u32 %r2, [s];", "s is in shared memory"},
        {"mov.u64 %d1, nothing;", "nothing is no variable"},
        {"ld.param.u32 %r2, [out+6];", "parameters are read at aligned places only"},
        {"ld.global.v2.u32 {%r1, %r2, %r3}, [%d0];", "the vector has another length"},
        {"atom.global.add.f32 %r2, [%d0], %r1;", "needs floating point"}}) {
    EXPECT_THAT(std::string(Lower(".shared .u32 s;", body, 1).status.message()), HasSubstr(why)) << body;
  }
}

}  // namespace
}  // namespace qgpu::lower
