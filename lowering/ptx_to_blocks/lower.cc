#include "lowering/ptx_to_blocks/lower.h"

#include <algorithm>
#include <bit>

#include "lowering/ptx_to_blocks/calls/inline_calls.h"
#include "lowering/ptx_to_blocks/expand/expand_bits.h"
#include "lowering/ptx_to_blocks/expand/expand_division.h"
#include "lowering/ptx_to_blocks/expand/expand_memory.h"
#include "lowering/ptx_to_blocks/expand/expand_warp.h"
#include "lowering/ptx_to_blocks/narrow/check_accesses.h"
#include "lowering/ptx_to_blocks/narrow/narrow.h"
#include "lowering/ptx_to_blocks/narrow/stored_pointers.h"
#include "lowering/ptx_to_blocks/pack/best_variant.h"
#include "lowering/ptx_to_blocks/pack/select.h"
#include "lowering/ptx_to_blocks/simplify/fold_ranges.h"
#include "lowering/ptx_to_blocks/simplify/simplify.h"
#include "lowering/ptx_to_blocks/simplify/strength.h"

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

// What cannot fit whatever becomes of it is refused before time is spent on it: at most four instructions become one
// slot, and a branch goes only where it becomes an instruction.
absl::Status CheckSize(const IrFunction& function, const MachineGeometry& geometry) {
  constexpr size_t kMostInOneSlot = 4;
  size_t count = 0;
  for (int block : AnalyzeFlow(function).order) {
    for (int value : function.blocks[block].instructions) count += function.at(value).op != IrOp::kPhi;
    count += function.blocks[block].end.kind == TerminatorKind::kBranch;
  }
  const size_t in_block = kMostInOneSlot * static_cast<size_t>(geometry.slots);
  const size_t blocks = (count + in_block - 1) / in_block;
  if (blocks <= static_cast<size_t>(geometry.blocks)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("needs at least {} machine blocks, the ROM holds {}", blocks, geometry.blocks));
}

}  // namespace

uint64_t ParameterBits(const Bytes& parameter, int offset) {
  uint64_t bits = 0;
  for (size_t i = 0; i < 8 && offset + i < parameter.size(); ++i) bits |= uint64_t{parameter[offset + i]} << (8 * i);
  return bits;
}

std::vector<uint32_t> ParameterValues(const LoweringInput& input, const std::vector<ParameterWord>& words) {
  std::vector<uint32_t> values;
  for (const ParameterWord& word : words) {
    values.push_back(static_cast<uint32_t>(ParameterBits(input.parameters[word.parameter], word.byte_offset)));
  }
  return values;
}

absl::StatusOr<LoweredBlocks> LowerToBlocks(const LoweringInput& input) {
  QGPU_ASSIGN_OR_RETURN(const ptx::Function kernel, InlineCalls(*input.module, *input.kernel));
  LayoutRequest request = {input.module, &kernel, &input.parameters};
  request.threads = static_cast<uint32_t>(input.block.Count());
  request.dynamic_shared_bytes = input.dynamic_shared_bytes;
  request.arena_words = input.arena_words;
  request.memory_words = static_cast<uint32_t>(input.geometry.memory_words);
  QGPU_ASSIGN_OR_RETURN(MemoryLayout layout, MemoryLayout::Create(request));
  QGPU_ASSIGN_OR_RETURN(Translation translation, Translate(*input.module, kernel, input.grid, input.block, layout));
  IrFunction& function = translation.function;
  function.source = input.module->name;
  QGPU_RETURN_IF_ERROR(RefuseStoredPointers(function, translation.words, input.is_buffer));
  LaunchFacts facts = FactsOf(input, translation.words);
  ExpandMemory(function, request.threads);
  Simplify(function);
  QGPU_RETURN_IF_ERROR(CheckSize(function, input.geometry));
  FoldAlignment(function, facts);
  Simplify(function);
  QGPU_RETURN_IF_ERROR(ExpandWideDivisions(function, facts));
  ExpandWideProducts(function);
  Simplify(function);
  QGPU_RETURN_IF_ERROR(Narrow(function, facts, &translation.words));
  facts = FactsOf(input, translation.words);
  Simplify(function);
  CheckAccesses(function, facts, layout);
  Simplify(function);
  if (FoldByRanges(function, facts)) Simplify(function);
  DropNeedlessSerial(function);
  if (HasCommonSteps(function)) {
    // Whether a branch parts threads matters here.
    for (int round = 0; round < 4 && FoldByRanges(function, facts); ++round) Simplify(function);
    QGPU_RETURN_IF_ERROR(ExpandWarp(function, input.grid, input.block, layout));
    Simplify(function);
  }
  QGPU_RETURN_IF_ERROR(ExpandDivisions(function, facts));
  ExpandBitLoops(function);
  Simplify(function);
  while (ShareByteIndices(function)) Simplify(function);
  QGPU_RETURN_IF_ERROR(CheckSize(function, input.geometry));
  LowerPredicatePhis(function);
  LoweredBlocks out;
  QGPU_ASSIGN_OR_RETURN(out.program, PackBestVariant(function, facts, input.geometry, layout));
  out.words = translation.words;
  out.layout = std::move(layout);
  return out;
}

}  // namespace qgpu::lower
