#include "lowering/ptx_to_blocks/lower.h"

#include <algorithm>
#include <bit>
#include <set>

#include "lowering/ptx_to_blocks/check_accesses.h"
#include "lowering/ptx_to_blocks/emit.h"
#include "lowering/ptx_to_blocks/expand_bits.h"
#include "lowering/ptx_to_blocks/expand_division.h"
#include "lowering/ptx_to_blocks/expand_warp.h"
#include "lowering/ptx_to_blocks/expand_memory.h"
#include "lowering/ptx_to_blocks/if_convert.h"
#include "lowering/ptx_to_blocks/inline_calls.h"
#include "lowering/ptx_to_blocks/narrow.h"
#include "lowering/ptx_to_blocks/phi_plan.h"
#include "lowering/ptx_to_blocks/schedule.h"
#include "lowering/ptx_to_blocks/select.h"
#include "lowering/ptx_to_blocks/simplify.h"
#include "lowering/ptx_to_blocks/strength.h"

namespace qgpu::lower {
namespace {

// The largest power of two, at most 16, that divides an address.
uint32_t AlignmentOf(uint64_t address) { return 1u << std::min(4, std::countr_zero(address)); }

LaunchFacts FactsOf(const LoweringInput& input, const std::vector<ParameterWord>& words) {
  LaunchFacts facts;
  facts.grid = input.grid;
  facts.block = input.block;
  facts.token_budget = input.token_budget;
  for (const ParameterWord& word : words) {
    facts.words.push_back(ParameterBits(input.parameters[word.parameter], word.byte_offset));
    const bool is_address = input.is_buffer[word.parameter] && word.byte_offset == 0;
    facts.alignment.push_back(is_address ? AlignmentOf(facts.words.back()) : 0);
  }
  return facts;
}

struct Packed {
  Program program;
  int64_t cost = 0;
};

// Slots that the nodes take at least.
size_t CountSlots(const Selection& selection) {
  size_t count = 0;
  for (const std::vector<Node>& nodes : selection.nodes) {
    count += std::count_if(nodes.begin(), nodes.end(), [](const Node& node) { return node.implied_by < 0; });
  }
  return count;
}

absl::StatusOr<Packed> PackAndEmit(IrFunction function, const LaunchFacts& facts, const MachineGeometry& geometry,
                                   bool in_program_order) {
  Selection selection = SelectInstructions(function, AnalyzeFlow(function));
  const size_t slots = CountSlots(selection);
  if (slots > static_cast<size_t>(geometry.blocks * geometry.slots)) {  // before time is spent on it
    return absl::InvalidArgumentError(fmt::format("needs at least {} machine blocks, the ROM holds {}",
                                                  (slots + geometry.slots - 1) / geometry.slots, geometry.blocks));
  }
  SplitConflictingEdges(function, selection);
  const FlowGraph flow = AnalyzeFlow(function);
  QGPU_RETURN_IF_ERROR(CheckLanesTogether(function, flow, facts.block));
  const Layout layout = LayOutBlocks(flow);
  const Liveness live = AnalyzeLiveness(function, flow, selection);
  const PhiPlan phis = PlanPhis(function, flow, live);
  SchedulePlan schedule =
      Schedule(function, flow, layout, live, phis, selection, WriteBackCosts(function, flow, facts), in_program_order);
  if (!schedule.complete) {
    return absl::UnimplementedError("a loop that rotates more than four values at once is not supported");
  }
  Packed out;
  out.cost = schedule.cost;
  QGPU_ASSIGN_OR_RETURN(out.program, EmitProgram(function, flow, layout, std::move(schedule), geometry));
  return out;
}

// Rewrites that usually pay, but not for every kernel: each combination is packed, and the cheapest that fits is taken.
struct Variant {
  bool replace_counters, convert_branches, rebase_indices;
};
constexpr Variant kVariants[] = {{true, true, false},   {true, false, false}, {false, true, false},
                                 {false, false, false}, {true, true, true},   {true, false, true}};

IrFunction Rewritten(IrFunction function, const Variant& variant, const LaunchFacts& facts) {
  while (variant.replace_counters && ReplaceCounters(function, facts)) Simplify(function);
  while (variant.rebase_indices && RebaseIndices(function)) Simplify(function);
  while (variant.convert_branches && ConvertShortBranches(function)) Simplify(function);
  return function;
}

absl::StatusOr<Program> PackBestVariant(const IrFunction& function, const LaunchFacts& facts,
                                        const MachineGeometry& geometry) {
  absl::StatusOr<Packed> best = absl::InternalError("no variant");
  std::set<std::string> seen;
  for (const Variant& variant : kVariants) {
    IrFunction rewritten = Rewritten(function, variant, facts);
    if (!seen.insert(ToText(rewritten)).second) continue;
    absl::StatusOr<Packed> packed = PackAndEmit(std::move(rewritten), facts, geometry, /*in_program_order=*/false);
    const bool first = seen.size() == 1;
    if (first || (packed.ok() && (!best.ok() || packed->cost < best->cost))) best = std::move(packed);
  }
  for (const Variant& variant : kVariants) {  // too many registers, perhaps: another order may need fewer
    if (best.ok()) break;
    absl::StatusOr<Packed> packed =
        PackAndEmit(Rewritten(function, variant, facts), facts, geometry, /*in_program_order=*/true);
    if (packed.ok()) best = std::move(packed);
  }
  QGPU_RETURN_IF_ERROR(best.status());
  return std::move(best->program);
}

}  // namespace

uint64_t ParameterBits(const Bytes& parameter, int offset) {
  uint64_t bits = 0;
  for (size_t i = 0; i < 8 && offset + i < parameter.size(); ++i) bits |= uint64_t{parameter[offset + i]} << (8 * i);
  return bits;
}

absl::StatusOr<LoweredBlocks> LowerToBlocks(const LoweringInput& input) {
  QGPU_ASSIGN_OR_RETURN(const ptx::Function kernel, InlineCalls(*input.module, *input.kernel));
  LayoutRequest request = {input.module, &kernel, &input.parameters};
  request.threads = static_cast<uint32_t>(input.block.Count());
  request.dynamic_shared_bytes = input.dynamic_shared_bytes;
  request.arena_words = input.arena_words;
  request.memory_words = static_cast<uint32_t>(input.geometry.memory_words);
  QGPU_ASSIGN_OR_RETURN(MemoryLayout layout, MemoryLayout::Create(request));
  QGPU_ASSIGN_OR_RETURN(Translation translation,
                        Translate(*input.module, kernel, input.grid, input.block, layout));
  IrFunction& function = translation.function;
  function.source = input.module->name;
  LaunchFacts facts = FactsOf(input, translation.words);
  ExpandMemory(function, request.threads);
  Simplify(function);
  FoldAlignment(function, facts);
  Simplify(function);
  QGPU_RETURN_IF_ERROR(ExpandWideDivisions(function, facts));
  Simplify(function);
  QGPU_RETURN_IF_ERROR(Narrow(function, facts, &translation.words));
  facts = FactsOf(input, translation.words);
  Simplify(function);
  CheckAccesses(function, facts, layout);
  Simplify(function);
  DropNeedlessSerial(function);
  if (HasCommonSteps(function)) {
    while (FoldByShape(function, input.grid, input.block)) Simplify(function);
    QGPU_RETURN_IF_ERROR(ExpandWarp(function, input.grid, input.block, layout));
    Simplify(function);
  }
  QGPU_RETURN_IF_ERROR(ExpandDivisions(function, facts));
  ExpandBitLoops(function);
  Simplify(function);
  while (ShareByteIndices(function)) Simplify(function);
  LowerPredicatePhis(function);
  LoweredBlocks out;
  QGPU_ASSIGN_OR_RETURN(out.program, PackBestVariant(function, facts, input.geometry));
  out.words = translation.words;
  out.layout = std::move(layout);
  return out;
}

}  // namespace qgpu::lower
