// The frame around the handlers: registers, blocks, guards, operands.
#include <algorithm>
#include <cstddef>

#include "oracle/native_cpu/translator.h"

namespace qgpu::native {
namespace {

bool HasWord(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = words.find(' ');
    if (words.substr(0, end) == word) return true;
    if (end == std::string_view::npos) break;
    words.remove_prefix(end + 1);
  }
  return false;
}

uint32_t RegisterBits(const ptx::Register& reg) {
  const auto type = ptx::LookUpType(reg.type);
  return type ? static_cast<uint32_t>(type->bits) : 64;
}

}  // namespace

FunctionTranslator::FunctionTranslator(TranslationUnit* unit, const ptx::Function& function, uint32_t first_id)
    : unit_(unit),
      function_(function),
      first_id_(first_id),
      out_(unit->functions.at(function.name)),
      builder_(unit->out->getContext()) {}

const std::unordered_map<std::string_view, FunctionTranslator::Handler>& FunctionTranslator::Handlers() {
  using F = FunctionTranslator;
  static const auto* const handlers = new std::unordered_map<std::string_view, Handler>{
      {"add", &F::Add},
      {"addc", &F::Addc},
      {"sub", &F::Sub},
      {"subc", &F::Subc},
      {"mul", &F::Mul},
      {"mad", &F::Mad},
      {"madc", &F::Madc},
      {"mul24", &F::Mul24},
      {"mad24", &F::Mad24},
      {"sad", &F::Sad},
      {"div", &F::Div},
      {"rem", &F::Rem},
      {"abs", &F::Abs},
      {"neg", &F::Neg},
      {"min", &F::Min},
      {"max", &F::Max},
      {"dp4a", &F::Dp4a},
      {"dp2a", &F::Dp2a},
      {"and", &F::And},
      {"or", &F::Or},
      {"xor", &F::Xor},
      {"not", &F::Not},
      {"cnot", &F::Cnot},
      {"lop3", &F::Lop3},
      {"shl", &F::Shl},
      {"shr", &F::Shr},
      {"shf", &F::Shf},
      {"bfe", &F::Bfe},
      {"bfi", &F::Bfi},
      {"bfind", &F::Bfind},
      {"bmsk", &F::Bmsk},
      {"szext", &F::Szext},
      {"brev", &F::Brev},
      {"fns", &F::Fns},
      {"popc", &F::Popc},
      {"clz", &F::Clz},
      {"prmt", &F::Prmt},
      {"setp", &F::Setp},
      {"set", &F::Set},
      {"selp", &F::Selp},
      {"slct", &F::Slct},
      {"mov", &F::Mov},
      {"cvt", &F::Cvt},
      {"ld", &F::Ld},
      {"ldu", &F::Ld},
      {"st", &F::St},
      {"atom", &F::Atom},
      {"red", &F::Red},
      {"cvta", &F::Cvta},
      {"bra", &F::Bra},
      {"brx", &F::Brx},
      {"call", &F::Call},
      {"ret", &F::Ret},
      {"exit", &F::Exit},
      {"trap", &F::Trap},
      {"bar", &F::Bar},
      {"barrier", &F::Bar},
      {"shfl", &F::Shfl},
      {"vote", &F::Vote},
      {"match", &F::Match},
      {"fence", &F::Fence},
      {"membar", &F::Fence},
      {"prefetch", &F::Prefetch},
      {"prefetchu", &F::Prefetch},
      {"nanosleep", &F::Nanosleep},
      {"pmevent", &F::Pmevent},
      {"isspacep", &F::Isspacep},
      {"activemask", &F::Activemask},
  };
  return *handlers;
}

absl::Status FunctionTranslator::Translate() {
  builder_.SetInsertPoint(llvm::BasicBlock::Create(builder_.getContext(), "entry", out_));
  DeclareRegisters();
  LoadRegisterParameters();
  DeclareBlocks();
  for (size_t i = 0; i < function_.instructions.size(); ++i) {
    if (const auto block = blocks_.find(i); block != blocks_.end()) {
      if (builder_.GetInsertBlock()->getTerminator() == nullptr) builder_.CreateBr(block->second);
      builder_.SetInsertPoint(block->second);
    } else if (builder_.GetInsertBlock()->getTerminator() != nullptr) {
      builder_.SetInsertPoint(NewBlock("unreachable"));
    }
    QGPU_RETURN_IF_ERROR(TranslateInstruction(i));
  }
  if (const auto block = blocks_.find(function_.instructions.size()); block != blocks_.end()) {
    if (builder_.GetInsertBlock()->getTerminator() == nullptr) builder_.CreateBr(block->second);
    builder_.SetInsertPoint(block->second);
  }
  if (builder_.GetInsertBlock()->getTerminator() == nullptr) Return();
  builder_.SetInsertPoint(end_block_);
  builder_.CreateRet(Const(32, kEnded));
  return absl::OkStatus();
}

void FunctionTranslator::DeclareRegisters() {
  for (const ptx::Register& reg : function_.registers) {
    llvm::AllocaInst* slot = builder_.CreateAlloca(Int(RegisterBits(reg)));
    builder_.CreateStore(Const(RegisterBits(reg), 0), slot);
    registers_.push_back(slot);
  }
  carry_ = builder_.CreateAlloca(Int(1));
  builder_.CreateStore(Const(1, 0), carry_);
}

void FunctionTranslator::DeclareBlocks() {
  end_block_ = NewBlock("end");
  for (const ptx::Label& label : function_.labels) {
    llvm::BasicBlock*& block = blocks_[static_cast<size_t>(label.instruction)];
    if (block == nullptr) block = NewBlock("label");
  }
}

// Parameters and results in registers, the old style, pass through the parameter space like all others: calls `use`
// with each one's register and its address there. One that the body does not mention has no register.
void FunctionTranslator::ForRegistersOf(const std::vector<ptx::Variable>& parameters,
                                        const std::function<void(llvm::AllocaInst*, Value)>& use) {
  for (const ptx::Variable& parameter : parameters) {
    if (parameter.space != ptx::Space::kReg) continue;
    for (size_t i = 0; i < function_.registers.size(); ++i) {
      if (function_.registers[i].name != parameter.name) continue;
      const VariablePlace* place = unit_->layout->FindParameter(function_, parameter.name);
      Value base = builder_.CreateLoad(builder_.getPtrTy(), FieldAddress(offsetof(ThreadContext, param)));
      use(registers_[i], builder_.CreateConstGEP1_64(builder_.getInt8Ty(), base, place->address));
    }
  }
}

void FunctionTranslator::LoadRegisterParameters() {
  ForRegistersOf(function_.parameters, [this](llvm::AllocaInst* reg, Value address) {
    const uint32_t bits = reg->getAllocatedType()->getIntegerBitWidth();
    Value value = builder_.CreateAlignedLoad(Int(std::max(8u, bits)), address, llvm::Align(1));
    builder_.CreateStore(Resize(value, bits, false), reg);
  });
}

void FunctionTranslator::Return() {
  ForRegistersOf(function_.return_parameters, [this](llvm::AllocaInst* reg, Value address) {
    Value value = builder_.CreateLoad(reg->getAllocatedType(), reg);
    const uint32_t bits = reg->getAllocatedType()->getIntegerBitWidth();
    builder_.CreateAlignedStore(Resize(value, std::max(8u, bits), false), address, llvm::Align(1));
  });
  builder_.CreateRet(Const(32, kReturned));
}

absl::Status FunctionTranslator::TranslateInstruction(size_t index) {
  index_ = index;
  instruction_ = &function_.instructions[index];
  cursor_ = 0;
  if (!instruction_->guard) return Dispatch();
  QGPU_ASSIGN_OR_RETURN(Value condition, ReadPredicate(*instruction_->guard));
  llvm::BasicBlock* guarded = NewBlock("guarded");
  llvm::BasicBlock* next = NewBlock("next");
  builder_.CreateCondBr(condition, guarded, next);
  builder_.SetInsertPoint(guarded);
  QGPU_RETURN_IF_ERROR(Dispatch());
  if (builder_.GetInsertBlock()->getTerminator() == nullptr) builder_.CreateBr(next);
  builder_.SetInsertPoint(next);
  return absl::OkStatus();
}

absl::Status FunctionTranslator::Dispatch() {
  const bool is_float =
      std::any_of(instruction_->modifiers.begin(), instruction_->modifiers.end(), [](const std::string& modifier) {
        const auto type = ptx::LookUpType(modifier);
        return type && type->kind == ptx::TypeInfo::Kind::kFloat;
      });
  if (is_float) return Unsupported("floating point");
  const auto handler = Handlers().find(instruction_->opcode);
  if (handler == Handlers().end()) return Unsupported();
  return (this->*handler->second)();
}

bool FunctionTranslator::Take(std::string_view word) {
  if (cursor_ >= instruction_->modifiers.size() || instruction_->modifiers[cursor_] != word) return false;
  ++cursor_;
  return true;
}

std::string_view FunctionTranslator::TakeOneOf(std::string_view words) {
  if (cursor_ >= instruction_->modifiers.size() || !HasWord(words, instruction_->modifiers[cursor_])) return "";
  return instruction_->modifiers[cursor_++];
}

absl::StatusOr<IntegerType> FunctionTranslator::TakeType(std::string_view types) {
  const std::string_view word = TakeOneOf(types);
  const auto type = ptx::LookUpType(word);
  if (!type) return Unsupported();
  return IntegerType{static_cast<uint32_t>(type->bits), type->kind == ptx::TypeInfo::Kind::kSigned,
                     type->kind == ptx::TypeInfo::Kind::kBits};
}

absl::Status FunctionTranslator::Finish(size_t operands) {
  if (cursor_ != instruction_->modifiers.size()) return Unsupported();
  if (instruction_->operands.size() == operands) return absl::OkStatus();
  return Malformed(fmt::format("{} operands instead of {}", instruction_->operands.size(), operands));
}

absl::Status FunctionTranslator::Unsupported(const std::string& needed) const {
  return absl::UnimplementedError(fmt::format("{}: unsupported instruction `{}`{}{}",
                                              Place(*unit_->module, instruction_->location), ToString(*instruction_),
                                              needed.empty() ? "" : ": needs ", needed));
}

absl::Status FunctionTranslator::Malformed(const std::string& message) const {
  return absl::InvalidArgumentError(
      fmt::format("{}: `{}`: {}", Place(*unit_->module, instruction_->location), ToString(*instruction_), message));
}

absl::StatusOr<llvm::Value*> FunctionTranslator::ReadRegister(const ptx::Operand& operand) {
  if (!operand.component.empty() || function_.registers[operand.index].vector != 1) {
    return Unsupported("vector registers");
  }
  llvm::AllocaInst* slot = registers_[operand.index];
  Value value = builder_.CreateLoad(slot->getAllocatedType(), slot);
  if (!operand.negated) return value;
  if (!value->getType()->isIntegerTy(1)) return Malformed(operand.name + " is not a predicate");
  return builder_.CreateNot(value);
}

absl::StatusOr<llvm::Value*> FunctionTranslator::Read(const ptx::Operand& operand, uint32_t bits) {
  using Kind = ptx::Operand::Kind;
  if (operand.kind == Kind::kInteger) return Const(bits, bits == 1 ? operand.value != 0 : operand.value);
  Value value = nullptr;
  if (operand.kind == Kind::kRegister) {
    QGPU_ASSIGN_OR_RETURN(value, ReadRegister(operand));
  } else if (operand.kind == Kind::kSpecial) {
    QGPU_ASSIGN_OR_RETURN(value, ReadSpecial(operand));
  } else if (operand.kind == Kind::kSymbol) {
    const VariablePlace* place = unit_->layout->FindVariable(function_, operand);
    if (place == nullptr) return Unsupported(fmt::format("the address of {}", operand.name));
    if (bits != 32 && bits != 64) return Malformed("an address has 32 or 64 bits");
    return Const(bits, place->address + operand.value);
  } else if (operand.kind == Kind::kFloat) {
    return Unsupported("floating point");
  } else {
    return Unsupported();
  }
  const uint32_t width = value->getType()->getIntegerBitWidth();
  if (width != bits) {
    return Malformed(fmt::format("{} has {} bits, the instruction takes {}", ToString(operand), width, bits));
  }
  return value;
}

absl::StatusOr<llvm::Value*> FunctionTranslator::ReadAtLeast(const ptx::Operand& operand, uint32_t bits) {
  if (operand.kind != ptx::Operand::Kind::kRegister) {
    if (operand.kind != ptx::Operand::Kind::kSpecial) return Read(operand, bits);
    QGPU_ASSIGN_OR_RETURN(Value special, ReadSpecial(operand));
    if (special->getType()->getIntegerBitWidth() < bits) return Read(operand, bits);
    return Resize(special, bits, false);
  }
  QGPU_ASSIGN_OR_RETURN(Value value, ReadRegister(operand));
  if (value->getType()->isIntegerTy(1) || value->getType()->getIntegerBitWidth() < bits) return Read(operand, bits);
  return Resize(value, bits, false);
}

absl::StatusOr<llvm::Value*> FunctionTranslator::ReadSpecial(const ptx::Operand& operand) {
  const std::string& name = operand.name;
  const struct {
    std::string_view prefix;
    size_t offset;
  } kVectors[] = {{"%tid.", offsetof(ThreadContext, tid)},
                  {"%ntid.", offsetof(ThreadContext, ntid)},
                  {"%ctaid.", offsetof(ThreadContext, ctaid)},
                  {"%nctaid.", offsetof(ThreadContext, nctaid)}};
  for (const auto& vector : kVectors) {
    if (name.substr(0, vector.prefix.size()) != vector.prefix) continue;
    const size_t axis = std::string_view("xyzw").find(name.substr(vector.prefix.size()));
    if (name.size() != vector.prefix.size() + 1 || axis > 3) return Unsupported();
    return axis == 3 ? Const(32, 0) : Field(vector.offset + axis * sizeof(uint32_t), 32);
  }
  if (name == "%laneid") return Field(offsetof(ThreadContext, laneid), 32);
  if (name == "%warpid") return Field(offsetof(ThreadContext, warpid), 32);
  if (name == "%nwarpid") return Field(offsetof(ThreadContext, nwarpid), 32);
  if (name == "%dynamic_smem_size") return Field(offsetof(ThreadContext, dynamic_shared_bytes), 32);
  if (name == "%total_smem_size") return Field(offsetof(ThreadContext, total_shared_bytes), 32);
  if (name.substr(0, 10) != "%lanemask_") return Unsupported(name);
  Value bit = builder_.CreateShl(Const(32, 1), Field(offsetof(ThreadContext, laneid), 32));
  Value below = builder_.CreateSub(bit, Const(32, 1));
  const std::string kind = name.substr(10);
  if (kind == "eq") return bit;
  if (kind == "lt") return below;
  if (kind == "le") return builder_.CreateOr(bit, below);
  if (kind == "ge") return builder_.CreateNot(below);
  return builder_.CreateNot(builder_.CreateOr(bit, below));
}

absl::Status FunctionTranslator::Write(const ptx::Operand& operand, Value value) {
  if (operand.kind == ptx::Operand::Kind::kSink) return absl::OkStatus();
  if (operand.kind != ptx::Operand::Kind::kRegister) return Malformed(ToString(operand) + " is not a register");
  if (!operand.component.empty() || function_.registers[operand.index].vector != 1) {
    return Unsupported("vector registers");
  }
  llvm::AllocaInst* slot = registers_[operand.index];
  const uint32_t width = slot->getAllocatedType()->getIntegerBitWidth();
  const uint32_t bits = value->getType()->getIntegerBitWidth();
  if (width != bits) {
    return Malformed(fmt::format("{} has {} bits, the result {}", operand.name, width, bits));
  }
  builder_.CreateStore(value, slot);
  return absl::OkStatus();
}

absl::Status FunctionTranslator::WriteExtended(const ptx::Operand& operand, Value value, bool is_signed) {
  if (operand.kind != ptx::Operand::Kind::kRegister) return Write(operand, value);
  const uint32_t width = registers_[operand.index]->getAllocatedType()->getIntegerBitWidth();
  if (width <= value->getType()->getIntegerBitWidth()) return Write(operand, value);
  return Write(operand, Resize(value, width, is_signed));
}

llvm::Value* FunctionTranslator::FieldAddress(size_t offset) {
  return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), out_->getArg(0), offset);
}

llvm::Value* FunctionTranslator::Field(size_t offset, uint32_t bits) {
  return builder_.CreateLoad(Int(bits), FieldAddress(offset));
}

llvm::Value* FunctionTranslator::CallHost(const char* name, uint32_t result_bits, std::vector<Value> arguments) {
  std::vector<llvm::Type*> types;
  for (Value argument : arguments) types.push_back(argument->getType());
  llvm::Type* result = result_bits == 0 ? builder_.getPtrTy() : static_cast<llvm::Type*>(Int(result_bits));
  return builder_.CreateCall(unit_->out->getOrInsertFunction(name, llvm::FunctionType::get(result, types, false)),
                             arguments);
}

void FunctionTranslator::EndUnlessZero(Value status) {
  llvm::BasicBlock* go_on = NewBlock("go_on");
  builder_.CreateCondBr(builder_.CreateICmpEQ(status, Const(32, kReturned)), go_on, end_block_);
  builder_.SetInsertPoint(go_on);
}

void FunctionTranslator::CountBackwardBranch() {
  Value address = FieldAddress(offsetof(ThreadContext, slice));
  Value left = builder_.CreateSub(builder_.CreateLoad(Int(64), address), Const(64, 1));
  builder_.CreateStore(left, address);
  llvm::BasicBlock* spent = NewBlock("slice_spent");
  llvm::BasicBlock* go_on = NewBlock("go_on");
  builder_.CreateCondBr(builder_.CreateICmpSLE(left, Const(64, 0)), spent, go_on);
  builder_.SetInsertPoint(spent);
  EndUnlessZero(CallHost("EndOfSlice", 32, {out_->getArg(0), Const(32, InstructionId())}));
  builder_.CreateBr(go_on);
  builder_.SetInsertPoint(go_on);
}

llvm::BasicBlock* FunctionTranslator::NewBlock(const char* name) {
  return llvm::BasicBlock::Create(builder_.getContext(), name, out_);
}

}  // namespace qgpu::native
