#include "machine/isa/token.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "machine/isa/geometry.h"

namespace qgpu {
namespace {

// The id space: kinds in this order, and inside a kind the payloads in ascending order of the values listed here.
struct KindInfo {
  TokenKind kind;
  const char* name;
  uint16_t payload_mask;
};

constexpr uint16_t kMaskField = 0x00f, kBlockField = 0x1f0, kLaneField = 0x300, kSlotField = 0xc00, kWarpField = 0xe00;

constexpr std::array<KindInfo, kTokenKinds> kKinds = {{
    {TokenKind::kExec, "EXEC", kMaskField | kBlockField},
    {TokenKind::kSwitchWarp, "SW", kWarpField},
    {TokenKind::kVal0, "VAL0", 0xfff},
    {TokenKind::kVal0U, "VAL0U", 0x0ff | kSlotField},
    {TokenKind::kVal1, "VAL1", 0xfff},
    {TokenKind::kVal2, "VAL2", 0xfff},
    {TokenKind::kPred, "PRED", kMaskField | kSlotField},
    {TokenKind::kMem, "MEM", 0x07f},
    {TokenKind::kBar, "BAR", 0x001},
    {TokenKind::kCtaX, "CTAX", 0x0ff},
    {TokenKind::kCtaY, "CTAY", 0x0ff},
    {TokenKind::kCtaZ, "CTAZ", 0x03f},
    {TokenKind::kWarp, "WARP", kMaskField | kWarpField},
    {TokenKind::kTrap, "TRAP", 0x003 | kLaneField | kSlotField},
    {TokenKind::kDone, "DONE", 0},
    {TokenKind::kReset, "RESET", 0},
    {TokenKind::kRow, "ROW", kBlockField | kWarpField},
    {TokenKind::kSpecialRow, "SROW", 0x03f},
    {TokenKind::kMemWord, "MW", 0x07f},
    {TokenKind::kGrid, "GRID", 0},
}};

// Payloads within the mask that are no token.
bool PayloadExists(TokenKind kind, uint16_t payload) {
  if (kind == TokenKind::kExec) return (payload & kMaskField) != 0;
  if (kind == TokenKind::kTrap) return (payload & 3) != 0;
  if (kind == TokenKind::kRow) return (payload & kWarpField) >> 9 <= 4;
  if (kind == TokenKind::kMemWord) return payload < MachineGeometry{}.memory_words;
  return true;
}

struct Vocabulary {
  std::vector<Token> tokens;
  std::array<std::array<int32_t, 4096>, kTokenKinds> ids;
  Vocabulary() {
    for (const KindInfo& info : kKinds) {
      auto& of_kind = ids[static_cast<int>(info.kind)];
      of_kind.fill(-1);
      for (int payload = 0; payload < 4096; ++payload) {
        if ((payload & ~info.payload_mask) != 0 || !PayloadExists(info.kind, payload)) continue;
        of_kind[payload] = static_cast<int32_t>(tokens.size());
        tokens.push_back({info.kind, static_cast<uint16_t>(payload)});
      }
    }
  }
};

const Vocabulary& TheVocabulary() {
  static const Vocabulary vocabulary;
  return vocabulary;
}

int SignExtend(int value, int bits) { return value >> (bits - 1) & 1 ? value - (1 << bits) : value; }

}  // namespace

int MachineVocabularySize() { return static_cast<int>(TheVocabulary().tokens.size()); }

int TokenToId(Token token) {
  const int id = TheVocabulary().ids[static_cast<int>(token.kind)][token.payload & 4095];
  if (id < 0 || token.payload > 4095) {
    std::fprintf(stderr, "bug: no machine token %s with payload %d\n", TokenKindName(token.kind), token.payload);
    std::abort();
  }
  return id;
}

absl::StatusOr<Token> TokenFromId(int machine_id) {
  if (machine_id < 0 || machine_id >= MachineVocabularySize()) {
    return absl::OutOfRangeError(
        fmt::format("no machine token has id {} (there are {})", machine_id, MachineVocabularySize()));
  }
  return TheVocabulary().tokens[machine_id];
}

uint16_t PayloadMask(TokenKind kind) { return kKinds[static_cast<int>(kind)].payload_mask; }
const char* TokenKindName(TokenKind kind) { return kKinds[static_cast<int>(kind)].name; }

std::string FormatToken(Token token) {
  const char* name = TokenKindName(token.kind);
  switch (token.kind) {
    case TokenKind::kExec:
      return fmt::format("{}(block {}, lanes 0b{:04b})", name, token.block(), token.mask());
    case TokenKind::kSwitchWarp:
      return fmt::format("{}(warp {})", name, token.warp());
    case TokenKind::kVal0:
      return fmt::format("{}(slot {}, lane {}, {})", name, token.slot(), token.lane(), SignExtend(token.byte(), 8));
    case TokenKind::kVal0U:
      return fmt::format("{}(slot {}, {})", name, token.slot(), SignExtend(token.byte(), 8));
    case TokenKind::kPred:
      return fmt::format("{}(slot {}, 0b{:04b})", name, token.slot(), token.mask());
    case TokenKind::kWarp:
      return fmt::format("{}(warp {}, lanes 0b{:04b})", name, token.warp(), token.mask());
    case TokenKind::kTrap: {
      const char* kinds[] = {"?", "address out of range", "misaligned access", "barrier divergence"};
      return fmt::format("{}({}, slot {}, lane {})", name, kinds[token.payload & 3], token.slot(), token.lane());
    }
    case TokenKind::kRow:
      return fmt::format("{}(block {}, row {})", name, token.block(), token.row());
    case TokenKind::kDone:
    case TokenKind::kReset:
    case TokenKind::kGrid:
      return name;
    default:
      return fmt::format("{}({})", name, token.low());
  }
}

std::string TokenText(Token token) {
  std::string name = TokenKindName(token.kind);
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  std::string fields;
  switch (token.kind) {
    case TokenKind::kExec:
      fields = fmt::format("_{}_{}", token.block(), token.mask());
      break;
    case TokenKind::kSwitchWarp:
      fields = fmt::format("_{}", token.warp());
      break;
    case TokenKind::kVal0:
      fields = fmt::format("_{}_{}_{}", token.slot(), token.lane(), token.byte());
      break;
    case TokenKind::kVal0U:
      fields = fmt::format("_{}_{}", token.slot(), token.byte());
      break;
    case TokenKind::kPred:
      fields = fmt::format("_{}_{}", token.slot(), token.mask());
      break;
    case TokenKind::kWarp:
      fields = fmt::format("_{}_{}", token.warp(), token.mask());
      break;
    case TokenKind::kTrap:
      fields = fmt::format("_{}_{}_{}", token.payload & 3, token.slot(), token.lane());
      break;
    case TokenKind::kRow:
      fields = fmt::format("_{}_{}", token.block(), token.row());
      break;
    case TokenKind::kDone:
    case TokenKind::kReset:
    case TokenKind::kGrid:
      break;
    default:
      fields = fmt::format("_{}", token.low());
  }
  return fmt::format("<|qgpu_{}{}|>", name, fields);
}

}  // namespace qgpu
