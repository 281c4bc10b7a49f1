#include "lowering/ptx_to_blocks/translate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "lowering/ptx_to_blocks/ssa_builder.h"

namespace qgpu::lower {
namespace {

using ptx::Operand;
using PtxInstruction = ptx::Instruction;
using OperandKind = ptx::Operand::Kind;
using TypeKind = ptx::TypeInfo::Kind;

// Far more than 128 slots could ever come from; keeps the analyses' time small.
constexpr size_t kMaxPtxInstructions = 4096;

// The modifiers of an instruction, each taken by the handler that understands it.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string>& modifiers) : left_(modifiers) {}

  bool Take(std::string_view modifier) {
    const auto found = std::find(left_.begin(), left_.end(), modifier);
    if (found == left_.end()) return false;
    left_.erase(found);
    return true;
  }
  // The first type among them.
  std::optional<ptx::TypeInfo> TakeType() {
    for (auto it = left_.begin(); it != left_.end(); ++it) {
      if (const auto type = ptx::LookUpType(*it)) {
        left_.erase(it);
        return type;
      }
    }
    return std::nullopt;
  }
  bool empty() const { return left_.empty(); }

 private:
  std::vector<std::string> left_;
};

bool IsInteger(const ptx::TypeInfo& type) {
  return type.kind == TypeKind::kSigned || type.kind == TypeKind::kUnsigned || type.kind == TypeKind::kBits;
}

// The IR type of an integer PTX type of 16, 32 or 64 bits, or of a predicate. A 16-bit value is the low half of a
// 32-bit one whose high half means nothing: what looks at more than the low bits extends it first.
std::optional<Type> TypeOf(const std::optional<ptx::TypeInfo>& type) {
  if (!type) return std::nullopt;
  if (type->kind == TypeKind::kPredicate) return Type::kPredicate;
  if (!IsInteger(*type)) return std::nullopt;
  if (type->bits == 16 || type->bits == 32) return Type::kI32;
  if (type->bits == 64) return Type::kI64;
  return std::nullopt;
}

bool EndsBlock(const PtxInstruction& in) {
  return in.opcode == "bra" || in.opcode == "ret" || in.opcode == "exit" || in.opcode == "bar" ||
         in.opcode == "barrier";
}

class Translator {
 public:
  Translator(const ptx::Module& module, const ptx::Function& kernel, const Dim3& grid, const Dim3& block)
      : module_(module), kernel_(kernel), grid_(grid), block_(block) {}

  absl::StatusOr<Translation> Run();

  struct Row;
  using Handler = absl::Status (Translator::*)(const PtxInstruction&, const Row&);
  struct Row {
    const char* opcode;
    Handler handler;
    IrOp op = IrOp::kConst;         // of unsigned and bit types
    IrOp signed_op = IrOp::kConst;  // of signed types
  };
  static const std::vector<Row>& Table();

 private:
  IrFunction& f() { return out_.function; }

  // Errors.
  absl::Status Unsupported(const PtxInstruction& in, const std::string& why = "") const {
    return absl::UnimplementedError(fmt::format("{}: {}: not supported by the machine's lowering{}{}",
                                                ptx::Place(module_, in.location), ptx::ToString(in),
                                                why.empty() ? "" : ": ", why));
  }
  absl::Status Wrong(const PtxInstruction& in, const std::string& what) const {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}: {}", ptx::Place(module_, in.location), ptx::ToString(in), what));
  }

  // Blocks.
  void SplitIntoBlocks();
  int BlockOf(int ptx_index) const { return block_at_[ptx_index]; }
  absl::Status Terminate(const PtxInstruction& in, int next);
  absl::Status FillBlock(int block);
  absl::Status TranslateOne(const PtxInstruction& in);

  // Values.
  int Emit(IrOp op, Type type, std::vector<int> args) {
    IrInstruction in;
    in.op = op;
    in.type = type;
    in.args = std::move(args);
    in.origin = origin_;
    return f().Add(current_, std::move(in));
  }
  int Emit32(IrOp op, std::vector<int> args) { return Emit(op, Type::kI32, std::move(args)); }
  int Const32(uint32_t value) { return f().Constant(Type::kI32, value); }
  // The low `type.bits` bits of a 32-bit value, extended as the type says.
  int Extend(int value, const ptx::TypeInfo& type) {
    if (type.bits >= 32) return value;
    if (type.kind != TypeKind::kSigned) return Emit32(IrOp::kAnd, {value, Const32((1u << type.bits) - 1)});
    const int up = Const32(32 - type.bits);
    return Emit32(IrOp::kSar, {Emit32(IrOp::kShl, {value, up}), up});
  }
  int Comparison(Compare compare, int a, int b) {
    const int value = Emit(IrOp::kCompare, Type::kPredicate, {a, b});
    f().at(value).compare = compare;
    return value;
  }
  absl::StatusOr<int> Read(const PtxInstruction& in, const Operand& operand, Type type);
  // The guard's register, whatever its negation.
  absl::StatusOr<int> ReadGuard(const PtxInstruction& in) {
    Operand plain = *in.guard;
    plain.negated = false;
    return Read(in, plain, Type::kPredicate);
  }
  absl::StatusOr<int> ReadSpecial(const PtxInstruction& in, const Operand& operand);
  absl::StatusOr<std::vector<int>> ReadAll(const PtxInstruction& in, Type type);  // operands 1 and on
  absl::Status Write(const PtxInstruction& in, const Operand& operand, int value);
  absl::StatusOr<int> ParameterWordOf(const PtxInstruction& in, const std::string& name, uint64_t offset, int bits);
  absl::Status Expect(const PtxInstruction& in, size_t operands) const {
    if (in.operands.size() == operands) return absl::OkStatus();
    return Wrong(in, fmt::format("has {} operands, not {}", in.operands.size(), operands));
  }

  // Handlers, see Table.
  absl::Status Binary(const PtxInstruction& in, const Row& row);
  absl::Status Multiply(const PtxInstruction& in, const Row& row);
  absl::Status Logic(const PtxInstruction& in, const Row& row);
  absl::Status Not(const PtxInstruction& in, const Row& row);
  absl::Status Negate(const PtxInstruction& in, const Row& row);
  absl::Status Absolute(const PtxInstruction& in, const Row& row);
  absl::Status SumOfDifferences(const PtxInstruction& in, const Row& row);
  absl::Status Shift(const PtxInstruction& in, const Row& row);
  absl::Status FunnelShift(const PtxInstruction& in, const Row& row);
  absl::Status ExtractField(const PtxInstruction& in, const Row& row);
  absl::Status InsertField(const PtxInstruction& in, const Row& row);
  absl::Status FindHighBit(const PtxInstruction& in, const Row& row);
  absl::Status Unary(const PtxInstruction& in, const Row& row);
  absl::Status Lop3(const PtxInstruction& in, const Row& row);
  absl::Status Move(const PtxInstruction& in, const Row& row);
  absl::Status Convert(const PtxInstruction& in, const Row& row);
  absl::Status ConvertAddress(const PtxInstruction& in, const Row& row);
  absl::Status SetPredicate(const PtxInstruction& in, const Row& row);
  absl::Status Set(const PtxInstruction& in, const Row& row);
  absl::Status SelectByPredicate(const PtxInstruction& in, const Row& row);
  absl::Status SelectBySign(const PtxInstruction& in, const Row& row);
  absl::Status Load(const PtxInstruction& in, const Row& row);
  absl::Status Store(const PtxInstruction& in, const Row& row);

  absl::StatusOr<int> CompareOperands(const PtxInstruction& in, Modifiers& modifiers, int* other);
  absl::StatusOr<int> ReadAddress(const PtxInstruction& in, const Operand& operand, uint64_t* offset);
  bool IsWideRegister(const Operand& operand) const;
  absl::Status WriteLoaded(const PtxInstruction& in, int value, const ptx::TypeInfo& type);
  int WordOf(int base, uint64_t offset, int bits, int* bit);
  absl::Status FinishMemoryAccess(const PtxInstruction& in, int value, uint64_t offset);

  const ptx::Module& module_;
  const ptx::Function& kernel_;
  const Dim3 grid_, block_;
  Translation out_;
  std::vector<int> block_at_;                   // [ptx instruction], and one more for the end
  std::vector<std::pair<int, int>> ptx_range_;  // [block]
  std::optional<SsaBuilder> ssa_;
  int exit_block_ = -1;
  int current_ = 0;
  int origin_ = -1;
};

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

absl::Status Translator::Terminate(const PtxInstruction& in, int next) {
  Terminator& end = f().blocks[current_].end;
  end.origin = origin_;
  Modifiers modifiers(in.modifiers);
  if (in.opcode == "bar" || in.opcode == "barrier") {
    modifiers.Take("sync");
    modifiers.Take("cta");
    modifiers.Take("aligned");
    const bool plain = in.operands.size() == 1 && in.operands[0].kind == OperandKind::kInteger &&
                       in.operands[0].value == 0 && in.Has("sync");
    if (!plain || !modifiers.empty() || in.guard) return Unsupported(in, "only bar.sync 0 is, and not predicated");
    end.kind = TerminatorKind::kBarrier;
    end.target = next;
    return absl::OkStatus();
  }
  int target = exit_block_;
  if (in.opcode == "bra") {
    modifiers.Take("uni");
    if (in.operands.size() != 1 || in.operands[0].kind != OperandKind::kLabel)
      return Wrong(in, "has no label to go to");
    target = BlockOf(kernel_.labels[in.operands[0].index].instruction);
  } else if (in.opcode == "ret") {
    modifiers.Take("uni");
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
      f().origins.push_back({last.location.ptx_line, last.location.cuda_line, ptx::ToString(last)});
      QGPU_RETURN_IF_ERROR(Terminate(last, block + 1));
    } else {
      f().blocks[block].end.kind = TerminatorKind::kJump;
      f().blocks[block].end.target = block + 1;
    }
  }
  const FlowGraph flow = AnalyzeFlow(f());
  std::vector<Type> types;
  for (const ptx::Register& reg : kernel_.registers) {
    types.push_back(TypeOf(ptx::LookUpType(reg.type)).value_or(Type::kNone));
  }
  ssa_.emplace(&f(), flow.predecessors, types);
  for (int block : flow.order) QGPU_RETURN_IF_ERROR(FillBlock(block));
  ssa_->Finish();
  return std::move(out_);
}

absl::Status Translator::FillBlock(int block) {
  current_ = block;
  for (int i = ptx_range_[block].first; i < ptx_range_[block].second; ++i) {
    const PtxInstruction& in = kernel_.instructions[i];
    if (EndsBlock(in)) {
      if (f().blocks[block].end.kind == TerminatorKind::kBranch) {
        QGPU_ASSIGN_OR_RETURN(f().blocks[block].end.condition, ReadGuard(in));
      }
      continue;
    }
    origin_ = static_cast<int>(f().origins.size());
    f().origins.push_back({in.location.ptx_line, in.location.cuda_line, ptx::ToString(in)});
    QGPU_RETURN_IF_ERROR(TranslateOne(in));
  }
  ssa_->MarkFilled(block);
  return absl::OkStatus();
}

absl::Status Translator::TranslateOne(const PtxInstruction& in) {
  for (const Row& row : Table()) {
    if (in.opcode == row.opcode) return (this->*row.handler)(in, row);
  }
  return Unsupported(in);
}

// ---- operands ----

absl::StatusOr<int> Translator::ReadSpecial(const PtxInstruction& in, const Operand& operand) {
  const size_t dot = operand.name.find('.');
  const std::string name = operand.name.substr(0, dot);
  const std::string component = dot == std::string::npos ? "" : operand.name.substr(dot + 1);
  const bool is_vector = name == "%tid" || name == "%ctaid" || name == "%ntid" || name == "%nctaid";
  const int axis = component == "x" ? 0 : component == "y" ? 1 : component == "z" ? 2 : -1;
  if (is_vector != (axis >= 0)) return Unsupported(in, fmt::format("special register {}", operand.name));
  const uint32_t block_sizes[] = {block_.x, block_.y, block_.z}, grid_sizes[] = {grid_.x, grid_.y, grid_.z};
  const auto special = [&](int word) { return f().Special(Type::kI32, word); };
  if (name == "%tid") return block_sizes[axis] == 1 ? Const32(0) : special(kSpecialTidX + axis);
  if (name == "%ctaid") return grid_sizes[axis] == 1 ? Const32(0) : special(kSpecialCtaX + axis);
  if (name == "%ntid") return Const32(block_sizes[axis]);
  if (name == "%nctaid") return Const32(grid_sizes[axis]);
  if (name == "%laneid") {  // a thread block has at most 32 threads
    if (block_.Count() == 1) return Const32(0);
    return special(block_.y == 1 && block_.z == 1 ? kSpecialTidX : kSpecialLaneId);
  }
  if (name == "%warpid") return Const32(0);
  if (name == "%nwarpid") return Const32(1);
  return Unsupported(in, fmt::format("special register {}", ptx::ToString(operand)));
}

absl::StatusOr<int> Translator::Read(const PtxInstruction& in, const Operand& operand, Type type) {
  int value = -1;
  switch (operand.kind) {
    case OperandKind::kRegister: {
      const ptx::Register& reg = kernel_.registers[operand.index];
      const std::optional<Type> declared = TypeOf(ptx::LookUpType(reg.type));
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
  if (TypeOf(ptx::LookUpType(reg.type)) != type || reg.vector != 1) {
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

// ---- arithmetic ----

absl::Status Translator::Binary(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  const std::optional<Type> type = TypeOf(info);
  if (!type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  const bool is_min_or_max = row.op != row.signed_op;
  if (is_min_or_max && *type == Type::kI64) return Unsupported(in, "64-bit values other than addresses");
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(std::vector<int> args, ReadAll(in, *type));
  if (is_min_or_max) {
    for (int& arg : args) arg = Extend(arg, *info);
  }
  return Write(in, in.operands[0], Emit(info->kind == TypeKind::kSigned ? row.signed_op : row.op, *type, args));
}

// mul and mad, lo and wide.
absl::Status Translator::Multiply(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  const bool lo = modifiers.Take("lo"), wide = modifiers.Take("wide");
  const std::optional<Type> type = TypeOf(info);
  if (!type || !modifiers.empty() || lo == wide || (wide && *type != Type::kI32)) return Unsupported(in);
  const bool is_mad = row.op == IrOp::kMad;
  QGPU_RETURN_IF_ERROR(Expect(in, is_mad ? 4 : 3));
  if (wide && info->bits == 16 && is_mad) return Unsupported(in);
  const Type result = wide && info->bits == 32 ? Type::kI64 : *type;
  QGPU_ASSIGN_OR_RETURN(int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(int b, Read(in, in.operands[2], *type));
  if (wide && info->bits == 16) {
    a = Extend(a, *info);
    b = Extend(b, *info);
  } else if (wide) {
    const IrOp extend = info->kind == TypeKind::kSigned ? IrOp::kSignExt : IrOp::kZeroExt;
    a = Emit(extend, Type::kI64, {a});
    b = Emit(extend, Type::kI64, {b});
  }
  int product;
  if (is_mad) {
    QGPU_ASSIGN_OR_RETURN(const int c, Read(in, in.operands[3], result));
    product = result == Type::kI32 ? Emit(IrOp::kMad, result, {a, b, c})
                                   : Emit(IrOp::kAdd, result, {Emit(IrOp::kMul, result, {a, b}), c});
  } else {
    product = Emit(IrOp::kMul, result, {a, b});
  }
  return Write(in, in.operands[0], product);
}

absl::Status Translator::Logic(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(const std::vector<int> args, ReadAll(in, *type));
  return Write(in, in.operands[0], Emit(*type == Type::kPredicate ? row.signed_op : row.op, *type, args));
}

absl::Status Translator::Not(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  const int value = *type == Type::kPredicate ? Emit(IrOp::kPredNot, *type, {a})
                                              : Emit(IrOp::kXor, *type, {a, f().Constant(*type, ~uint64_t{0})});
  return Write(in, in.operands[0], value);
}

absl::Status Translator::Negate(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  return Write(in, in.operands[0], Emit(IrOp::kSub, *type, {f().Constant(*type, 0), a}));
}

// The type of an instruction that exists for 32-bit integers only, or an error.
#define QGPU_EXPECT_ONLY_32(in, modifiers, operand_count)                                           \
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();                                   \
  if (TypeOf(info) != Type::kI32 || info->bits != 32 || !modifiers.empty()) return Unsupported(in); \
  QGPU_RETURN_IF_ERROR(Expect(in, operand_count));                                                  \
  [[maybe_unused]] const bool is_signed = info->kind == TypeKind::kSigned;                          \
  QGPU_ASSIGN_OR_RETURN([[maybe_unused]] const std::vector<int> args, ReadAll(in, Type::kI32))

absl::Status Translator::Absolute(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 2);
  return Write(in, in.operands[0], Emit32(IrOp::kMaxS, {args[0], Emit32(IrOp::kSub, {Const32(0), args[0]})}));
}

absl::Status Translator::SumOfDifferences(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 4);
  const int high = Emit32(is_signed ? IrOp::kMaxS : IrOp::kMaxU, {args[0], args[1]});
  const int low = Emit32(is_signed ? IrOp::kMinS : IrOp::kMinU, {args[0], args[1]});
  return Write(in, in.operands[0], Emit32(IrOp::kAdd, {Emit32(IrOp::kSub, {high, low}), args[2]}));
}

absl::Status Translator::Shift(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  const std::optional<Type> type = TypeOf(info);
  if (!type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 3));
  QGPU_ASSIGN_OR_RETURN(int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(const int amount, Read(in, in.operands[2], Type::kI32));
  if (row.op == IrOp::kShr && *type == Type::kI32) a = Extend(a, *info);
  return Write(in, in.operands[0], Emit(info->kind == TypeKind::kSigned ? row.signed_op : row.op, *type, {a, amount}));
}

// shf: the upper (l) or lower (r) half of {b, a} shifted by c.
absl::Status Translator::FunnelShift(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool left = modifiers.Take("l"), right = modifiers.Take("r");
  const bool wrap = modifiers.Take("wrap"), clamp = modifiers.Take("clamp");
  if (left == right || wrap == clamp) return Unsupported(in);
  QGPU_EXPECT_ONLY_32(in, modifiers, 4);
  const int amount = Emit32(wrap ? IrOp::kAnd : IrOp::kMinU, {args[2], Const32(wrap ? 31 : 32)});
  const int rest = Emit32(IrOp::kSub, {Const32(32), amount});
  const int high = Emit32(IrOp::kShl, {args[1], left ? amount : rest});
  const int low = Emit32(IrOp::kShr, {args[0], left ? rest : amount});
  return Write(in, in.operands[0], Emit32(IrOp::kOr, {high, low}));
}

absl::Status Translator::ExtractField(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 4);
  const int position = Emit32(IrOp::kAnd, {args[1], Const32(255)});
  const int length = Emit32(IrOp::kAnd, {args[2], Const32(255)});
  if (!is_signed) {
    const int mask = Emit32(IrOp::kAdd, {Emit32(IrOp::kShl, {Const32(1), length}), Const32(~0u)});
    return Write(in, in.operands[0], Emit32(IrOp::kAnd, {Emit32(IrOp::kShr, {args[0], position}), mask}));
  }
  // The field's top bit, at most bit 31, goes to bit 31; an arithmetic shift brings the field down. Length 0 gives 0.
  const int end = Emit32(IrOp::kMinU, {Emit32(IrOp::kAdd, {position, length}), Const32(32)});
  const int up = Emit32(IrOp::kSub, {Const32(32), end});
  const int field = Emit32(IrOp::kSar, {Emit32(IrOp::kShl, {args[0], up}), Emit32(IrOp::kAdd, {up, position})});
  const int empty = Comparison(Compare::kEq, length, Const32(0));
  return Write(in, in.operands[0], Emit32(IrOp::kSelect, {empty, Const32(0), field}));
}

absl::Status Translator::InsertField(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 5);
  const int position = Emit32(IrOp::kAnd, {args[2], Const32(255)});
  const int length = Emit32(IrOp::kAnd, {args[3], Const32(255)});
  const int ones = Emit32(IrOp::kAdd, {Emit32(IrOp::kShl, {Const32(1), length}), Const32(~0u)});
  const int mask = Emit32(IrOp::kShl, {ones, position});
  const int kept = Emit32(IrOp::kAnd, {args[1], Emit32(IrOp::kXor, {mask, Const32(~0u)})});
  const int field = Emit32(IrOp::kAnd, {Emit32(IrOp::kShl, {args[0], position}), mask});
  return Write(in, in.operands[0], Emit32(IrOp::kOr, {kept, field}));
}

// bfind: position of the highest bit that differs from the sign, all ones where there is none.
absl::Status Translator::FindHighBit(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 2);
  int a = args[0];
  if (is_signed) a = Emit32(IrOp::kXor, {a, Emit32(IrOp::kSar, {a, Const32(31)})});
  return Write(in, in.operands[0], Emit32(IrOp::kSub, {Const32(31), Emit32(IrOp::kClz, {a})}));
}

absl::Status Translator::Unary(const PtxInstruction& in, const Row& row) {
  Modifiers modifiers(in.modifiers);
  QGPU_EXPECT_ONLY_32(in, modifiers, 2);
  return Write(in, in.operands[0], Emit32(row.op, args));
}

// f(a, b, c) = f(a, b, 0) ^ (c & (f(a, b, 0) ^ f(a, b, 1))), and the same again for two operands.
absl::Status Translator::Lop3(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  if (in.operands.size() != 5 || in.operands[4].kind != OperandKind::kInteger || in.operands[4].value > 255) {
    return Unsupported(in);
  }
  QGPU_EXPECT_ONLY_32(in, modifiers, 5);
  const uint32_t table = static_cast<uint32_t>(in.operands[4].value);  // bit 4a + 2b + c
  const auto of_a = [&](uint32_t when_0, uint32_t when_1) {
    const int low = Const32(when_0 != 0 ? ~0u : 0);
    return when_0 == when_1 ? low : Emit32(IrOp::kXor, {args[0], low});
  };
  const auto of_a_b = [&](int c, bool difference) {  // the table, or its difference over c
    const auto entry = [&](int a, int b) {
      const uint32_t bit = table >> (4 * a + 2 * b + c) & 1;
      return difference ? bit ^ (table >> (4 * a + 2 * b + 1) & 1) : bit;
    };
    const int base = of_a(entry(0, 0), entry(1, 0));
    const int change = of_a(entry(0, 0) ^ entry(0, 1), entry(1, 0) ^ entry(1, 1));
    return Emit32(IrOp::kXor, {base, Emit32(IrOp::kAnd, {args[1], change})});
  };
  const int value = Emit32(IrOp::kXor, {of_a_b(0, false), Emit32(IrOp::kAnd, {args[2], of_a_b(0, true)})});
  return Write(in, in.operands[0], value);
}

// ---- moves and conversions ----

absl::Status Translator::Move(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  return Write(in, in.operands[0], a);
}

absl::Status Translator::Convert(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<ptx::TypeInfo> to = modifiers.TakeType(), from = modifiers.TakeType();
  if (!to || !from || !IsInteger(*to) || !IsInteger(*from) || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  const Operand& source = in.operands[1];
  const Type source_type = from->bits == 64 ? Type::kI64 : Type::kI32;
  QGPU_ASSIGN_OR_RETURN(int value, Read(in, source, source_type));
  if (to->bits < 16) return Unsupported(in, "results of 8 bits");
  if (source_type == Type::kI64 && to->bits <= 32) value = Emit(IrOp::kTruncate, Type::kI32, {value});
  if (from->bits < to->bits) value = source_type == Type::kI32 ? Extend(value, *from) : value;
  const Operand& result = in.operands[0];
  const bool wider_register = result.kind == OperandKind::kRegister && to->bits == 16 &&
                              kernel_.registers[result.index].type.find("32") != std::string::npos;
  if (wider_register) value = Extend(value, *to);
  if (source_type == Type::kI32 && to->bits == 64) {
    const bool is_signed = from->kind == TypeKind::kSigned;
    value = Emit(is_signed ? IrOp::kSignExt : IrOp::kZeroExt, Type::kI64, {value});
  }
  return Write(in, in.operands[0], value);
}

// There is one address space of 32-bit bytes: a generic address is the global one.
absl::Status Translator::ConvertAddress(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  modifiers.Take("to");
  const bool global = modifiers.Take("global");
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!global || type != Type::kI64 || !modifiers.empty()) return Unsupported(in, "only global addresses are");
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], Type::kI64));
  return Write(in, in.operands[0], a);
}

// ---- comparisons and selections ----

// The comparison of setp and set: operands 1 and 2, combined with a predicate operand 3 where there is a boolean
// operator. `*other`, where wanted, is the second result of setp p|q: the opposite comparison, likewise combined.
absl::StatusOr<int> Translator::CompareOperands(const PtxInstruction& in, Modifiers& modifiers, int* other) {
  static const std::map<std::string_view, std::pair<Compare, Compare>> comparisons = {
      // signed, unsigned
      {"eq", {Compare::kEq, Compare::kEq}},   {"ne", {Compare::kNe, Compare::kNe}},
      {"lt", {Compare::kLtS, Compare::kLtU}}, {"le", {Compare::kLeS, Compare::kLeU}},
      {"gt", {Compare::kGtS, Compare::kGtU}}, {"ge", {Compare::kGeS, Compare::kGeU}},
      {"lo", {Compare::kLtU, Compare::kLtU}}, {"ls", {Compare::kLeU, Compare::kLeU}},
      {"hi", {Compare::kGtU, Compare::kGtU}}, {"hs", {Compare::kGeU, Compare::kGeU}}};
  static const std::map<std::string_view, IrOp> combinations = {
      {"and", IrOp::kPredAnd}, {"or", IrOp::kPredOr}, {"xor", IrOp::kPredXor}};
  const std::pair<Compare, Compare>* comparison = nullptr;
  for (const auto& [name, pair] : comparisons) {
    if (modifiers.Take(name)) comparison = &pair;
  }
  std::optional<IrOp> combination;
  for (const auto& [name, op] : combinations) {
    if (modifiers.Take(name)) combination = op;
  }
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  const std::optional<Type> type = TypeOf(info);
  if (comparison == nullptr || !type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, combination ? 4 : 3));
  QGPU_ASSIGN_OR_RETURN(int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(int b, Read(in, in.operands[2], *type));
  if (*type == Type::kI32) {
    a = Extend(a, *info);
    b = Extend(b, *info);
  }
  const Compare compare = info->kind == TypeKind::kSigned ? comparison->first : comparison->second;
  int value = Comparison(compare, a, b);
  int opposite = other == nullptr ? -1 : Comparison(Inverted(compare), a, b);
  if (combination) {
    QGPU_ASSIGN_OR_RETURN(const int c, Read(in, in.operands[3], Type::kPredicate));
    value = Emit(*combination, Type::kPredicate, {value, c});
    if (other != nullptr) opposite = Emit(*combination, Type::kPredicate, {opposite, c});
  }
  if (other != nullptr) *other = opposite;
  return value;
}

absl::Status Translator::SetPredicate(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  if (in.operands.empty()) return Wrong(in, "has no operands");
  const Operand& result = in.operands[0];
  const bool pair = result.kind == OperandKind::kPair && result.elements.size() == 2;
  int other = -1;
  QGPU_ASSIGN_OR_RETURN(const int value, CompareOperands(in, modifiers, pair ? &other : nullptr));
  if (!pair) return Write(in, result, value);
  QGPU_RETURN_IF_ERROR(Write(in, result.elements[0], value));
  return Write(in, result.elements[1], other);
}

// set: all ones or zero in a 32-bit register.
absl::Status Translator::Set(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  std::optional<ptx::TypeInfo> result;
  for (const char* name : {"u32", "s32"}) {  // the first type is the result's
    const std::vector<std::string>& all = in.modifiers;
    const auto first = std::find_if(all.begin(), all.end(), [](const std::string& m) { return ptx::LookUpType(m); });
    if (!result && first != all.end() && *first == name && modifiers.Take(name)) result = ptx::LookUpType(name);
  }
  if (!result) return Unsupported(in);
  QGPU_ASSIGN_OR_RETURN(const int value, CompareOperands(in, modifiers, nullptr));
  return Write(in, in.operands[0], Emit32(IrOp::kSelect, {value, Const32(~0u), Const32(0)}));
}

absl::Status Translator::SelectByPredicate(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || *type == Type::kPredicate || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(const int b, Read(in, in.operands[2], *type));
  QGPU_ASSIGN_OR_RETURN(const int p, Read(in, in.operands[3], Type::kPredicate));
  return Write(in, in.operands[0], Emit(IrOp::kSelect, *type, {p, a, b}));
}

// slct: the first where the third operand is not negative.
absl::Status Translator::SelectBySign(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const std::optional<Type> type = TypeOf(modifiers.TakeType());
  if (!type || *type == Type::kPredicate || !modifiers.Take("s32") || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 4));
  QGPU_ASSIGN_OR_RETURN(const int a, Read(in, in.operands[1], *type));
  QGPU_ASSIGN_OR_RETURN(const int b, Read(in, in.operands[2], *type));
  QGPU_ASSIGN_OR_RETURN(const int c, Read(in, in.operands[3], Type::kI32));
  return Write(in, in.operands[0], Emit(IrOp::kSelect, *type, {Comparison(Compare::kGeS, c, Const32(0)), a, b}));
}

// ---- memory ----

absl::StatusOr<int> Translator::ReadAddress(const PtxInstruction& in, const Operand& operand, uint64_t* offset) {
  if (operand.kind != OperandKind::kAddress || operand.elements.size() > 1) return Wrong(in, "has no address");
  *offset = operand.value;
  if (operand.elements.empty()) return f().Constant(Type::kI64, 0);
  return Read(in, operand.elements[0], Type::kI64);
}

absl::Status Translator::FinishMemoryAccess(const PtxInstruction& in, int value, uint64_t offset) {
  f().at(value).immediate = offset;
  if (!in.guard) return absl::OkStatus();
  QGPU_ASSIGN_OR_RETURN(const int guard, ReadGuard(in));
  f().at(value).guard = guard;
  f().at(value).negate = in.guard->negated;
  return absl::OkStatus();
}

// The address of the word that holds the 8 or 16 bits at base + offset, and the number of the first of these bits. The
// lowest address bit of a 16-bit access stays, so that a misaligned one traps.
int Translator::WordOf(int base, uint64_t offset, int bits, int* bit) {
  const int address = Emit(IrOp::kAdd, Type::kI64, {base, f().Constant(Type::kI64, offset)});
  const uint64_t inside = bits == 8 ? 3 : 2;
  const int low =
      Emit32(IrOp::kAnd, {Emit(IrOp::kTruncate, Type::kI32, {address}), Const32(static_cast<uint32_t>(inside))});
  *bit = Emit32(IrOp::kShl, {low, Const32(3)});
  return Emit(IrOp::kAnd, Type::kI64, {address, f().Constant(Type::kI64, ~inside)});
}

bool Translator::IsWideRegister(const Operand& operand) const {
  return operand.kind == OperandKind::kRegister &&
         TypeOf(ptx::LookUpType(kernel_.registers[operand.index].type)) == Type::kI64;
}

// A load may write a register that is wider than what it loads.
absl::Status Translator::WriteLoaded(const PtxInstruction& in, int value, const ptx::TypeInfo& type) {
  if (IsWideRegister(in.operands[0]) && f().at(value).type == Type::kI32) {
    value = Emit(type.kind == TypeKind::kSigned ? IrOp::kSignExt : IrOp::kZeroExt, Type::kI64, {value});
  }
  return Write(in, in.operands[0], value);
}

absl::Status Translator::Load(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  const bool is_parameter = modifiers.Take("param");
  const bool is_constant = modifiers.Take("nc");
  modifiers.Take("global");  // generic addresses are global ones
  modifiers.Take("volatile");
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  if (!info || !IsInteger(*info) || info->bits > 64 || !modifiers.empty()) return Unsupported(in);
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  const Operand& address = in.operands[1];
  if (is_parameter) {
    if (address.kind != OperandKind::kAddress || address.elements.size() != 1 ||
        address.elements[0].kind != OperandKind::kSymbol) {
      return Unsupported(in, "parameters are read at fixed places only");
    }
    const uint64_t offset = address.value + address.elements[0].value;
    QGPU_ASSIGN_OR_RETURN(const int word, ParameterWordOf(in, address.elements[0].name, offset, info->bits));
    return WriteLoaded(in, info->bits < 32 ? Extend(word, *info) : word, *info);
  }
  if (info->bits == 64) return Unsupported(in, "64-bit values in memory");
  uint64_t offset = 0;
  QGPU_ASSIGN_OR_RETURN(int base, ReadAddress(in, address, &offset));
  int bit = -1;
  if (info->bits < 32) base = WordOf(base, std::exchange(offset, 0), info->bits, &bit);
  int value = Emit32(IrOp::kLoad, {base});
  f().at(value).constant = is_constant;
  QGPU_RETURN_IF_ERROR(FinishMemoryAccess(in, value, offset));
  if (bit >= 0) value = Extend(Emit32(IrOp::kShr, {value, bit}), *info);
  return WriteLoaded(in, value, *info);
}

absl::Status Translator::Store(const PtxInstruction& in, const Row&) {
  Modifiers modifiers(in.modifiers);
  modifiers.Take("global");
  modifiers.Take("volatile");
  const std::optional<ptx::TypeInfo> info = modifiers.TakeType();
  if (!info || !IsInteger(*info) || !modifiers.empty()) return Unsupported(in);
  if (info->bits != 32) return Unsupported(in, fmt::format("stores of {} bits; 32 bits are", info->bits));
  QGPU_RETURN_IF_ERROR(Expect(in, 2));
  uint64_t offset = 0;
  QGPU_ASSIGN_OR_RETURN(const int base, ReadAddress(in, in.operands[0], &offset));
  const bool wide = IsWideRegister(in.operands[1]);  // stores its low half
  QGPU_ASSIGN_OR_RETURN(int value, Read(in, in.operands[1], wide ? Type::kI64 : Type::kI32));
  if (wide) value = Emit(IrOp::kTruncate, Type::kI32, {value});
  return FinishMemoryAccess(in, Emit(IrOp::kStore, Type::kNone, {base, value}), offset);
}

// Every supported opcode, except those that end a block (EndsBlock).
const std::vector<Translator::Row>& Translator::Table() {
  static const std::vector<Row> table = {
      {"add", &Translator::Binary, IrOp::kAdd, IrOp::kAdd},
      {"sub", &Translator::Binary, IrOp::kSub, IrOp::kSub},
      {"min", &Translator::Binary, IrOp::kMinU, IrOp::kMinS},
      {"max", &Translator::Binary, IrOp::kMaxU, IrOp::kMaxS},
      {"mul", &Translator::Multiply, IrOp::kMul, IrOp::kMul},
      {"mad", &Translator::Multiply, IrOp::kMad, IrOp::kMad},
      {"and", &Translator::Logic, IrOp::kAnd, IrOp::kPredAnd},
      {"or", &Translator::Logic, IrOp::kOr, IrOp::kPredOr},
      {"xor", &Translator::Logic, IrOp::kXor, IrOp::kPredXor},
      {"not", &Translator::Not},
      {"neg", &Translator::Negate},
      {"abs", &Translator::Absolute},
      {"sad", &Translator::SumOfDifferences},
      {"shl", &Translator::Shift, IrOp::kShl, IrOp::kShl},
      {"shr", &Translator::Shift, IrOp::kShr, IrOp::kSar},
      {"shf", &Translator::FunnelShift},
      {"bfe", &Translator::ExtractField},
      {"bfi", &Translator::InsertField},
      {"bfind", &Translator::FindHighBit},
      {"popc", &Translator::Unary, IrOp::kPopc, IrOp::kPopc},
      {"clz", &Translator::Unary, IrOp::kClz, IrOp::kClz},
      {"brev", &Translator::Unary, IrOp::kBrev, IrOp::kBrev},
      {"lop3", &Translator::Lop3},
      {"mov", &Translator::Move},
      {"cvt", &Translator::Convert},
      {"cvta", &Translator::ConvertAddress},
      {"setp", &Translator::SetPredicate},
      {"set", &Translator::Set},
      {"selp", &Translator::SelectByPredicate},
      {"slct", &Translator::SelectBySign},
      {"ld", &Translator::Load},
      {"st", &Translator::Store},
  };
  return table;
}

}  // namespace

absl::StatusOr<Translation> Translate(const ptx::Module& module, const ptx::Function& kernel, const Dim3& grid,
                                      const Dim3& block) {
  return Translator(module, kernel, grid, block).Run();
}

std::vector<std::string> SupportedOpcodes() {
  std::vector<std::string> opcodes = {"bra", "ret", "exit", "bar", "barrier"};
  for (const Translator::Row& row : Translator::Table()) opcodes.push_back(row.opcode);
  std::sort(opcodes.begin(), opcodes.end());
  return opcodes;
}

}  // namespace qgpu::lower
