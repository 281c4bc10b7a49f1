#include "lowering/ptx_to_blocks/narrow/halves.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "lowering/ptx_to_blocks/expand/expand.h"

namespace qgpu::lower {
namespace {

constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min(), kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxU32 = std::numeric_limits<uint32_t>::max();

bool IsMinOrMax(IrOp op) { return op == IrOp::kMinU || op == IrOp::kMinS || op == IrOp::kMaxU || op == IrOp::kMaxS; }
bool IsShiftRight(IrOp op) { return op == IrOp::kShr || op == IrOp::kSar; }
bool IsExtension(IrOp op) { return op == IrOp::kSignExt || op == IrOp::kZeroExt; }

}  // namespace

int Halves::InsertAfter(int after, IrOp op, std::vector<int> args) {
  const int block = f_.at(after).block;
  const std::vector<int>& list = f_.blocks[block].instructions;
  auto at = std::find(list.begin(), list.end(), after) + 1;
  if (op != IrOp::kPhi) {
    while (at != list.end() && f_.at(*at).op == IrOp::kPhi) ++at;
  }
  IrInstruction in;
  in.op = op;
  in.type = Type::kI32;
  in.args = std::move(args);
  in.origin = f_.at(after).origin;
  return f_.Add(block, std::move(in), static_cast<int>(at - list.begin()));
}

PairMath Halves::Behind(int after) {
  const auto last = std::make_shared<int>(after);
  return PairMath(f_, [this, last](IrInstruction in) {
    const int value = InsertAfter(*last, in.op, std::move(in.args));
    f_.at(value).type = in.type;
    f_.at(value).compare = in.compare;
    return *last = value;
  });
}

PairMath Halves::InFrontOf(int before) {
  return PairMath(f_, [this, before](IrInstruction in) {
    const int block = f_.at(before).block;
    const std::vector<int>& list = f_.blocks[block].instructions;
    in.origin = f_.at(before).origin;
    const auto at = std::find(list.begin(), list.end(), before) - list.begin();
    return f_.Add(block, std::move(in), static_cast<int>(at));
  });
}

int Halves::PlaceOf(int value) const {
  return IsExtension(f_.at(value).op) || low_.count(value) == 0 ? value : low_.at(value);
}

// ---- lower halves ----

bool Halves::Fits(int value) const {
  const Range& range = ranges_[value];
  return range.Within(kMin32, kMax32) || range.Within(0, kMaxU32);
}

absl::Status Halves::Make(const std::vector<int>& order) {
  // Twins first, operands afterwards: phis refer to values that come later.
  for (int value : order) {
    const IrInstruction& in = f_.at(value);
    if (IsExtension(in.op)) {
      low_[value] = in.args[0];
    } else {
      low_[value] = InsertAfter(value, IsMinOrMax(in.op) ? IrOp::kSelect : in.op, {});
    }
  }
  for (int value : order) {
    if (!IsExtension(f_.at(value).op)) Fill(value);
  }
  return status_;
}

int Halves::Low(int value) {
  const IrInstruction& in = f_.at(value);
  if (in.type != Type::kI64) return value;
  if (in.op == IrOp::kConst) return f_.Constant(Type::kI32, in.immediate);
  if (in.op == IrOp::kSpecial) return f_.Special(Type::kI32, static_cast<int>(in.immediate));
  return low_.at(value);
}

void Halves::Fill(int value) {
  const IrInstruction in = f_.at(value);
  const int twin = low_.at(value);
  std::vector<int> args;
  for (int arg : in.args) args.push_back(Low(arg));
  if (IsMinOrMax(in.op)) {
    args.insert(args.begin(), Choice(value));
  } else if (IsShiftRight(in.op)) {
    const Range& range = ranges_[in.args[0]];
    const bool fits = in.op == IrOp::kShr ? range.Within(0, kMaxU32) : range.Within(kMin32, kMax32);
    if (!fits) {
      f_.at(twin).op = IrOp::kAdd;  // a copy, which Simplify removes
      args = {InFrontOf(twin).ShiftedRightLow(in.op, Both(in.args[0]), args[1]), Const32(0)};
    }
  }
  f_.at(twin).args = std::move(args);
  f_.at(twin).phi_blocks = in.phi_blocks;
}

// Whether a minimum or maximum is its first operand.
int Halves::Choice(int value) {
  const auto known = choice_.find(value);
  if (known != choice_.end()) return known->second;
  const IrInstruction in = f_.at(value);
  const Compare compare = in.op == IrOp::kMinU   ? Compare::kLtU
                          : in.op == IrOp::kMinS ? Compare::kLtS
                          : in.op == IrOp::kMaxU ? Compare::kGtU
                                                 : Compare::kGtS;
  return choice_[value] = InFrontOf(low_.at(value)).Compared(compare, Both(in.args[0]), Both(in.args[1]));
}

// ---- upper halves ----

int Halves::High(int value) {
  const auto known = high_.find(value);
  if (known != high_.end()) return known->second;
  const int high = MakeHigh(value);
  high_[value] = high;
  return high;
}

int Halves::MakeHigh(int value) {
  const IrInstruction in = f_.at(value);
  if (in.op == IrOp::kConst) return Const32(static_cast<uint32_t>(in.immediate >> 32));
  if (ranges_[value].Within(0, kMaxU32) || in.op == IrOp::kZeroExt) return Const32(0);
  if (in.op == IrOp::kSpecial) return HighOfParameter(value);
  if (in.op == IrOp::kPhi && !Fits(value)) return HighOfPhi(value);
  PairMath math = Behind(PlaceOf(value));
  const int low = Low(value);
  if (Fits(value) || in.op == IrOp::kSignExt) return math.Op(IrOp::kSar, {low, Const32(31)});
  switch (in.op) {
    case IrOp::kAdd:
    case IrOp::kSub: {
      const Pair a = Both(in.args[0]), b = Both(in.args[1]);
      return in.op == IrOp::kAdd ? math.SumHigh(a, b, low) : math.DifferenceHigh(a, b);
    }
    case IrOp::kMul: {
      const int a = in.args[0], b = in.args[1];
      const auto small = [&](int v) { return ranges_[v].Within(kMin32, kMax32); };
      if (small(a) && small(b) && !(ranges_[a].low >= 0 && ranges_[b].low >= 0)) {
        const Emit32Function emit = [&](IrOp op, std::vector<int> args) { return math.Op(op, std::move(args)); };
        return ExpandHighProduct(f_, emit, Low(a), Low(b), /*is_signed=*/true);
      }
      return math.ProductHigh(Both(a), Both(b));
    }
    case IrOp::kAnd:
    case IrOp::kOr:
    case IrOp::kXor:
      return math.Op(in.op, {High(in.args[0]), High(in.args[1])});
    case IrOp::kShl:
      return math.ShiftedLeftHigh(Both(in.args[0]), Low(in.args[1]));
    case IrOp::kShr:
    case IrOp::kSar:
      return math.Op(in.op, {High(in.args[0]), Low(in.args[1])});
    case IrOp::kSelect:
      return math.Select(in.args[0], High(in.args[1]), High(in.args[2]));
    case IrOp::kMinU:
    case IrOp::kMinS:
    case IrOp::kMaxU:
    case IrOp::kMaxS:
      return math.Select(Choice(value), High(in.args[0]), High(in.args[1]));
    default:
      status_ = absl::InternalError(fmt::format("no upper half of {}", IrOpName(in.op)));
      return Const32(0);
  }
}

int Halves::HighOfPhi(int value) {
  const int phi = InsertAfter(low_.at(value), IrOp::kPhi, {});
  high_[value] = phi;  // loops come back here
  const IrInstruction in = f_.at(value);
  std::vector<int> args;
  for (int arg : in.args) args.push_back(High(arg));
  f_.at(phi).args = std::move(args);
  f_.at(phi).phi_blocks = in.phi_blocks;
  return phi;
}

int Halves::HighOfParameter(int value) {
  const size_t word = f_.at(value).immediate - kSpecialFirstParameter;
  if (words_ == nullptr || word >= words_->size()) {
    status_ = absl::InternalError("a parameter whose upper half is nowhere");
    return Const32(0);
  }
  ParameterWord upper = (*words_)[word];
  upper.byte_offset += 4;
  size_t at = 0;
  while (at < words_->size() &&
         ((*words_)[at].parameter != upper.parameter || (*words_)[at].byte_offset != upper.byte_offset)) {
    ++at;
  }
  if (at == words_->size()) words_->push_back(upper);
  const size_t limit = MachineGeometry{}.parameter_words;
  if (words_->size() > limit) {
    status_ =
        absl::InvalidArgumentError(fmt::format("needs more than {} parameter words, the machine has {}", limit, limit));
  }
  return f_.Special(Type::kI32, kSpecialFirstParameter + static_cast<int>(at));
}

}  // namespace qgpu::lower
