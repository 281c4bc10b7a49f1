#include "lowering/ptx_to_blocks/translate/translate.h"

#include "lowering/ptx_to_blocks/translate/translator.h"

namespace qgpu::lower {

// ---- blocks ----

void Translator::SplitIntoBlocks() {
  const int count = static_cast<int>(kernel_.instructions.size());
  std::vector<bool> leader(count + 1, false);
  leader[0] = true;
  for (const ptx::Label& label : kernel_.labels) leader[label.instruction] = true;
  for (int i = 0; i < count; ++i) {
    if (EndsBlock(kernel_.instructions[i])) leader[i + 1] = true;
  }
  ptx_range_.push_back({0, 0});  // block 0 only enters the first: the entry has no predecessors
  block_at_.assign(count + 1, 0);
  for (int i = 0; i < count; ++i) {
    if (leader[i]) ptx_range_.push_back({i, i});
    block_at_[i] = static_cast<int>(ptx_range_.size()) - 1;
    ptx_range_.back().second = i + 1;
  }
  exit_block_ = static_cast<int>(ptx_range_.size());
  block_at_[count] = exit_block_;
  ptx_range_.push_back({count, count});
  f().blocks.resize(ptx_range_.size());
}

absl::Status Translator::TerminateWithBarrier(const PtxInstruction& in, int next) {
  Modifiers modifiers(in.modifiers);
  modifiers.Take("sync");
  modifiers.Take("cta");
  modifiers.Take("aligned");
  if (!modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(ExpectNoGuard(in));
  if (in.operands.empty() || in.operands.size() > 2) return Wrong(in, "has no barrier");
  const auto is = [&](size_t operand, uint64_t value) {
    return in.operands[operand].kind == OperandKind::kInteger && in.operands[operand].value == value;
  };
  if (!is(0, 0)) return Unsupported(in, "only barrier 0 is");
  const uint64_t threads = block_.Count();
  if (in.operands.size() == 2 && !is(1, threads) && !is(1, (threads + 31) / 32 * 32)) {
    return Unsupported(in, fmt::format("a barrier of a part of the thread block, which has {} threads", threads));
  }
  Terminator& end = f().blocks[current_].end;
  end.kind = TerminatorKind::kBarrier;
  end.target = next;
  return absl::OkStatus();
}

absl::Status Translator::Terminate(const PtxInstruction& in, int next) {
  Terminator& end = f().blocks[current_].end;
  end.origin = origin_;
  Modifiers modifiers(in.modifiers);
  if (IsPlainBarrier(in)) return TerminateWithBarrier(in, next);
  int target = exit_block_;
  if (in.opcode == "bra") {
    modifiers.Take("uni");
    if (in.operands.size() != 1 || in.operands[0].kind != OperandKind::kLabel)
      return Wrong(in, "has no label to go to");
    target = BlockOf(kernel_.labels[in.operands[0].index].instruction);
  } else if (in.opcode == "ret") {
    modifiers.Take("uni");
  } else if (in.opcode == "trap") {  // the access that ends the launch is translated with the block
    QGPU_RETURN_IF_ERROR(ExpectNoGuard(in));
  }
  if (!modifiers.empty()) return Unsupported(in);
  end.kind = TerminatorKind::kJump;
  end.target = target;
  if (in.guard && target != next) {
    end.kind = TerminatorKind::kBranch;
    end.negate = in.guard->negated;
    end.other = next;
  }
  return absl::OkStatus();
}

absl::StatusOr<Translation> Translator::Run() {
  if (kernel_.instructions.size() > kMaxPtxInstructions) {
    return absl::InvalidArgumentError(fmt::format("{}: kernel {} has {} PTX instructions; the ROM holds 128 slots",
                                                  module_.name, kernel_.name, kernel_.instructions.size()));
  }
  SplitIntoBlocks();
  f().blocks[0].end.kind = TerminatorKind::kJump;
  f().blocks[0].end.target = 1;
  f().blocks[exit_block_].end.kind = TerminatorKind::kExit;
  for (int block = 1; block < exit_block_; ++block) {
    current_ = block;
    const PtxInstruction& last = kernel_.instructions[ptx_range_[block].second - 1];
    if (EndsBlock(last)) {
      origin_ = static_cast<int>(f().origins.size());
      f().origins.push_back(OriginOf(last));
      QGPU_RETURN_IF_ERROR(Terminate(last, block + 1));
    } else {
      f().blocks[block].end.kind = TerminatorKind::kJump;
      f().blocks[block].end.target = block + 1;
    }
  }
  const FlowGraph flow = AnalyzeFlow(f());
  std::vector<Type> types;
  for (const ptx::Register& reg : kernel_.registers) {
    types.push_back(RegisterTypeOf(reg.type).value_or(Type::kNone));
  }
  types.push_back(Type::kPredicate);  // CarryVariable
  ssa_.emplace(&f(), flow.predecessors, types);
  for (int block : flow.order) QGPU_RETURN_IF_ERROR(FillBlock(block));
  ssa_->Finish();
  const int64_t phis = std::count_if(f().instructions.begin(), f().instructions.end(),
                                     [](const IrInstruction& in) { return in.op == IrOp::kPhi; });
  if (f().instructions.size() > kMaxValues || phis > kMaxPhis) {
    return absl::InvalidArgumentError(fmt::format("{}: kernel {} has too many registers that live across its {} labels",
                                                  module_.name, kernel_.name, kernel_.labels.size()));
  }
  return std::move(out_);
}

absl::Status Translator::FillBlock(int block) {
  current_ = block;
  for (int i = ptx_range_[block].first; i < ptx_range_[block].second; ++i) {
    const PtxInstruction& in = kernel_.instructions[i];
    if (EndsBlock(in)) {
      if (in.opcode == "trap") {
        origin_ = f().blocks[block].end.origin;
        Emit(IrOp::kStore, Type::kNone, {f().Constant(Type::kI64, kTrapAddress), Const32(0)});
      }
      if (f().blocks[block].end.kind == TerminatorKind::kBranch) {
        QGPU_ASSIGN_OR_RETURN(f().blocks[block].end.condition, ReadGuard(in));
      }
      continue;
    }
    origin_ = static_cast<int>(f().origins.size());
    f().origins.push_back(OriginOf(in));
    QGPU_RETURN_IF_ERROR(TranslateOne(in));
  }
  ssa_->MarkFilled(block);
  return absl::OkStatus();
}

namespace {}  // namespace

std::string WhatIsNeeded(const PtxInstruction& in) {
  static constexpr struct {
    const char* opcodes;  // between blanks
    const char* needs;
  } kNeeds[] = {
      {" tex tld4 txq istypep suld sust sured suq ", "needs textures or surfaces, which the machine does not have"},
      {" wmma mma ldmatrix ", "needs tensor cores, which the machine does not have"},
      {" cp ", "needs asynchronous copies, which the machine does not have"},
      {" vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 vadd4 vsub4"
       " vavrg4 vabsdiff4 vmin4 vmax4 vset4 ",
       "video instructions are not; shifts, masks and additions do the same"},
  };
  for (const std::string& modifier : in.modifiers) {
    const auto type = ptx::LookUpType(modifier);
    if (type && type->kind == TypeKind::kFloat) return "needs floating point, which the machine does not have";
    if (type && type->bits > 64) return "needs values of 128 bits; pairs of 64 bits are";
    if (modifier == "relu" || modifier == "u16x2" || modifier == "s16x2") return "an sm_75 device does not have it";
  }
  for (const auto& entry : kNeeds) {
    if (std::string_view(entry.opcodes).find(" " + in.opcode + " ") != std::string_view::npos) return entry.needs;
  }
  return "";
}

absl::Status Translator::TranslateOne(const PtxInstruction& in) {
  for (const Row& row : Table()) {
    if (in.opcode == row.opcode) return (this->*row.handler)(in, row);
  }
  return Unsupported(in);
}

// ---- operands ----

absl::StatusOr<int> Translator::Read(const PtxInstruction& in, const Operand& operand, Type type) {
  int value = -1;
  switch (operand.kind) {
    case OperandKind::kRegister: {
      const ptx::Register& reg = kernel_.registers[operand.index];
      const std::optional<Type> declared = RegisterTypeOf(reg.type);
      if (!declared || reg.vector != 1) return Unsupported(in, fmt::format("register of type .{}", reg.type));
      if (*declared != type) return Wrong(in, fmt::format("{} is a .{} register", operand.name, reg.type));
      value = ssa_->Read(current_, operand.index);
      break;
    }
    case OperandKind::kInteger:
      value = f().Constant(type, operand.value);
      break;
    case OperandKind::kSpecial: {
      QGPU_ASSIGN_OR_RETURN(value, ReadSpecial(in, operand));
      if (type != Type::kI32) return Wrong(in, fmt::format("{} is 32 bits wide", ptx::ToString(operand)));
      break;
    }
    case OperandKind::kSymbol: {
      QGPU_ASSIGN_OR_RETURN(value, AddressOfVariable(in, operand, type));
      break;
    }
    default:
      return Unsupported(in, fmt::format("operand {}", ptx::ToString(operand)));
  }
  if (operand.negated && type == Type::kPredicate) {
    value = Emit(IrOp::kPredNot, Type::kPredicate, {value});
  }
  return value;
}

absl::StatusOr<std::vector<int>> Translator::ReadAll(const PtxInstruction& in, Type type) {
  std::vector<int> values;
  for (size_t i = 1; i < in.operands.size(); ++i) {
    QGPU_ASSIGN_OR_RETURN(int value, Read(in, in.operands[i], type));
    values.push_back(value);
  }
  return values;
}

absl::Status Translator::Write(const PtxInstruction& in, const Operand& operand, int value) {
  if (operand.kind == OperandKind::kSink) return absl::OkStatus();
  if (operand.kind != OperandKind::kRegister) return Unsupported(in, fmt::format("result {}", ptx::ToString(operand)));
  const ptx::Register& reg = kernel_.registers[operand.index];
  const Type type = f().at(value).type;
  if (RegisterTypeOf(reg.type) != type || reg.vector != 1) {
    return Wrong(in, fmt::format("the result does not fit {}, a .{} register", operand.name, reg.type));
  }
  if (in.guard) {  // the register keeps its value where the guard is false
    QGPU_ASSIGN_OR_RETURN(const int guard, ReadGuard(in));
    int old = ssa_->Read(current_, operand.index);
    if (in.guard->negated) std::swap(value, old);
    if (type == Type::kPredicate) {
      const int inverse = Emit(IrOp::kPredNot, Type::kPredicate, {guard});
      value = Emit(IrOp::kPredOr, type,
                   {Emit(IrOp::kPredAnd, type, {guard, value}), Emit(IrOp::kPredAnd, type, {inverse, old})});
    } else {
      value = Emit(IrOp::kSelect, type, {guard, value, old});
    }
  }
  ssa_->Write(current_, operand.index, value);
  return absl::OkStatus();
}

absl::StatusOr<int> Translator::ParameterWordOf(const PtxInstruction& in, const std::string& name, uint64_t offset,
                                                int bits) {
  for (size_t i = 0; i < kernel_.parameters.size(); ++i) {
    const ptx::Variable& parameter = kernel_.parameters[i];
    if (parameter.name != name) continue;
    const uint64_t bytes = static_cast<uint64_t>(bits) / 8;
    if (offset % 4 != 0 || offset + bytes > parameter.Bytes()) {
      return Unsupported(
          in, fmt::format("{} bytes at offset {} of a parameter of {} bytes", bytes, offset, parameter.Bytes()));
    }
    const int wanted = static_cast<int>(offset);
    size_t word = 0;
    while (word < out_.words.size() &&
           (out_.words[word].parameter != static_cast<int>(i) || out_.words[word].byte_offset != wanted)) {
      ++word;
    }
    if (word == out_.words.size()) out_.words.push_back({static_cast<int>(i), wanted});
    const size_t limit = MachineGeometry{}.parameter_words;
    if (out_.words.size() > limit) {
      return Wrong(in, fmt::format("needs more than {} parameter words, the machine has {}", limit, limit));
    }
    return f().Special(bits == 64 ? Type::kI64 : Type::kI32, kSpecialFirstParameter + static_cast<int>(word));
  }
  return Wrong(in, fmt::format("{} is not a parameter of the kernel", name));
}

// Every supported opcode, except those that end a block (EndsBlock).
const std::vector<Translator::Row>& Translator::Table() {
  static const std::vector<Row> table = {
      {"add", &Translator::AddOrSubtract, IrOp::kAdd},
      {"addc", &Translator::AddOrSubtract, IrOp::kAdd},
      {"sub", &Translator::AddOrSubtract, IrOp::kSub},
      {"subc", &Translator::AddOrSubtract, IrOp::kSub},
      {"min", &Translator::Binary, IrOp::kMinU, IrOp::kMinS},
      {"max", &Translator::Binary, IrOp::kMaxU, IrOp::kMaxS},
      {"div", &Translator::Binary, IrOp::kDivU, IrOp::kDivS},
      {"rem", &Translator::Binary, IrOp::kRemU, IrOp::kRemS},
      {"mul", &Translator::Multiply, IrOp::kMul},
      {"mad", &Translator::Multiply, IrOp::kMad},
      {"madc", &Translator::Multiply, IrOp::kMad},
      {"mul24", &Translator::Multiply24, IrOp::kMul},
      {"mad24", &Translator::Multiply24, IrOp::kMad},
      {"dp4a", &Translator::DotProduct},
      {"dp2a", &Translator::DotProduct},
      {"and", &Translator::Logic, IrOp::kAnd, IrOp::kPredAnd},
      {"or", &Translator::Logic, IrOp::kOr, IrOp::kPredOr},
      {"xor", &Translator::Logic, IrOp::kXor, IrOp::kPredXor},
      {"not", &Translator::Not},
      {"cnot", &Translator::IsZero},
      {"neg", &Translator::Negate},
      {"abs", &Translator::Absolute},
      {"sad", &Translator::SumOfDifferences},
      {"shl", &Translator::Shift, IrOp::kShl, IrOp::kShl},
      {"shr", &Translator::Shift, IrOp::kShr, IrOp::kSar},
      {"shf", &Translator::FunnelShift},
      {"bfe", &Translator::ExtractField},
      {"bfi", &Translator::InsertField},
      {"bfind", &Translator::FindHighBit},
      {"bmsk", &Translator::FieldMask},
      {"szext", &Translator::ExtendField},
      {"fns", &Translator::FindNthOne},
      {"popc", &Translator::CountOrReverse, IrOp::kPopc},
      {"clz", &Translator::CountOrReverse, IrOp::kClz},
      {"brev", &Translator::CountOrReverse, IrOp::kBrev},
      {"prmt", &Translator::Permute},
      {"lop3", &Translator::Lop3},
      {"mov", &Translator::Move},
      {"cvt", &Translator::Convert},
      {"cvta", &Translator::ConvertAddress},
      {"setp", &Translator::SetPredicate},
      {"set", &Translator::Set},
      {"selp", &Translator::SelectByPredicate},
      {"slct", &Translator::SelectBySign},
      {"ld", &Translator::Load},
      {"ldu", &Translator::Load},
      {"st", &Translator::Store},
      {"atom", &Translator::Atomic},
      {"red", &Translator::Atomic},
      {"isspacep", &Translator::IsInSpace},
      {"membar", &Translator::Nothing},
      {"fence", &Translator::Nothing},
      {"prefetch", &Translator::Nothing},
      {"prefetchu", &Translator::Nothing},
      {"shfl", &Translator::ShuffleLanes},
      {"vote", &Translator::Vote},
      {"match", &Translator::Match},
      {"activemask", &Translator::ActiveMask},
      {"bar", &Translator::OtherBarrier},
      {"barrier", &Translator::OtherBarrier},
      {"nanosleep", &Translator::Nanosleep},
      {"pmevent", &Translator::Nanosleep},
      {"brkpt", &Translator::RefuseByName},
      {"redux", &Translator::RefuseByName},
      {"elect", &Translator::RefuseByName},
      {"call", &Translator::RefuseByName},
      {"brx", &Translator::RefuseByName},
  };
  return table;
}

absl::StatusOr<Translation> Translate(const ptx::Module& module, const ptx::Function& kernel, const Dim3& grid,
                                      const Dim3& block, const MemoryLayout& layout) {
  return Translator(module, kernel, grid, block, layout).Run();
}

std::vector<std::string> SupportedOpcodes() {
  std::vector<std::string> opcodes = {"bra", "brx", "call", "ret", "exit", "trap"};
  for (const Translator::Row& row : Translator::Table()) {
    if (row.handler != &Translator::RefuseByName) opcodes.push_back(row.opcode);
  }
  std::sort(opcodes.begin(), opcodes.end());
  return opcodes;
}

}  // namespace qgpu::lower
