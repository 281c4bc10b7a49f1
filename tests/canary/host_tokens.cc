#include "tests/canary/host_tokens.h"

#include <algorithm>

namespace qgpu {
namespace {

uint32_t SignExtend(uint32_t value, int bits) {
  return static_cast<uint32_t>(static_cast<int32_t>(value << (32 - bits)) >> (32 - bits));
}

class Reader {
 public:
  absl::Status Take(Token token) {
    switch (token.kind) {
      case TokenKind::kVal0:
        word_ &= ~(uint64_t{255} << 8 * (4 * token.slot() + token.lane()));
        word_ |= uint64_t{static_cast<uint8_t>(token.byte())} << 8 * (4 * token.slot() + token.lane());
        value_ = SignExtend(static_cast<uint32_t>(token.byte()), 8);
        return absl::OkStatus();
      case TokenKind::kVal1:
        value_ = SignExtend((value_ & 0xff) | static_cast<uint32_t>(token.low()) << 8, 20);
        return absl::OkStatus();
      case TokenKind::kVal2:
        value_ = (value_ & 0xfffff) | static_cast<uint32_t>(token.low()) << 20;
        return absl::OkStatus();
      case TokenKind::kRow:
        TakeRow(token);
        return absl::OkStatus();
      case TokenKind::kSpecialRow:
        TakeSpecial(token.low());
        return absl::OkStatus();
      case TokenKind::kMemWord:
        launch.memory.resize(MachineGeometry().memory_words);
        launch.memory.at(token.low()) = value_;
        return absl::OkStatus();
      case TokenKind::kGrid:
        launch.grid = {static_cast<uint32_t>(word_ & 255) + 1, static_cast<uint32_t>(word_ >> 8 & 255) + 1,
                       static_cast<uint32_t>(word_ >> 16 & 63) + 1};
        return absl::OkStatus();
      case TokenKind::kReset:
      case TokenKind::kWarp:
      case TokenKind::kSwitchWarp:
      case TokenKind::kBar:
      case TokenKind::kCtaX:
      case TokenKind::kCtaY:
      case TokenKind::kCtaZ:
        return absl::OkStatus();
      default:
        return absl::InvalidArgumentError("no token of a host: " + FormatToken(token));
    }
  }

  MachineLaunch launch;

 private:
  void TakeRow(Token token) {
    auto& blocks = launch.program.blocks;
    blocks.resize(std::max(blocks.size(), static_cast<size_t>(token.block()) + 1));
    if (token.row() < kSlots) {
      blocks[token.block()].slots[token.row()] = DecodeInstruction(word_);
    } else {
      blocks[token.block()].control = DecodeControl(word_);
    }
  }

  // Parameters, and the thread indices of a warp's lanes (6 bits each in the high half), which tell the block's shape.
  void TakeSpecial(int row) {
    if (row < 32) {
      const size_t parameter = static_cast<size_t>(row - kSpecialFirstParameter);
      launch.parameters.resize(std::max(launch.parameters.size(), parameter + 1));
      launch.parameters[parameter] = static_cast<uint32_t>(word_);
      return;
    }
    const int axis = (row - 32) / kWarps;
    if (axis > 2) return;
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t index = static_cast<uint32_t>(word_ >> (32 + 6 * lane) & 63);
      launch.block[axis] = std::max(launch.block[axis], index + 1);
    }
  }

  uint64_t word_ = 0;
  uint32_t value_ = 0;
};

}  // namespace

absl::StatusOr<MachineLaunch> LaunchFromHostTokens(std::span<const int32_t> host_ids) {
  Reader reader;
  for (int32_t id : host_ids) {
    QGPU_ASSIGN_OR_RETURN(const Token token, TokenFromId(id));
    QGPU_RETURN_IF_ERROR(reader.Take(token));
  }
  return reader.launch;
}

}  // namespace qgpu
