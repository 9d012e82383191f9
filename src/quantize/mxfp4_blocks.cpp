// MXFP4: floats of four bits, and a power of two for 32 of them.
#include <algorithm>
#include <cmath>

#include "node/cpu/kernels/half.hpp"
#include "src/quantize/blocks.hpp"

namespace yamata::quantize {
namespace {

constexpr std::size_t kBlock = 32;

/// The value nearest to x, of two equally near the smaller one.
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

/// The power of two under the largest magnitude becomes a 4, the highest power of two that a value may be: so the formats' specification
/// chooses it.
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
