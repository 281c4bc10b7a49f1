// Branches, calls, barriers and warp-wide operations.
#include <cstddef>

#include "oracle/native_cpu/translator.h"

namespace qgpu::native {

void FunctionTranslator::JumpTo(int label) {
  const auto target = static_cast<size_t>(function_.labels[static_cast<size_t>(label)].instruction);
  if (target <= index_) CountBackwardBranch();
  builder_.CreateBr(blocks_.at(target));
}

absl::Status FunctionTranslator::Bra() {
  Take("uni");
  QGPU_RETURN_IF_ERROR(Finish(1));
  JumpTo(In(0).index);
  return absl::OkStatus();
}

// brx.idx a, targets;  an index outside of the list traps.
absl::Status FunctionTranslator::Brx() {
  if (!Take("idx")) return Unsupported();
  Take("uni");
  QGPU_RETURN_IF_ERROR(Finish(2));
  if (In(1).kind != ptx::Operand::Kind::kTargets) return Malformed("no list of branch targets");
  QGPU_ASSIGN_OR_RETURN(Value index, Read(In(0), 32));
  const std::vector<int>& targets = function_.branch_targets[static_cast<size_t>(In(1).index)].targets;
  llvm::BasicBlock* outside = NewBlock("outside");
  llvm::SwitchInst* jump = builder_.CreateSwitch(index, outside, static_cast<unsigned>(targets.size()));
  for (size_t i = 0; i < targets.size(); ++i) {
    llvm::BasicBlock* block = NewBlock("target");
    jump->addCase(builder_.getInt32(static_cast<uint32_t>(i)), block);
    builder_.SetInsertPoint(block);
    JumpTo(targets[i]);
  }
  builder_.SetInsertPoint(outside);
  return Trap();
}

// Copies between the variables of a call's list and the callee's parameters; registers and constants are values.
absl::Status FunctionTranslator::CopyArguments(const ptx::Operand* list, const std::vector<ptx::Variable>& formals,
                                               const ptx::Function& callee, bool to_callee) {
  const size_t given = list == nullptr ? 0 : list->elements.size();
  if (given != formals.size()) {
    return Malformed(fmt::format("{} takes {} values here instead of {}", callee.name, formals.size(), given));
  }
  Value param = builder_.CreateLoad(builder_.getPtrTy(), FieldAddress(offsetof(ThreadContext, param)));
  for (size_t i = 0; i < given; ++i) {
    const ptx::Operand& actual = list->elements[i];
    const VariablePlace* inside = unit_->layout->FindParameter(callee, formals[i].name);
    Value callee_side = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), param, inside->address);
    if (actual.kind == ptx::Operand::Kind::kSink) continue;
    if (actual.kind == ptx::Operand::Kind::kSymbol) {
      const VariablePlace* outside = unit_->layout->FindVariable(function_, actual);
      if (outside == nullptr || outside->space != MemorySpace::kParam || outside->bytes != inside->bytes) {
        return Malformed(fmt::format("{} does not fit the parameter {}", actual.name, formals[i].name));
      }
      Value caller_side = builder_.CreateConstGEP1_64(builder_.getInt8Ty(), param, outside->address);
      builder_.CreateMemCpy(to_callee ? callee_side : caller_side, llvm::Align(1),
                            to_callee ? caller_side : callee_side, llvm::Align(1), inside->bytes);
      continue;
    }
    const auto bits = static_cast<uint32_t>(8 * inside->bytes);
    if (bits > 64) return Malformed(fmt::format("a register does not fit the parameter {}", formals[i].name));
    const uint32_t value_bits = formals[i].type == "pred" ? 1 : bits;
    if (to_callee) {
      QGPU_ASSIGN_OR_RETURN(Value value, Read(actual, value_bits));
      builder_.CreateAlignedStore(Resize(value, bits, false), callee_side, llvm::Align(1));
    } else {
      Value value = builder_.CreateAlignedLoad(Int(bits), callee_side, llvm::Align(1));
      QGPU_RETURN_IF_ERROR(Write(actual, Resize(value, value_bits, false)));
    }
  }
  return absl::OkStatus();
}

// call (result), f, (arguments);  all parts but the name are optional.
absl::Status FunctionTranslator::Call() {
  using Kind = ptx::Operand::Kind;
  Take("uni");
  QGPU_RETURN_IF_ERROR(Finish(instruction_->operands.size()));
  size_t at = 0;
  const size_t count = instruction_->operands.size();
  const ptx::Operand* results = at < count && In(at).kind == Kind::kList ? &In(at++) : nullptr;
  if (at >= count || In(at).kind != Kind::kSymbol) return Unsupported("calls through function pointers");
  const std::string& name = In(at++).name;
  const ptx::Operand* arguments = at < count && In(at).kind == Kind::kList ? &In(at++) : nullptr;
  if (at != count) return Unsupported("calls through function pointers");
  const ptx::Function* callee = unit_->module->FindFunction(name);
  const auto compiled = unit_->functions.find(name);
  if (callee == nullptr || compiled == unit_->functions.end()) return Unsupported(fmt::format("the function {}", name));
  QGPU_RETURN_IF_ERROR(CopyArguments(arguments, callee->parameters, *callee, true));
  CountBackwardBranch();  // chains of calls can double the work at every level
  EndUnlessZero(builder_.CreateCall(compiled->second, {out_->getArg(0)}));
  return CopyArguments(results, callee->return_parameters, *callee, false);
}

absl::Status FunctionTranslator::Ret() {
  Take("uni");
  QGPU_RETURN_IF_ERROR(Finish(0));
  Return();
  return absl::OkStatus();
}

absl::Status FunctionTranslator::Exit() {
  QGPU_RETURN_IF_ERROR(Finish(0));
  builder_.CreateBr(end_block_);
  return absl::OkStatus();
}

absl::Status FunctionTranslator::Trap() {
  CallHost("RaiseTrap", 32, {out_->getArg(0), Const(32, InstructionId())});
  builder_.CreateBr(end_block_);
  return absl::OkStatus();
}

absl::Status FunctionTranslator::Bar() {
  if (Take("warp")) {
    if (!Take("sync")) return Unsupported();
    QGPU_RETURN_IF_ERROR(Finish(1));
    QGPU_ASSIGN_OR_RETURN(Value members, Read(In(0), 32));
    WarpOperation(WarpOp::kSync, Const(64, 0), Const(32, 0), Const(32, 0), members);
    return absl::OkStatus();
  }
  Take("cta");
  if (Take("sync")) return BarSync(instruction_->opcode == "barrier");
  if (Take("red")) return BarRed();
  return Unsupported();
}

// Only barrier 0, with all threads of the block.
absl::Status FunctionTranslator::BarSync(bool is_barrier) {
  if (is_barrier) Take("aligned");
  if (instruction_->operands.size() == 2) return Unsupported("barriers of a part of the block");
  QGPU_RETURN_IF_ERROR(Finish(1));
  if (In(0).kind != ptx::Operand::Kind::kInteger || In(0).value != 0) return Unsupported("barriers other than 0");
  EndUnlessZero(CallHost(
      "WaitAtBarrier", 32,
      {out_->getArg(0), Const(32, static_cast<uint64_t>(BarrierOp::kNone)), Const(32, 0), Const(32, InstructionId())}));
  return absl::OkStatus();
}

// bar.red.popc.u32 d, 0, p;  bar.red.{and,or}.pred d, 0, p;  .aligned stands before or behind the operation.
absl::Status FunctionTranslator::BarRed() {
  const bool is_aligned = Take("aligned");
  const std::string_view name = TakeOneOf("popc and or");
  if (!is_aligned) Take("aligned");
  if (name.empty() || !Take(name == "popc" ? "u32" : "pred")) return Unsupported();
  if (instruction_->operands.size() == 4) return Unsupported("barriers of a part of the block");
  QGPU_RETURN_IF_ERROR(Finish(3));
  if (In(1).kind != ptx::Operand::Kind::kInteger || In(1).value != 0) return Unsupported("barriers other than 0");
  QGPU_ASSIGN_OR_RETURN(Value predicate, ReadPredicate(In(2)));
  const BarrierOp operation = name == "popc"  ? BarrierOp::kPopulation
                              : name == "and" ? BarrierOp::kAnd
                                              : BarrierOp::kOr;
  EndUnlessZero(CallHost("WaitAtBarrier", 32,
                         {out_->getArg(0), Const(32, static_cast<uint64_t>(operation)), Resize(predicate, 32, false),
                          Const(32, InstructionId())}));
  Value result = Field(offsetof(ThreadContext, warp_result), 64);
  return Write(In(0), Resize(result, name == "popc" ? 32 : 1, false));
}

llvm::Value* FunctionTranslator::WarpOperation(WarpOp operation, Value value, Value lane, Value clamp, Value members) {
  EndUnlessZero(CallHost("RunWarpOp", 32,
                         {out_->getArg(0), Const(32, static_cast<uint64_t>(operation)), Resize(value, 64, false), lane,
                          clamp, members, Const(32, InstructionId())}));
  return Field(offsetof(ThreadContext, warp_result), 64);
}

// shfl.sync.mode.b32 d|p, a, b, c, members;
absl::Status FunctionTranslator::Shfl() {
  if (!Take("sync")) return Unsupported("shfl.sync: sm_70 and later have no other");
  const std::string_view mode = TakeOneOf("up down bfly idx");
  if (mode.empty()) return Unsupported();
  QGPU_RETURN_IF_ERROR(TakeType("b32").status());
  QGPU_RETURN_IF_ERROR(Finish(5));
  Value inputs[4];
  for (size_t i = 0; i < 4; ++i) {
    QGPU_ASSIGN_OR_RETURN(inputs[i], Read(In(i + 1), 32));
  }
  const WarpOp operation = mode == "up"     ? WarpOp::kShuffleUp
                           : mode == "down" ? WarpOp::kShuffleDown
                           : mode == "bfly" ? WarpOp::kShuffleXor
                                            : WarpOp::kShuffleIndex;
  Value result = Resize(WarpOperation(operation, inputs[0], inputs[1], inputs[2], inputs[3]), 32, false);
  if (In(0).kind != ptx::Operand::Kind::kPair) return Write(In(0), result);
  Value predicate = Resize(Field(offsetof(ThreadContext, warp_predicate), 32), 1, false);
  QGPU_RETURN_IF_ERROR(Write(In(0).elements[0], result));
  return Write(In(0).elements[1], predicate);
}

// vote.sync.mode.pred d, a, members;  vote.sync.ballot.b32 d, a, members;
absl::Status FunctionTranslator::Vote() {
  if (!Take("sync")) return Unsupported("vote.sync: sm_70 and later have no other");
  const std::string_view mode = TakeOneOf("all any uni ballot");
  if (mode.empty() || !Take(mode == "ballot" ? "b32" : "pred")) return Unsupported();
  QGPU_RETURN_IF_ERROR(Finish(3));
  QGPU_ASSIGN_OR_RETURN(Value predicate, ReadPredicate(In(1)));
  QGPU_ASSIGN_OR_RETURN(Value members, Read(In(2), 32));
  const WarpOp operation = mode == "all"   ? WarpOp::kVoteAll
                           : mode == "any" ? WarpOp::kVoteAny
                           : mode == "uni" ? WarpOp::kVoteUniform
                                           : WarpOp::kBallot;
  Value result = WarpOperation(operation, predicate, Const(32, 0), Const(32, 0), members);
  return Write(In(0), Resize(result, mode == "ballot" ? 32 : 1, false));
}

// match.any.sync.type d, a, members;  match.all.sync.type d|p, a, members;
absl::Status FunctionTranslator::Match() {
  const std::string_view mode = TakeOneOf("any all");
  if (mode.empty() || !Take("sync")) return Unsupported();
  QGPU_ASSIGN_OR_RETURN(const IntegerType type, TakeType("b32 b64"));
  QGPU_RETURN_IF_ERROR(Finish(3));
  QGPU_ASSIGN_OR_RETURN(Value value, Read(In(1), type.bits));
  QGPU_ASSIGN_OR_RETURN(Value members, Read(In(2), 32));
  const WarpOp operation = mode == "any" ? WarpOp::kMatchAny : WarpOp::kMatchAll;
  Value result = Resize(WarpOperation(operation, value, Const(32, 0), Const(32, 0), members), 32, false);
  if (In(0).kind != ptx::Operand::Kind::kPair) return Write(In(0), result);
  if (mode == "any") return Malformed("match.any has one result");
  Value predicate = Resize(Field(offsetof(ThreadContext, warp_predicate), 32), 1, false);
  QGPU_RETURN_IF_ERROR(Write(In(0).elements[0], result));
  return Write(In(0).elements[1], predicate);
}

// activemask.b32 d;  PTX does not say which threads run together in divergent code, so this waits for all live threads
// of the warp; where they cannot come together the run ends as a deadlock.
absl::Status FunctionTranslator::Activemask() {
  QGPU_RETURN_IF_ERROR(TakeType("b32").status());
  QGPU_RETURN_IF_ERROR(Finish(1));
  Value everyone = Const(32, 0xffffffff);
  return Write(
      In(0), Resize(WarpOperation(WarpOp::kActiveMask, Const(64, 0), Const(32, 0), Const(32, 0), everyone), 32, false));
}

// One run is sequentially consistent.
absl::Status FunctionTranslator::Fence() {
  if (instruction_->opcode == "membar") {
    if (TakeOneOf("cta gl sys").empty()) return Unsupported();
  } else {
    TakeOneOf("sc acq_rel");
    if (TakeOneOf("cta cluster gpu sys").empty()) return Unsupported();
  }
  return Finish(0);
}

// There is no cache to fetch into, and no address is too bad to be fetched.
absl::Status FunctionTranslator::Prefetch() {
  if (instruction_->opcode == "prefetch") TakeOneOf("global local");
  if (TakeOneOf("L1 L2 L2::evict_last L2::evict_normal").empty()) return Unsupported();
  return Finish(1);
}

// Nobody counts events.
absl::Status FunctionTranslator::Pmevent() {
  Take("mask");
  return Finish(1);
}

absl::Status FunctionTranslator::Nanosleep() {
  QGPU_RETURN_IF_ERROR(TakeType("u32").status());
  QGPU_RETURN_IF_ERROR(Finish(1));
  QGPU_RETURN_IF_ERROR(Read(In(0), 32).status());
  CountBackwardBranch();
  return absl::OkStatus();
}

}  // namespace qgpu::native
