// The instructions of the PTX ISA as patterns, and what the lowering makes of each form that a pattern stands for.
//
//   add.{u16 s16}[.x]   stands for add.u16, add.s16, add.u16.x and add.s16.x
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace qgpu {

struct PtxForms {
  const char* pattern;
  // Operands for each form, or whole statements where there is a ';'. $D1 is a register of the first type in the form's
  // name, $T1 one of the last, $W1 one twice as wide, $M the form's name itself; registers are %p, %h, %r, %q (of 1,
  // 16, 32, 64 bits) 0 to 7.
  const char* operands;
  const char* note = "";
};

struct PtxSection {
  const char* title;
  std::vector<PtxForms> rows;
};

// Every integer instruction that a device of sm_75 has, textures and asynchronous copies excepted.
const std::vector<PtxSection>& IntegerPtx();
// Instructions of other kinds, of which one or a few each are tried.
const std::vector<PtxSection>& OtherPtx();

std::vector<std::string> ExpandPattern(const std::string& pattern);

// A kernel with the form and these operands. Its entry is called k.
std::string PtxOfForm(const std::string& form, const std::string& operands);

// "" where the lowering takes `form`; otherwise why it does not.
std::string WhyRefused(const std::string& form, const std::string& operands);

}  // namespace qgpu
