#include "lowering/ptx_to_blocks/narrow/stored_pointers.h"

#include <algorithm>

namespace qgpu::lower {
namespace {

constexpr int kRounds = 8;  // more than addresses need to get around nested loops
constexpr int kMost = 9;

// How many addresses are added up in each value, those that are subtracted counted negative.
class Addresses {
 public:
  Addresses(const IrFunction& function, const std::vector<ParameterWord>& words, const std::vector<bool>& is_buffer)
      : f_(function), count_(function.instructions.size(), 0) {
    for (size_t value = 0; value < count_.size(); ++value) {
      const IrInstruction& in = f_.at(static_cast<int>(value));
      const size_t word = in.immediate - kSpecialFirstParameter;
      if (in.op != IrOp::kSpecial || word >= words.size() || words[word].byte_offset != 0) continue;
      count_[value] = is_buffer[words[word].parameter] ? 1 : 0;
    }
    bool changed = true;
    for (int round = 0; changed && round < kRounds; ++round) {
      changed = false;
      for (const IrBlock& block : f_.blocks) {
        for (int value : block.instructions) {
          const int now = Of(f_.at(value));
          changed = changed || now != count_[value];
          count_[value] = now;
        }
      }
    }
  }

  bool IsPointer(int value) const { return count_[value] != 0; }

 private:
  int Of(const IrInstruction& in) const {
    const auto of = [&](size_t arg) { return count_[in.args[arg]]; };
    switch (in.op) {
      case IrOp::kAdd:
        return std::clamp(of(0) + of(1), -kMost, kMost);
      case IrOp::kSub:
        return std::clamp(of(0) - of(1), -kMost, kMost);
      case IrOp::kSelect:
        return of(1) != 0 ? of(1) : of(2);
      case IrOp::kAnd:  // with few bits: a pointer's place inside of a line, which is a number
        if (f_.IsConstant(in.args[1]) && f_.at(in.args[1]).immediate < 0x10000) return 0;
        return of(0) != 0 ? of(0) : of(1);
      case IrOp::kPhi:
      case IrOp::kOr:
      case IrOp::kTruncate:
        for (int arg : in.args) {
          if (count_[arg] != 0) return count_[arg];
        }
        return 0;
      default:
        return 0;
    }
  }

  const IrFunction& f_;
  std::vector<int> count_;  // [value]
};

}  // namespace

absl::Status RefuseStoredPointers(const IrFunction& function, const std::vector<ParameterWord>& words,
                                  const std::vector<bool>& is_buffer) {
  const Addresses addresses(function, words, is_buffer);
  for (const IrBlock& block : function.blocks) {
    for (int value : block.instructions) {
      const IrInstruction& in = function.at(value);
      if (in.op != IrOp::kStore && in.op != IrOp::kAtomic) continue;
      for (size_t arg = 1; arg < in.args.size(); ++arg) {
        if (!addresses.IsPointer(in.args[arg])) continue;
        const SlotOrigin at = in.origin < 0 ? SlotOrigin{} : function.origins[in.origin];
        const std::string cuda = at.cuda_line == 0 ? "" : fmt::format(" (CUDA line {})", at.cuda_line);
        return absl::UnimplementedError(
            fmt::format("{}:{}{}: {}: not supported by the machine's lowering: pointers in memory, whose values differ "
                        "from machine "
                        "to machine; keep indices there",
                        function.source, at.ptx_line, cuda, at.text));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace qgpu::lower
