// The machine's vocabulary: every token is a kind with fields, and has one id. Ids follow the base model's own
// vocabulary, in the order of the table in token.cc; `machine id` below always counts from 0.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace qgpu {

enum class TokenKind : uint8_t {
  // Written by the model during a launch.
  kExec,        // run block b for lanes m of the current warp
  kSwitchWarp,  // the current warp is now w
  kVal0,        // result of (slot, lane): low 8 bits, sign-extended
  kVal0U,       // result of slot, the same in all active lanes: low 8 bits, sign-extended
  kVal1,        // bits 8 to 19, sign-extended
  kVal2,        // bits 20 to 31
  kPred,        // slot predicate of the four lanes
  kMem,         // stores that follow go to word (base + lane) mod 128
  kBar,         // barrier: the phase is now p
  kCtaX,        // current thread block
  kCtaY,
  kCtaZ,
  kWarp,  // warp w starts with lanes m
  kTrap,  // kind, slot, lane
  kDone,
  // Fed by the host only.
  kReset,
  kRow,         // the assembled word is row s (0 to 3 slots, 4 control) of block b
  kSpecialRow,  // the assembled word is row k of the special words
  kMemWord,     // the current value is memory word a
  kGrid,        // the assembled word is the grid: x - 1 | (y - 1) << 8 | (z - 1) << 16
};
inline constexpr int kTokenKinds = 20;

enum class TrapKind : uint8_t { kOutOfRange = 1, kMisaligned = 2, kBarrierDivergence = 3 };

// Fields are bits of one 12-bit payload f0..f11, the same position for the same thing in every kind:
//   value, mask, address, count, index: from f0;  block f4..f8;  lane f8, f9;  slot f10, f11;  warp and row f9..f11.
struct Token {
  TokenKind kind = TokenKind::kReset;
  uint16_t payload = 0;

  static Token Exec(int block, int mask) { return {TokenKind::kExec, static_cast<uint16_t>(mask | block << 4)}; }
  static Token SwitchWarp(int warp) { return {TokenKind::kSwitchWarp, static_cast<uint16_t>(warp << 9)}; }
  static Token Val0(int slot, int lane, int byte) {
    return {TokenKind::kVal0, static_cast<uint16_t>(byte | lane << 8 | slot << 10)};
  }
  static Token Val0U(int slot, int byte) { return {TokenKind::kVal0U, static_cast<uint16_t>(byte | slot << 10)}; }
  static Token Val1(int bits) { return {TokenKind::kVal1, static_cast<uint16_t>(bits)}; }
  static Token Val2(int bits) { return {TokenKind::kVal2, static_cast<uint16_t>(bits)}; }
  static Token Pred(int slot, int bits) { return {TokenKind::kPred, static_cast<uint16_t>(bits | slot << 10)}; }
  static Token Mem(int base) { return {TokenKind::kMem, static_cast<uint16_t>(base)}; }
  static Token Bar(int phase) { return {TokenKind::kBar, static_cast<uint16_t>(phase)}; }
  static Token Cta(int axis, int n) {
    return {static_cast<TokenKind>(static_cast<int>(TokenKind::kCtaX) + axis), static_cast<uint16_t>(n)};
  }
  static Token Warp(int warp, int mask) { return {TokenKind::kWarp, static_cast<uint16_t>(mask | warp << 9)}; }
  static Token Trap(TrapKind kind, int slot, int lane) {
    return {TokenKind::kTrap, static_cast<uint16_t>(static_cast<int>(kind) | lane << 8 | slot << 10)};
  }
  static Token Done() { return {TokenKind::kDone, 0}; }
  static Token Reset() { return {TokenKind::kReset, 0}; }
  static Token Row(int block, int row) { return {TokenKind::kRow, static_cast<uint16_t>(block << 4 | row << 9)}; }
  static Token SpecialRow(int k) { return {TokenKind::kSpecialRow, static_cast<uint16_t>(k)}; }
  static Token MemWord(int address) { return {TokenKind::kMemWord, static_cast<uint16_t>(address)}; }
  static Token Grid() { return {TokenKind::kGrid, 0}; }

  // Fields, meaningful for the kinds that have them.
  int mask() const { return payload & 15; }
  int block() const { return payload >> 4 & 31; }
  int lane() const { return payload >> 8 & 3; }
  int slot() const { return payload >> 10 & 3; }
  int warp() const { return payload >> 9 & 7; }
  int row() const { return payload >> 9 & 7; }
  int byte() const { return payload & 255; }
  int low() const { return payload; }  // the whole payload: chunks, addresses, counts, indices, phase

  bool operator==(const Token&) const = default;
};

// Number of machine ids (at most 16,384).
int MachineVocabularySize();
// The machine id of a token whose fields are in range (CHECKed), and back; kOutOfRange for an id that is none.
int TokenToId(Token token);
absl::StatusOr<Token> TokenFromId(int machine_id);

// Payload bits that kind uses, as a mask of f0..f11.
uint16_t PayloadMask(TokenKind kind);
// "EXEC", "VAL0", ...
const char* TokenKindName(TokenKind kind);
// "EXEC(3, 0b1111)", "VAL0(slot 1, lane 2, -5)", as a trace shows it.
std::string FormatToken(Token token);
// "<|qgpu_exec_3_15|>": the text of the token in a tokenizer file.
std::string TokenText(Token token);

}  // namespace qgpu
