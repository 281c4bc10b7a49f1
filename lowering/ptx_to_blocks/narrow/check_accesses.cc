#include "lowering/ptx_to_blocks/narrow/check_accesses.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace qgpu::lower {
namespace {

constexpr uint32_t kOutside = 1u << 28;  // out of range, whatever is added to it here
constexpr int kMaxTerms = 8;             // of an address that is looked through

class Checker {
 public:
  Checker(IrFunction& function, const LaunchFacts& facts, const MemoryLayout& layout)
      : f_(function), facts_(facts), layout_(layout), flow_(AnalyzeFlow(function)), ranges_(function, flow_, facts) {}

  void Run() {
    for (int block : flow_.order) {
      const std::vector<int> list = f_.blocks[block].instructions;
      for (int value : list) {
        if (f_.at(value).op != IrOp::kLoad && f_.at(value).op != IrOp::kStore) continue;
        access_ = value;
        home_ = block;
        CheckWindow();
        CheckAlignment();
      }
    }
  }

 private:
  int Base() const { return f_.at(access_).args[0]; }
  int64_t Offset() const { return static_cast<int32_t>(f_.at(access_).immediate); }
  int Const32(uint32_t value) { return f_.Constant(Type::kI32, value); }

  // The range of a 32-bit value where the access happens.
  Range RangeOf(int value) const {
    const IrInstruction& in = f_.at(access_);
    return ranges_.At(home_, value, in.guard, in.negate);
  }

  // Adds an instruction before the access; before its block where that is one which lanes run one by one, unless it
  // needs what is computed there.
  int Insert(IrOp op, Type type, std::vector<int> args) {
    int block = f_.at(access_).block;
    if (f_.blocks[block].serial) {
      const int before = Preheader(block);
      block = f_.at(access_).block;
      if (std::none_of(args.begin(), args.end(), [&](int arg) { return f_.at(arg).block == block; })) block = before;
    }
    const std::vector<int>& list = f_.blocks[block].instructions;
    IrInstruction in;
    in.op = op;
    in.type = type;
    in.args = std::move(args);
    in.origin = f_.at(access_).origin;
    const auto at = std::find(list.begin(), list.end(), access_);
    return f_.Add(block, std::move(in), at == list.end() ? -1 : static_cast<int>(at - list.begin()));
  }
  int Insert32(IrOp op, std::vector<int> args) { return Insert(op, Type::kI32, std::move(args)); }

  // The block that comes before serial block `block` and nothing else: `block` itself, with what stands before the
  // first access; the rest moves on.
  int Preheader(int block) {
    const auto known = preheader_.find(block);
    if (known != preheader_.end()) return known->second;
    const std::vector<int>& list = f_.blocks[block].instructions;
    const auto first = std::find_if(list.begin(), list.end(), [&](int value) { return IsAccess(f_.at(value).op); });
    const int serial = SplitAt(f_, block, static_cast<size_t>(first - list.begin()));
    f_.blocks[block].serial = false;
    f_.blocks[serial].serial = true;
    preheader_[serial] = block;
    return block;
  }

  void SetAddress(int base, uint32_t offset) {
    f_.at(access_).args[0] = base;
    f_.at(access_).immediate = offset;
  }

  // ---- windows ----

  void CheckWindow() {
    switch (f_.at(access_).space) {
      case AccessSpace::kAny:
      case AccessSpace::kScratch:
        return;
      case AccessSpace::kShared:
        return StayWithin(layout_.shared());
      case AccessSpace::kConst:
        return StayWithin(layout_.constant());
      case AccessSpace::kParameters:
        return StayWithin(layout_.parameter_copies());
      case AccessSpace::kLocal:
        return StayWithinOwn();
      case AccessSpace::kNotConst:
        return StayOutside(layout_.constant());
    }
  }

  void StayWithin(const Window& window) {
    const uint32_t size = (window.high + 3) / 4 * 4 - window.low;
    const Range range = RangeOf(Base());
    const bool is_last = window.low + size == layout_.end();  // then what is above traps by itself
    const int64_t low = int64_t{window.low} - Offset();
    const int64_t high =
        is_last ? std::numeric_limits<int32_t>::max() - std::max<int64_t>(Offset(), 0) : low + size - 4;
    if (!window.empty() && (range.empty() || range.Within(low, high))) return;
    if (window.empty()) return SetAddress(Const32(kOutside), 0);
    const int inside = Insert32(IrOp::kAdd, {Base(), Const32(static_cast<uint32_t>(Offset()) - window.low)});
    if (is_last) return SetAddress(Insert32(IrOp::kMinU, {inside, Const32(size)}), window.low);
    SelectInside(inside, size, window.low);
  }

  // The access goes to base + `inside` if that is below `size`.
  void SelectInside(int inside, uint32_t size, uint32_t base) {
    const int valid = Insert(IrOp::kCompare, Type::kPredicate, {inside, Const32(size)});
    f_.at(valid).compare = Compare::kLtU;
    SetAddress(Insert32(IrOp::kSelect, {valid, inside, Const32(kOutside)}), base);
  }

  void StayOutside(const Window& window) {
    const Range range = RangeOf(Base());
    const int64_t low = range.low + Offset(), high = range.high + Offset();
    if (window.empty() || range.empty() || high < window.low || low >= window.high) return;
    const int inside = Insert32(IrOp::kAdd, {Base(), Const32(static_cast<uint32_t>(Offset()) - window.low)});
    const int valid = Insert(IrOp::kCompare, Type::kPredicate, {inside, Const32(window.high - window.low)});
    f_.at(valid).compare = Compare::kGeU;
    SetAddress(Insert32(IrOp::kSelect, {valid, inside, Const32(kOutside)}), window.low);
  }

  // ---- local memory ----

  bool IsThreadNumber(int value) const {
    const IrInstruction& in = f_.at(value);
    if (in.op != IrOp::kSpecial) return false;
    const bool flat = facts_.block.y == 1 && facts_.block.z == 1;
    return in.immediate == kSpecialLaneId || (flat && in.immediate == kSpecialTidX);
  }

  // thread number * bytes of local memory
  bool IsOwnOffset(int value) const {
    const IrInstruction& in = f_.at(value);
    if ((in.op != IrOp::kMul && in.op != IrOp::kShl) || !IsThreadNumber(in.args[0]) || !f_.IsConstant(in.args[1])) {
      return false;
    }
    const uint64_t factor = f_.at(in.args[1]).immediate;
    return (in.op == IrOp::kMul ? factor : uint64_t{1} << std::min<uint64_t>(factor, 31)) == layout_.local_bytes();
  }

  // Adds up the terms of `value` except one own offset; false where they are too many.
  bool Rest(int value, int depth, bool* found, Range* rest) const {
    if (!*found && IsOwnOffset(value)) return *found = true;
    const IrInstruction& in = f_.at(value);
    if (in.op == IrOp::kAdd && depth > 0) {
      return Rest(in.args[0], depth - 1, found, rest) && Rest(in.args[1], depth - 1, found, rest);
    }
    const Range range = RangeOf(value);
    if (range.empty() || !range.Within(-int64_t{kOutside}, kOutside)) return false;
    *rest = {rest->low + range.low, rest->high + range.high};
    return true;
  }

  void StayWithinOwn() {
    const Window window = layout_.local();
    const uint32_t size = (layout_.local_bytes() + 3) / 4 * 4;
    if (facts_.block.Count() == 1) return StayWithin(window);
    if (window.empty()) return SetAddress(Const32(kOutside), 0);
    bool found = false;
    Range rest{Offset(), Offset()};
    const bool known = Rest(Base(), kMaxTerms, &found, &rest);
    if (known && found && rest.Within(window.low, int64_t{window.low} + size - 4)) return;
    const bool flat = facts_.block.y == 1 && facts_.block.z == 1;
    const int thread = f_.Special(Type::kI32, flat ? kSpecialTidX : kSpecialLaneId);
    const int own = Insert32(IrOp::kMul, {thread, Const32(layout_.local_bytes())});
    const int address = Insert32(IrOp::kAdd, {Base(), Const32(static_cast<uint32_t>(Offset()) - window.low)});
    const int inside = Insert32(IrOp::kSub, {address, own});
    const int valid = Insert(IrOp::kCompare, Type::kPredicate, {inside, Const32(size)});
    f_.at(valid).compare = Compare::kLtU;
    SetAddress(Insert32(IrOp::kSelect, {valid, address, Const32(kOutside)}), window.low);
  }

  // ---- alignment ----

  // A misaligned address gets one of its two low bits set, which the machine checks.
  void CheckAlignment() {
    const uint32_t alignment = f_.at(access_).alignment;
    if (alignment <= 4) return;
    f_.at(access_).alignment = 4;
    const auto offset = static_cast<uint32_t>(Offset());
    const int low = LowBits(f_, facts_, Base(), alignment);
    if (low >= 0 && (static_cast<uint32_t>(low) + offset) % alignment == 0) return;
    int address = Base();
    if (offset % alignment != 0) address = Insert32(IrOp::kAdd, {address, Const32(offset)});
    const int bits = Insert32(IrOp::kAnd, {Insert32(IrOp::kShr, {address, Const32(2)}), Const32(alignment / 4 - 1)});
    SetAddress(Insert32(IrOp::kOr, {address, bits}), offset % alignment != 0 ? 0 : offset);
  }

  IrFunction& f_;
  const LaunchFacts& facts_;
  const MemoryLayout& layout_;
  const FlowGraph flow_;
  const Ranges ranges_;
  std::map<int, int> preheader_;  // [serial block]
  int access_ = -1, home_ = -1;   // and the block where it was
};

}  // namespace

void CheckAccesses(IrFunction& function, const LaunchFacts& facts, const MemoryLayout& layout) {
  Checker(function, facts, layout).Run();
}

}  // namespace qgpu::lower
