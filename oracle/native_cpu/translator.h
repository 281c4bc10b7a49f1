// PTX to LLVM IR, private to this directory. Registers become stack slots, every label a basic block; the code of each
// instruction is built by the handler that the table in translate_function.cc gives for its opcode. A handler takes
// the modifiers in PTX's order and refuses what is left over, so that nothing is ignored by accident.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/status.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "lowering/ptx/ptx.h"
#include "oracle/native_cpu/runtime.h"

namespace qgpu::native {

struct ParameterSlot {
  std::string name;
  uint32_t offset = 0;  // in the parameter space
  uint32_t bytes = 0;
  bool is_word = false;  // a scalar of a fundamental type, not an array of bytes
};

struct Translation {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  std::string entry;  // symbol of the kernel
  Footprint footprint;
  std::vector<ParameterSlot> parameters;
  std::vector<ptx::SourceLocation> places;  // by the instruction ids that compiled code passes
};

// The kernel and every function it calls. Errors as NativeCpuKernel::Compile.
absl::StatusOr<Translation> Translate(const ptx::Module& module, const ptx::Function& kernel);

// Where variables lie. Addresses are those of their state space.
struct VariablePlace {
  MemorySpace space = MemorySpace::kGlobal;
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// Layout of all state spaces for one kernel: module variables, and the variables and parameters of `functions`, the
// first of which is the kernel. No function is entered twice at a time, so each has fixed places.
class MemoryLayout {
 public:
  static absl::StatusOr<MemoryLayout> Create(const ptx::Module& module,
                                             const std::vector<const ptx::Function*>& functions);

  // nullptr for what is not a variable.
  const VariablePlace* FindVariable(const ptx::Function& function, const ptx::Operand& symbol) const;
  const VariablePlace* FindParameter(const ptx::Function& function, const std::string& name) const;
  const Footprint& footprint() const { return footprint_; }

 private:
  absl::Status AddModuleVariables(const ptx::Module& module);
  absl::Status AddFunction(const ptx::Module& module, const ptx::Function& function);
  void PlaceDynamicShared(const ptx::Module& module);
  absl::Status FillInitializers(const ptx::Module& module);
  absl::StatusOr<uint64_t> InitialValue(const ptx::Module& module, const ptx::Variable& variable,
                                        const ptx::Initializer& initializer) const;
  absl::StatusOr<VariablePlace> Reserve(const ptx::Module& module, const ptx::Variable& variable);

  std::unordered_map<std::string, VariablePlace> module_variables_;
  std::unordered_map<const ptx::Function*, std::vector<VariablePlace>> variables_;
  std::unordered_map<const ptx::Function*, std::unordered_map<std::string, VariablePlace>> parameters_;
  Footprint footprint_;
};

struct IntegerType {
  uint32_t bits = 0;
  bool is_signed = false;
  bool is_bits = false;  // .b
};

// What the translation of all functions shares.
struct TranslationUnit {
  const ptx::Module* module;
  const MemoryLayout* layout;
  llvm::Module* out;
  std::unordered_map<std::string, llvm::Function*> functions;  // by PTX name
};

class FunctionTranslator {
 public:
  // `first_id` is the id of the function's first instruction.
  FunctionTranslator(TranslationUnit* unit, const ptx::Function& function, uint32_t first_id);
  absl::Status Translate();

 private:
  using Value = llvm::Value*;
  using Handler = absl::Status (FunctionTranslator::*)();
  static const std::unordered_map<std::string_view, Handler>& Handlers();

  // translate_function.cc: the frame.
  void DeclareRegisters();
  void DeclareBlocks();
  void ForRegistersOf(const std::vector<ptx::Variable>& parameters,
                      const std::function<void(llvm::AllocaInst*, Value)>& use);
  void LoadRegisterParameters();
  void Return();
  absl::Status TranslateInstruction(size_t index);
  absl::Status Dispatch();

  // Modifiers of the current instruction, taken from the front.
  bool Take(std::string_view word);
  std::string_view TakeOneOf(std::string_view words);  // "" when the next is none of them
  absl::StatusOr<IntegerType> TakeType(std::string_view types);
  absl::Status Finish(size_t operands);

  absl::Status Unsupported(const std::string& needed = "") const;
  absl::Status Malformed(const std::string& message) const;
  const ptx::Operand& In(size_t index) const { return instruction_->operands[index]; }

  // Operands.
  absl::StatusOr<Value> Read(const ptx::Operand& operand, uint32_t bits);
  absl::StatusOr<Value> ReadAtLeast(const ptx::Operand& operand, uint32_t bits);  // wider registers are cut
  absl::StatusOr<Value> ReadSpecial(const ptx::Operand& operand);
  absl::StatusOr<Value> ReadRegister(const ptx::Operand& operand);
  absl::Status Write(const ptx::Operand& operand, Value value);
  absl::Status WriteExtended(const ptx::Operand& operand, Value value, bool is_signed);
  absl::StatusOr<Value> ReadPredicate(const ptx::Operand& operand) { return Read(operand, 1); }

  // Code.
  llvm::IntegerType* Int(uint32_t bits) { return builder_.getIntNTy(bits); }
  Value Const(uint32_t bits, uint64_t value) { return llvm::ConstantInt::get(Int(bits), value); }
  Value Resize(Value value, uint32_t bits, bool is_signed) {
    return builder_.CreateIntCast(value, Int(bits), is_signed);
  }
  Value Field(size_t offset, uint32_t bits);
  Value FieldAddress(size_t offset);
  Value CallHost(const char* name, uint32_t result_bits, std::vector<Value> arguments);
  void EndUnlessZero(Value status);
  void CountBackwardBranch();
  llvm::BasicBlock* NewBlock(const char* name);
  uint32_t InstructionId() const { return first_id_ + static_cast<uint32_t>(index_); }

  // translate_arithmetic.cc
  using BinaryCode = std::function<Value(Value, Value, const IntegerType&)>;
  absl::Status Binary(std::string_view types, const BinaryCode& code);
  absl::Status Unary(std::string_view types, const std::function<Value(Value, const IntegerType&)>& code);
  Value HighProduct(Value a, Value b, const IntegerType& type);
  Value AddWithCarry(Value a, Value b, bool carry_in, bool carry_out);
  Value SubtractWithBorrow(Value a, Value b, bool carry_in, bool carry_out);
  Value Quotient(Value a, Value b, const IntegerType& type, bool remainder);
  absl::Status AddOrSubtract(bool subtract, bool carry_in);
  absl::Status MultiplyAdd(bool carry_in);
  absl::Status MultiplyAdd24(bool add);
  absl::Status Add();
  absl::Status Addc();
  absl::Status Sub();
  absl::Status Subc();
  absl::Status Mul();
  absl::Status Mad();
  absl::Status Madc();
  absl::Status Mul24();
  absl::Status Mad24();
  absl::Status Sad();
  absl::Status Div();
  absl::Status Rem();
  absl::Status Abs();
  absl::Status Neg();
  absl::Status Min();
  absl::Status Max();
  absl::Status Dp4a();
  absl::Status Dp2a();

  // translate_bits.cc
  absl::Status Logic(llvm::Instruction::BinaryOps operation);
  absl::Status And();
  absl::Status Or();
  absl::Status Xor();
  absl::Status Not();
  absl::Status Cnot();
  absl::Status Lop3();
  absl::Status Shl();
  absl::Status Shr();
  absl::Status Shf();
  absl::Status Bfe();
  absl::Status Bfi();
  absl::Status Bfind();
  absl::Status Bmsk();
  absl::Status Szext();
  absl::Status Brev();
  absl::Status Fns();
  absl::Status Popc();
  absl::Status Clz();
  absl::Status Prmt();

  // translate_move.cc
  absl::StatusOr<Value> Compare(std::string_view comparison, Value a, Value b, const IntegerType& type);
  Value Combine(std::string_view operation, Value a, Value b);
  absl::Status Setp();
  absl::Status Set();
  absl::Status Selp();
  absl::Status Slct();
  absl::Status Mov();
  absl::Status MovVector();
  absl::Status Pack(uint32_t bits);
  absl::Status Unpack(uint32_t bits);
  Value Saturate(Value value, const IntegerType& from, const IntegerType& to);
  absl::Status Cvt();
  absl::Status CvtPack();

  // translate_memory.cc
  struct Access {
    MemorySpace space = MemorySpace::kGeneric;
    std::string_view type;
    uint32_t elements = 1;
  };
  absl::StatusOr<Access> TakeAccess(bool is_store);
  absl::StatusOr<Value> HostAddress(const ptx::Operand& address, MemorySpace space, uint32_t bytes, bool is_store);
  bool TakeSpace(MemorySpace* space);
  absl::Status Ld();
  absl::Status St();
  absl::Status Atom();
  absl::Status Red();
  absl::Status Atomic(bool has_result);
  absl::StatusOr<Value> AtomicResult(std::string_view operation, const IntegerType& type, Value old,
                                     size_t first_operand);
  absl::Status Cvta();
  absl::Status Isspacep();

  // translate_control.cc
  absl::Status Bra();
  absl::Status Brx();
  absl::Status Call();
  absl::Status CopyArguments(const ptx::Operand* list, const std::vector<ptx::Variable>& formals,
                             const ptx::Function& callee, bool to_callee);
  absl::Status Ret();
  absl::Status Exit();
  absl::Status Trap();
  absl::Status Bar();
  absl::Status BarSync(bool is_barrier);
  absl::Status BarRed();
  absl::Status Shfl();
  absl::Status Vote();
  absl::Status Match();
  absl::Status Activemask();
  absl::Status Fence();
  absl::Status Prefetch();
  absl::Status Nanosleep();
  absl::Status Pmevent();
  Value WarpOperation(WarpOp operation, Value value, Value lane, Value clamp, Value members);
  void JumpTo(int label);

  TranslationUnit* unit_;
  const ptx::Function& function_;
  uint32_t first_id_;
  llvm::Function* out_;
  llvm::IRBuilder<> builder_;
  std::vector<llvm::AllocaInst*> registers_;
  llvm::AllocaInst* carry_ = nullptr;
  std::map<size_t, llvm::BasicBlock*> blocks_;  // by index of their first instruction
  llvm::BasicBlock* end_block_ = nullptr;       // returns kEnded
  const ptx::Instruction* instruction_ = nullptr;
  size_t index_ = 0;
  size_t cursor_ = 0;  // into the modifiers
};

// Addresses of everything compiled code calls, by name.
std::vector<std::pair<std::string, void*>> HostFunctions();

}  // namespace qgpu::native
