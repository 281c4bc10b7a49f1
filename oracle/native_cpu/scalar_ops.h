// Bit manipulations of PTX, transcribed from the pseudocode of the PTX ISA rather than made fast. Values are passed in
// the low bits of 64-bit words; what is above an operand's width is ignored, results have zeros there.
#pragma once

#include <cstdint>

namespace qgpu::native {

uint64_t BitFieldExtract(uint64_t a, uint64_t position, uint64_t length, uint32_t bits, bool is_signed);
uint64_t BitFieldInsert(uint64_t a, uint64_t b, uint64_t position, uint64_t length, uint32_t bits);
// Position of the most significant bit (of the most significant non-sign bit), or 0xffffffff; with `shift_amount` the
// distance by which to shift it to the top.
uint32_t BitFind(uint64_t a, uint32_t bits, bool is_signed, bool shift_amount);
uint32_t FindNthSet(uint32_t mask, uint32_t base, int32_t offset);
uint32_t SignOrZeroExtend(uint32_t a, uint32_t width, bool is_signed, bool clamp);
uint32_t BitMask(uint32_t position, uint32_t width, bool clamp);
enum class PermuteMode : uint32_t { kIndex, kForward4, kBackward4, kReplicate8, kEdgeLeft, kEdgeRight, kReplicate16 };
uint32_t Permute(uint32_t a, uint32_t b, uint32_t selector, PermuteMode mode);
uint32_t FunnelShift(uint32_t low, uint32_t high, uint32_t amount, bool left, bool clamp);
uint32_t LogicOp3(uint32_t a, uint32_t b, uint32_t c, uint32_t table);
// Dot products of four bytes, or of two halves of `a` with the low or high pair of bytes of `b`, plus c.
uint32_t DotProduct4(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed);
uint32_t DotProduct2(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed, bool high);

}  // namespace qgpu::native
