#pragma once
// Half floats in integer arithmetic. The functions are local to each file that includes this, because some of these files are compiled for
// instruction sets that not all processors have.
#include <cstdint>

namespace yamata::cpu {
namespace {

inline float float_of_bits(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint32_t bits_of_float(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The float equal to a half float. NaNs become quiet NaNs, as with the processors' instructions.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u, mantissa = half & 1023u;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | (mantissa ? 0x400000u | mantissa << 13 : 0u));
  if (exponent == 0) {  // subnormal: mantissa * 2^-24, exact
    return float_of_bits(sign | bits_of_float(static_cast<float>(mantissa) * 5.9604644775390625e-8f));
  }
  return float_of_bits(sign | (exponent + 112u) << 23 | mantissa << 13);
}

/// 2 to the power e - 128.
inline float half_power_of_two(std::uint8_t e) { return float_of_bits(e < 2 ? 0x00200000u << e : (e - 1u) << 23); }

}  // namespace
}  // namespace yamata::cpu
