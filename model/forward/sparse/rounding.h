// Activation functions as torch computes them, in float32, and rounding to bfloat16.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace qgpu::sparse {

// To the nearest bfloat16, ties to even; NaN stays NaN.
inline float RoundToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return std::bit_cast<float>(is_nan ? bits | 0x00400000u : rounded);
}

inline float FromBFloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
inline uint16_t ToBFloat16(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(RoundToBFloat16(value)) >> 16);
}

// The number types an executor computes in; Round is applied wherever torch stores an activation.
struct Float32 {
  static constexpr bool kIsBFloat16 = false;
  static float Round(float value) { return value; }
};
struct BFloat16 {
  static constexpr bool kIsBFloat16 = true;
  static float Round(float value) { return RoundToBFloat16(value); }
};

// From 18 on, 1 + exp(-x) is 1 in float32, so the functions below need no exp there.
inline constexpr float kSaturated = 18.0f;
// Below, exp(-x) overflows float32, so that silu(x) is exactly -0.
inline constexpr float kSiluIsZeroBelow = -89.0f;

inline float Silu(float x) { return x >= kSaturated ? x : x / (1.0f + std::exp(-x)); }
inline float Sigmoid(float x) { return x >= kSaturated ? 1.0f : 1.0f / (1.0f + std::exp(-x)); }
inline float Softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

}  // namespace qgpu::sparse
