// Values that others take the place of: replacement[value] is the one to use, `value` itself where nothing changes.
#pragma once

#include <vector>

#include "lowering/ptx_to_blocks/ir/ir.h"

namespace qgpu::lower {

inline std::vector<int> NoReplacement(const IrFunction& function) {
  std::vector<int> same(function.instructions.size());
  for (size_t i = 0; i < same.size(); ++i) same[i] = static_cast<int>(i);
  return same;
}

// Uses of replaced values become uses of what replaces them, and they themselves go.
inline void Replace(IrFunction& function, const std::vector<int>& replacement) {
  function.ReplaceUses(replacement);
  for (IrBlock& block : function.blocks) {
    std::erase_if(block.instructions, [&](int value) {
      const bool gone = value < static_cast<int>(replacement.size()) && replacement[value] != value;
      if (gone) function.at(value).block = -1;
      return gone;
    });
  }
}

}  // namespace qgpu::lower
