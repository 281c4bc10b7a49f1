#include "lowering/ptx_to_blocks/pack/best_variant.h"

#include <algorithm>
#include <optional>
#include <set>

#include "lowering/ptx_to_blocks/expand/expand_warp.h"
#include "lowering/ptx_to_blocks/ir/uniformity.h"
#include "lowering/ptx_to_blocks/pack/allocate.h"
#include "lowering/ptx_to_blocks/pack/emit.h"
#include "lowering/ptx_to_blocks/pack/phi_plan.h"
#include "lowering/ptx_to_blocks/pack/schedule.h"
#include "lowering/ptx_to_blocks/pack/select.h"
#include "lowering/ptx_to_blocks/pack/spill.h"
#include "lowering/ptx_to_blocks/simplify/if_convert.h"
#include "lowering/ptx_to_blocks/simplify/rings.h"
#include "lowering/ptx_to_blocks/simplify/simplify.h"
#include "lowering/ptx_to_blocks/simplify/strength.h"

namespace qgpu::lower {
namespace {

constexpr int kMostSpills = 64;

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

// What the packers work on, and what they made.
struct Plan {
  IrFunction function;
  FlowGraph flow;
  Layout layout;
  SchedulePlan schedule;
};

// Threads that wait at different barriers must not wait at the same machine block, or nobody would notice: barriers
// that threads may reach apart go on at places of their own.
void SeparateBarriers(IrFunction& function, const Dim3& block) {
  std::vector<int> apart;
  for (size_t i = 0; i < function.blocks.size(); ++i) {
    if (function.blocks[i].end.kind == TerminatorKind::kBarrier) apart.push_back(static_cast<int>(i));
  }
  if (apart.size() < 2) return;  // most kernels: not worth the analysis
  const Uniformity uniformity = AnalyzeUniformity(function, AnalyzeFlow(function), block);
  std::erase_if(apart, [&](int barrier) { return uniformity.block[barrier] == Spread::kUniform; });
  if (apart.size() < 2) return;
  for (int barrier : apart) {
    const int place = SplitAt(function, barrier, function.blocks[barrier].instructions.size());
    std::swap(function.blocks[barrier].end, function.blocks[place].end);
    std::swap(function.blocks[barrier].end.target, function.blocks[place].end.target);
    function.blocks[place].stays = true;
  }
}

absl::StatusOr<Plan> MakePlan(IrFunction function, const LaunchFacts& facts, const MachineGeometry& geometry,
                              PackingGoal goal) {
  Plan plan;
  SeparateBarriers(function, facts.block);
  Selection selection = SelectInstructions(function, AnalyzeFlow(function));
  const size_t slots = CountSlots(selection);
  if (slots > static_cast<size_t>(geometry.blocks * geometry.slots)) {  // before time is spent on it
    return absl::InvalidArgumentError(fmt::format("needs at least {} machine blocks, the ROM holds {}",
                                                  (slots + geometry.slots - 1) / geometry.slots, geometry.blocks));
  }
  SplitConflictingEdges(function, selection);
  plan.flow = AnalyzeFlow(function);
  QGPU_RETURN_IF_ERROR(CheckLanesTogether(function, plan.flow, facts.block));
  plan.layout = LayOutBlocks(plan.flow);
  const Liveness live = AnalyzeLiveness(function, plan.flow, selection);
  const PhiPlan phis = PlanPhis(function, plan.flow, live);
  plan.schedule = Schedule(function, plan.flow, plan.layout, live, phis, selection,
                           WriteBackCosts(function, plan.flow, facts), goal);
  plan.function = std::move(function);
  return plan;
}

absl::StatusOr<Packed> PackAndEmit(const IrFunction& function, const LaunchFacts& facts,
                                   const MachineGeometry& geometry, PackingGoal goal) {
  QGPU_ASSIGN_OR_RETURN(Plan plan, MakePlan(function, facts, geometry, goal));
  IrFunction broken = function;
  for (RingsToBreak which : {RingsToBreak::kOnce, RingsToBreak::kEverywhere}) {
    if (plan.schedule.complete) break;
    BreakRings(broken, which);
    QGPU_ASSIGN_OR_RETURN(plan, MakePlan(broken, facts, geometry, goal));
  }
  if (!plan.schedule.complete) return absl::UnimplementedError("no order was found for the variables of a loop");
  Packed out;
  out.cost = plan.schedule.cost;
  QGPU_ASSIGN_OR_RETURN(out.program,
                        EmitProgram(plan.function, plan.flow, plan.layout, std::move(plan.schedule), geometry));
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

// How many registers or predicates are missing, where that is what the error says.
int Missing(const absl::Status& status, const char* what) {
  const auto count = status.GetPayload(what);
  return count ? std::atoi(std::string(*count).c_str()) : 0;
}

// Whether so few machine blocks are missing that packing for size may save them.
bool IsNear(const absl::Status& status) {
  constexpr int kNear = 3;
  const int missing = Missing(status, kBlockShortage);
  return missing > 0 && missing <= kNear;
}

std::string Text(const absl::Status& status) { return std::string(status.message().data(), status.message().size()); }

// Spills until the registers suffice, or something else does not.
absl::StatusOr<Packed> PackWithSpilling(IrFunction function, const LaunchFacts& facts, const MachineGeometry& geometry,
                                        MemoryLayout layout) {
  const uint32_t free = layout.free_words();
  absl::Status first;
  for (int spills = 0; spills < kMostSpills;) {
    absl::StatusOr<Packed> packed = PackAndEmit(function, facts, geometry, PackingGoal::kFewRegisters);
    for (PackingGoal goal : {PackingGoal::kFewTokens, PackingGoal::kFewBlocks}) {
      if (spills == 0 || absl::IsResourceExhausted(packed.status())) break;
      if (goal == PackingGoal::kFewBlocks && !IsNear(packed.status())) break;
      absl::StatusOr<Packed> other = PackAndEmit(function, facts, geometry, goal);
      const bool better = other.ok() && (!packed.ok() || other->cost < packed->cost);
      if (better || (!packed.ok() && absl::IsResourceExhausted(other.status()))) packed = std::move(other);
    }
    if (packed.ok()) return packed;
    const int registers = Missing(packed.status(), kRegisterShortage);
    const int predicates = Missing(packed.status(), kPredicateShortage);
    if (spills == 0) first = packed.status();
    if (registers + predicates == 0) {
      if (spills == 0) return packed.status();
      return absl::InvalidArgumentError(fmt::format("{}; with spilling it {}", Text(first), Text(packed.status())));
    }
    SpillRequest request;
    request.block = facts.block;
    request.usable = (predicates != 0 ? geometry.predicates : geometry.registers) - 1;
    request.predicates = predicates != 0;
    for (int i = 0; i < std::max(registers, predicates); ++i, ++spills) {
      const SpillOutcome outcome = SpillOne(function, request, layout);
      if (outcome == SpillOutcome::kDone) continue;
      if (outcome == SpillOutcome::kNothingLeft && i > 0) break;
      if (outcome == SpillOutcome::kNothingLeft) return absl::InvalidArgumentError(Text(first));
      const uint64_t threads = facts.block.Count(), wanted = static_cast<uint64_t>(spills + registers - i);
      return absl::InvalidArgumentError(
          fmt::format("{}; spilling takes {} registers x {} threads = {} words, {} are free", Text(first), wanted,
                      threads, wanted * threads, free));
    }
  }
  return absl::InvalidArgumentError(Text(first));
}

}  // namespace

absl::StatusOr<Program> PackBestVariant(const IrFunction& function, const LaunchFacts& facts,
                                        const MachineGeometry& geometry, const MemoryLayout& layout) {
  absl::StatusOr<Packed> best = absl::InternalError("no variant");
  std::set<std::string> seen;
  std::vector<IrFunction> rewritten;
  for (const Variant& variant : kVariants) {
    rewritten.push_back(Rewritten(function, variant, facts));
    if (!seen.insert(ToText(rewritten.back())).second) rewritten.pop_back();
  }
  for (const IrFunction& candidate : rewritten) {
    absl::StatusOr<Packed> packed = PackAndEmit(candidate, facts, geometry, PackingGoal::kFewTokens);
    const bool first = &candidate == &rewritten.front();
    if (first || (packed.ok() && (!best.ok() || packed->cost < best->cost))) best = std::move(packed);
  }
  const bool few_missing = IsNear(best.status());
  for (PackingGoal goal : {PackingGoal::kFewBlocks, PackingGoal::kFewRegisters}) {
    if (goal == PackingGoal::kFewBlocks && !few_missing) continue;
    for (const IrFunction& candidate : rewritten) {
      if (best.ok()) break;
      absl::StatusOr<Packed> packed = PackAndEmit(candidate, facts, geometry, goal);
      if (packed.ok()) best = std::move(packed);
    }
  }
  for (const IrFunction* candidate : {&rewritten.front(), &rewritten[std::min<size_t>(3, rewritten.size() - 1)]}) {
    if (best.ok()) break;
    absl::StatusOr<Packed> packed = PackWithSpilling(*candidate, facts, geometry, layout);
    if (packed.ok() || absl::IsResourceExhausted(best.status())) best = std::move(packed);
  }
  QGPU_RETURN_IF_ERROR(best.status());
  return std::move(best->program);
}

}  // namespace qgpu::lower
