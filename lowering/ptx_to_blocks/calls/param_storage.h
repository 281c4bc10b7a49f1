// What a .param variable of a call is made of, as far as accesses tell: one register for each piece that is written and
// read, where all accesses agree on the pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lowering/ptx/ptx.h"

namespace qgpu::lower {

struct ParamPiece {
  uint64_t offset = 0;  // bytes
  int bits = 0;
  auto operator<=>(const ParamPiece&) const = default;
};

struct ParamStorage {
  uint64_t bytes = 0;
  std::map<ParamPiece, int> registers;
  int local = -1;  // or a variable in local memory
};

// The register type that holds a piece.
inline std::string RegisterTypeOf(int bits) { return bits == 64 ? "b64" : bits == 32 ? "b32" : "b16"; }

// A ld.param or st.param of a named variable; without a name: something else.
struct ParamAccess {
  std::string name;
  std::vector<ParamPiece> pieces;  // one for each element of a vector
  bool is_store = false, is_signed = false;
};

inline ParamAccess AccessOf(const ptx::Instruction& in) {
  ParamAccess access;
  access.is_store = in.opcode == "st";
  if ((in.opcode != "ld" && !access.is_store) || !in.Has("param") || in.operands.size() != 2) return access;
  const ptx::Operand& address = in.operands[access.is_store ? 0 : 1];
  if (address.kind != ptx::Operand::Kind::kAddress || address.elements.size() != 1 ||
      address.elements[0].kind != ptx::Operand::Kind::kSymbol) {
    return access;
  }
  int bits = 0;
  for (const std::string& modifier : in.modifiers) {
    const auto type = ptx::LookUpType(modifier);
    if (!type || bits != 0) continue;
    bits = type->bits;
    access.is_signed = type->kind == ptx::TypeInfo::Kind::kSigned;
  }
  if (bits < 8 || bits > 64) return access;
  const int count = in.Has("v4") ? 4 : in.Has("v2") ? 2 : 1;
  const uint64_t offset = address.value + address.elements[0].value;
  for (int i = 0; i < count; ++i) access.pieces.push_back({offset + static_cast<uint64_t>(i * bits / 8), bits});
  access.name = address.elements[0].name;
  return access;
}

// How a variable is accessed.
struct StoragePlan {
  std::set<ParamPiece> pieces;
  bool address_taken = false;

  void Add(const ParamPiece& piece) { pieces.insert(piece); }
  void Add(const StoragePlan& other) {
    pieces.insert(other.pieces.begin(), other.pieces.end());
    address_taken = address_taken || other.address_taken;
  }
  // Whether the pieces lie side by side inside of the variable.
  bool Agrees(uint64_t bytes) const {
    uint64_t end = 0;
    for (const ParamPiece& piece : pieces) {
      const uint64_t size = static_cast<uint64_t>(piece.bits) / 8;
      if (piece.offset < end || piece.offset > bytes || size > bytes - piece.offset) return false;
      if (piece.bits != 8 && piece.bits != 16 && piece.bits != 32 && piece.bits != 64) return false;
      end = piece.offset + size;
    }
    return !address_taken;
  }
};

// How the body of `function` accesses its parameter or variable `name`.
inline StoragePlan PlanStorage(const ptx::Function& function, const std::string& name) {
  StoragePlan plan;
  const auto mentions = [&](const auto& self, const ptx::Operand& operand) -> bool {
    if (operand.kind == ptx::Operand::Kind::kSymbol && operand.name == name) return true;
    return std::any_of(operand.elements.begin(), operand.elements.end(),
                       [&](const ptx::Operand& element) { return self(self, element); });
  };
  for (const ptx::Instruction& in : function.instructions) {
    const ParamAccess access = AccessOf(in);
    if (access.name == name) {
      for (const ParamPiece& piece : access.pieces) plan.Add(piece);
    } else if (in.opcode != "call") {
      for (const ptx::Operand& operand : in.operands) {
        if (mentions(mentions, operand)) plan.address_taken = true;
      }
    }
  }
  return plan;
}

}  // namespace qgpu::lower
