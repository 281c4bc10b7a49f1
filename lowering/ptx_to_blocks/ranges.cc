#include "lowering/ptx_to_blocks/ranges.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace qgpu::lower {
namespace {

using Wide = __int128;

constexpr int64_t kMin32 = std::numeric_limits<int32_t>::min(), kMax32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min(), kMax64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMaxU32 = std::numeric_limits<uint32_t>::max();
constexpr int kRoundsBeforeWidening = 4;
constexpr int64_t kMaxTurns = int64_t{1} << 40;

Range Full(Type type) { return type == Type::kI64 ? Range{kMin64, kMax64} : Range{kMin32, kMax32}; }

Range Make(Type type, Wide low, Wide high) {
  const Range full = Full(type);
  if (low < full.low || high > full.high) return full;
  return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

Range Union(const Range& a, const Range& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Range Product(Type type, const Range& a, const Range& b) {
  const Wide ends[] = {Wide{a.low} * b.low, Wide{a.low} * b.high, Wide{a.high} * b.low, Wide{a.high} * b.high};
  return Make(type, *std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4));
}

int64_t AllBitsOf(int64_t value) {  // the smallest 2^k - 1 that is not below value >= 0
  return value == 0 ? 0 : static_cast<int64_t>(~uint64_t{0} >> std::countl_zero(static_cast<uint64_t>(value)));
}

class Analysis {
 public:
  Analysis(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts)
      : f_(function), flow_(flow), facts_(facts), ranges_(function.instructions.size()) {}

  std::vector<Range> Run() {
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (f_.IsPlaceless(static_cast<int>(i))) ranges_[i] = Placeless(f_.at(static_cast<int>(i)));
    }
    for (int round = 0;; ++round) {
      bool changed = false;
      for (int block : flow_.order) {
        for (int value : f_.blocks[block].instructions) {
          Range now = f_.at(value).op == IrOp::kPhi ? Phi(value) : Transfer(f_.at(value));
          if (now == ranges_[value]) continue;
          if (round > kRoundsBeforeWidening && f_.at(value).op == IrOp::kPhi) now = Full(f_.at(value).type);
          changed = changed || !(now == ranges_[value]);
          ranges_[value] = now;
        }
      }
      if (!changed) return std::move(ranges_);
    }
  }

 private:
  Range Placeless(const IrInstruction& in) const {
    if (in.op == IrOp::kConst) {
      const auto value =
          in.type == Type::kI64 ? static_cast<int64_t>(in.immediate) : static_cast<int32_t>(in.immediate);
      return {value, value};
    }
    const auto word = static_cast<int>(in.immediate);
    const auto below = [](uint32_t count) { return Range{0, int64_t{count} - 1}; };
    switch (word) {
      case kSpecialCtaX:
        return below(facts_.grid.x);
      case kSpecialCtaY:
        return below(facts_.grid.y);
      case kSpecialCtaZ:
        return below(facts_.grid.z);
      case kSpecialLaneId:
        return {0, 31};
      case kSpecialTidX:
        return below(facts_.block.x);
      case kSpecialTidY:
        return below(facts_.block.y);
      case kSpecialTidZ:
        return below(facts_.block.z);
    }
    const size_t parameter = word - kSpecialFirstParameter;
    if (parameter >= facts_.words.size()) return Full(in.type);
    const uint64_t bits = facts_.words[parameter];
    const auto value = in.type == Type::kI64 ? static_cast<int64_t>(bits) : static_cast<int32_t>(bits);
    return {value, value};
  }

  Range Phi(int value) const {
    Induction induction;
    Range range;
    if (IsInduction(f_, value, &induction)) {
      for (int start : induction.starts) range = Union(range, ranges_[start]);
      if (range.empty()) return range;
      const Wide turns = std::clamp<int64_t>(facts_.token_budget, 1, kMaxTurns);
      return Make(f_.at(value).type, range.low + std::min<Wide>(0, induction.step_low * turns),
                  range.high + std::max<Wide>(0, induction.step_high * turns));
    }
    for (int arg : f_.at(value).args) range = Union(range, ranges_[arg]);
    return range;
  }

  Range Transfer(const IrInstruction& in) const {
    if (in.type != Type::kI32 && in.type != Type::kI64) return Full(Type::kI32);
    std::vector<Range> args;
    for (int arg : in.args) {
      args.push_back(ranges_[arg]);
      if (args.back().empty() && f_.at(arg).type != Type::kPredicate) return {};
    }
    switch (in.op) {
      case IrOp::kAdd:
        return Make(in.type, Wide{args[0].low} + args[1].low, Wide{args[0].high} + args[1].high);
      case IrOp::kSub:
        return Make(in.type, Wide{args[0].low} - args[1].high, Wide{args[0].high} - args[1].low);
      case IrOp::kMul:
        return Product(in.type, args[0], args[1]);
      case IrOp::kMad: {
        const Range product = Product(Type::kI64, args[0], args[1]);
        return Make(in.type, Wide{product.low} + args[2].low, Wide{product.high} + args[2].high);
      }
      case IrOp::kSelect:
        return Union(args[1], args[2]);
      case IrOp::kMinS:
        return {std::min(args[0].low, args[1].low), std::min(args[0].high, args[1].high)};
      case IrOp::kMaxS:
        return {std::max(args[0].low, args[1].low), std::max(args[0].high, args[1].high)};
      case IrOp::kLaneBallot:
        return {0, 15};
      case IrOp::kPopc:
      case IrOp::kClz:
        return {0, 32};
      case IrOp::kDivU:
      case IrOp::kRemU:
      case IrOp::kDivS:
      case IrOp::kRemS:
        return Division(in, args[0], args[1]);
      case IrOp::kSignExt:
        return args[0];
      case IrOp::kZeroExt:
        return args[0].low >= 0 ? args[0] : Range{0, kMaxU32};
      case IrOp::kTruncate:
        return args[0].Within(kMin32, kMax32) ? args[0] : Full(Type::kI32);
      default:
        return Bits(in, args);
    }
  }

  // Bounds where the divisor is known to be positive and, for the unsigned ones, the dividend not to be negative.
  static Range Division(const IrInstruction& in, const Range& a, const Range& b) {
    const bool is_signed = in.op == IrOp::kDivS || in.op == IrOp::kRemS;
    if (b.low <= 0 || (a.low < 0 && !is_signed)) return Full(in.type);
    if (in.op == IrOp::kDivU || in.op == IrOp::kDivS) {
      return {a.low < 0 ? a.low / b.low : a.low / b.high, a.high < 0 ? a.high / b.high : a.high / b.low};
    }
    return {a.low < 0 ? std::max(a.low, 1 - b.high) : 0, a.high < 0 ? 0 : std::min(a.high, b.high - 1)};
  }

  // Logic, shifts, unsigned minimum and maximum.
  Range Bits(const IrInstruction& in, const std::vector<Range>& args) const {
    const Range full = Full(in.type);
    if (args.size() != 2) return full;
    const bool a = args[0].low >= 0, b = args[1].low >= 0;
    const bool constant_amount = args[1].low == args[1].high && args[1].Within(0, in.type == Type::kI64 ? 63 : 31);
    const int64_t amount = args[1].low;
    switch (in.op) {
      case IrOp::kAnd:
        if (!a && !b) return full;
        return {0, a && b ? std::min(args[0].high, args[1].high) : a ? args[0].high : args[1].high};
      case IrOp::kOr:
      case IrOp::kXor:
        return a && b ? Range{0, AllBitsOf(std::max(args[0].high, args[1].high))} : full;
      case IrOp::kMinU:
        if (a && b) return {std::min(args[0].low, args[1].low), std::min(args[0].high, args[1].high)};
        return a || b ? Range{0, a ? args[0].high : args[1].high} : full;
      case IrOp::kMaxU:
        return a && b ? Range{std::max(args[0].low, args[1].low), std::max(args[0].high, args[1].high)} : full;
      case IrOp::kShl:
        if (!constant_amount) return full;
        return Make(in.type, Wide{args[0].low} << amount, Wide{args[0].high} << amount);
      case IrOp::kShr:
        if (!constant_amount) return a ? Range{0, args[0].high} : full;
        if (a) return {args[0].low >> amount, args[0].high >> amount};
        return amount == 0 ? args[0] : Range{0, in.type == Type::kI64 ? kMax64 >> (amount - 1) : kMaxU32 >> amount};
      case IrOp::kSar:
        if (!constant_amount) return {std::min<int64_t>(args[0].low, 0), std::max<int64_t>(args[0].high, 0)};
        return {args[0].low >> amount, args[0].high >> amount};
      default:
        return full;
    }
  }

  const IrFunction& f_;
  const FlowGraph& flow_;
  const LaunchFacts& facts_;
  std::vector<Range> ranges_;
};

// How many additions deep an address is looked into: shared terms make the work double with each.
constexpr int kLowBitsDepth = 10;

// Of a value modulo `modulus`, a power of two.
int LowBitsWithin(const IrFunction& function, const LaunchFacts& facts, int value, uint64_t modulus, int depth) {
  if (modulus == 1) return 0;
  if (depth == 0) return -1;
  const IrInstruction& in = function.at(value);
  const auto of = [&](size_t arg) { return LowBitsWithin(function, facts, in.args[arg], modulus, depth - 1); };
  const auto scaled = [&](uint64_t factor) {  // args[0] * factor
    const uint64_t power = factor == 0 ? modulus : std::min(modulus, factor & (0 - factor));
    const int low = LowBitsWithin(function, facts, in.args[0], modulus / power, depth - 1);
    return low < 0 ? -1 : static_cast<int>(static_cast<uint64_t>(low) * factor % modulus);
  };
  switch (in.op) {
    case IrOp::kConst:
      return static_cast<int>(in.immediate % modulus);
    case IrOp::kSpecial: {
      const size_t word = in.immediate - kSpecialFirstParameter;
      return word < facts.alignment.size() && facts.alignment[word] >= modulus ? 0 : -1;
    }
    case IrOp::kShl:
      if (!function.IsConstant(in.args[1])) return -1;
      return scaled(function.at(in.args[1]).immediate >= 32 ? 0 : uint64_t{1} << function.at(in.args[1]).immediate);
    case IrOp::kMul:
      return function.IsConstant(in.args[1]) ? scaled(function.at(in.args[1]).immediate) : -1;
    case IrOp::kAdd: {
      const int a = of(0), b = a < 0 ? -1 : of(1);
      return b < 0 ? -1 : static_cast<int>(static_cast<uint64_t>(a + b) % modulus);
    }
    case IrOp::kPhi: {  // a walk in whole units
      Induction induction;
      if (!IsInduction(function, value, &induction) || induction.starts.size() != 1) return -1;
      const auto unit = static_cast<int64_t>(modulus);
      if (induction.step_low % unit != 0 || induction.step_high % unit != 0) return -1;
      if (induction.step_low != induction.step_high) return -1;
      const int start = induction.starts[0];
      return function.at(start).op == IrOp::kPhi ? -1 : LowBitsWithin(function, facts, start, modulus, depth - 1);
    }
    case IrOp::kTruncate:
    case IrOp::kSignExt:
    case IrOp::kZeroExt:
      return of(0);
    default:
      return -1;
  }
}

}  // namespace

int LowBits(const IrFunction& function, const LaunchFacts& facts, int value, uint32_t modulus) {
  return LowBitsWithin(function, facts, value, modulus, kLowBitsDepth);
}

bool IsInduction(const IrFunction& function, int phi, Induction* induction) {
  *induction = {};
  bool steps = false;
  for (int arg : function.at(phi).args) {
    const IrInstruction& in = function.at(arg);
    if (in.op == IrOp::kAdd && in.args[0] == phi && function.IsConstant(in.args[1])) {
      const IrInstruction& constant = function.at(in.args[1]);
      const int64_t step = constant.type == Type::kI64 ? static_cast<int64_t>(constant.immediate)
                                                       : static_cast<int32_t>(constant.immediate);
      induction->step_low = steps ? std::min(induction->step_low, step) : step;
      induction->step_high = steps ? std::max(induction->step_high, step) : step;
      steps = true;
    } else if (arg != phi) {
      induction->starts.push_back(arg);
    }
  }
  return steps && !induction->starts.empty();
}

std::vector<Range> AnalyzeRanges(const IrFunction& function, const FlowGraph& flow, const LaunchFacts& facts) {
  return Analysis(function, flow, facts).Run();
}

}  // namespace qgpu::lower
