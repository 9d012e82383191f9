// MXFP4: four-bit floats, with a common power of two for 32 of them.
#include <algorithm>
#include <cmath>

#include "node/cpu/kernels/half.hpp"
#include "src/quantize/blocks.hpp"

namespace yamata::quantize {
namespace {

constexpr std::size_t kBlock = 32;

/// The nearest value; the smaller one if two are equally near.
std::uint8_t nearest_value(float x) {
  int best = 0;
  for (int i = 1; i < 8; ++i) {
    if (std::abs(std::abs(x) - static_cast<float>(cpu::kMxfp4Values[i])) <
        std::abs(std::abs(x) - static_cast<float>(cpu::kMxfp4Values[best])))
      best = i;
  }
  return static_cast<std::uint8_t>(x < 0 && best > 0 ? best + 8 : best);
}

}  // namespace

/// The scale maps the power of two below the largest magnitude to 4, the largest power of two among the values. This choice is in the
/// format's specification.
void to_blocks(std::span<const float> x, const float*, cpu::BlockMXFP4* blocks) {
  for (std::size_t at = 0; at < x.size(); at += kBlock) {
    cpu::BlockMXFP4& b = blocks[at / kBlock] = {};
    float largest = 0;
    for (std::size_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(x[at + i]));
    if (largest > 0) b.exponent = static_cast<std::uint8_t>(std::clamp(static_cast<int>(std::floor(std::log2(largest))) - 2 + 127, 0, 254));
    const float inverse = 1 / cpu::half_power_of_two(b.exponent);
    for (std::size_t i = 0; i < kBlock / 2; ++i)
      b.qs[i] = static_cast<std::uint8_t>(nearest_value(x[at + i] * inverse) | nearest_value(x[at + i + 16] * inverse) << 4);
  }
}

}  // namespace yamata::quantize
