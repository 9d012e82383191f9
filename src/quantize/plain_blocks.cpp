// Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0: blocks of 32 with a scale, and with a min if the name ends in 1.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "src/quantize/blocks.hpp"
#include "src/quantize/fit.hpp"

namespace yamata::quantize {
namespace {

constexpr std::size_t kBlock = 32;
constexpr Trials kOffsetTrials{-0.9f, 0.05f, 36, false};

/// The low nibbles are the first 16 numbers, the high nibbles the others; fifth bits are stored separately.
void store(const std::uint8_t* numbers, std::uint8_t* nibbles) {
  for (std::size_t i = 0; i < kBlock / 2; ++i) nibbles[i] = static_cast<std::uint8_t>((numbers[i] & 15) | (numbers[i + 16] & 15) << 4);
}
void store_fifth_bits(const std::uint8_t* numbers, std::uint8_t* bits) {
  std::fill_n(bits, kBlock / 8, std::uint8_t{0});
  for (std::size_t i = 0; i < kBlock; ++i) bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (numbers[i] >> 4 & 1) << (i % 8));
}

/// Numbers in [0, 2 * levels) around `levels`; returns the scale.
float symmetric_block(std::span<const float> x, int levels, const float* importance, float variance, std::uint8_t* numbers) {
  if (importance) {
    float weights[kBlock];
    importance_weights(x, importance, variance, weights);
    return fit_symmetric(x, levels, weights, numbers);
  }
  const float scale = peak_of(x).value / static_cast<float>(-levels);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto shifted = static_cast<std::int8_t>(truncated_byte(x[i] * inverse + (static_cast<float>(levels) + 0.5f)));
    numbers[i] = static_cast<std::uint8_t>(std::min(2 * levels - 1, static_cast<int>(shifted)));
  }
  return scale;
}

/// Numbers in [0, most]; the min is added.
Offset offset_block(std::span<const float> x, int most, const float* importance, float variance, std::uint8_t* numbers) {
  if (importance) {
    float weights[kBlock];
    importance_weights(x, importance, variance, weights);
    const Offset fit = fit_offset(x, most, weights, kOffsetTrials, numbers);
    return {fit.scale, -fit.minimum};
  }
  float least = FLT_MAX, largest = -FLT_MAX;
  for (const float value : x) {
    if (value < least) least = value;
    if (value > largest) largest = value;
  }
  const float scale = (largest - least) / static_cast<float>(most);
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  for (std::size_t i = 0; i < kBlock; ++i)
    numbers[i] = static_cast<std::uint8_t>(std::min(most, static_cast<int>(truncated_byte((x[i] - least) * inverse + 0.5f))));
  return {scale, least};
}

/// Calls body(block, its x, its importance) for every block of a row; with importance, also with the row's mean square.
template <class Block, class Body>
void each_block(std::span<const float> x, const float* importance, Block* blocks, Body body) {
  const float variance = importance ? square_sum(x) / static_cast<float>(x.size()) : 0.0f;
  for (std::size_t at = 0; at < x.size(); at += kBlock)
    body(blocks[at / kBlock], x.subspan(at, kBlock), importance ? importance + at : nullptr, variance);
}

}  // namespace

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ4_0* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ4_0& b, std::span<const float> part, const float* weights, float variance) {
    std::uint8_t numbers[kBlock];
    b.d = half(symmetric_block(part, 8, weights, variance, numbers));
    store(numbers, b.qs);
  });
}

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ4_1* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ4_1& b, std::span<const float> part, const float* weights, float variance) {
    std::uint8_t numbers[kBlock];
    const Offset fit = offset_block(part, 15, weights, variance, numbers);
    b.d = half(fit.scale);
    b.m = half(fit.minimum);
    store(numbers, b.qs);
  });
}

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ5_0* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ5_0& b, std::span<const float> part, const float* weights, float variance) {
    std::uint8_t numbers[kBlock];
    b.d = half(symmetric_block(part, 16, weights, variance, numbers));
    store(numbers, b.qs);
    store_fifth_bits(numbers, b.qh);
  });
}

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ5_1* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ5_1& b, std::span<const float> part, const float* weights, float variance) {
    std::uint8_t numbers[kBlock];
    const Offset fit = offset_block(part, 31, weights, variance, numbers);
    b.d = half(fit.scale);
    b.m = half(fit.minimum);
    store(numbers, b.qs);
    store_fifth_bits(numbers, b.qh);
  });
}

void to_blocks(std::span<const float> x, const float*, cpu::BlockQ8_0* blocks) {
  each_block(x, nullptr, blocks, [](cpu::BlockQ8_0& b, std::span<const float> part, const float*, float) {
    const float scale = peak_of(part).magnitude / 127.0f;
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    b.d = half(scale);
    for (std::size_t i = 0; i < kBlock; ++i) b.qs[i] = static_cast<std::int8_t>(truncated_byte(std::round(part[i] * inverse)));
  });
}

}  // namespace yamata::quantize
