// IQ4_NL and IQ4_XS: four bits that index a table of sixteen unevenly spaced values.
#include <algorithm>
#include <cmath>

#include "src/quantize/blocks.hpp"
#include "src/quantize/fit.hpp"

namespace yamata::quantize {
namespace {

constexpr std::size_t kGroup = 32;
constexpr int kTrials = 7;  ///< number of scales tried on either side

/// Index of the nearest value; the higher one if two are equally near.
std::uint8_t nearest_value(float x) {
  const auto& values = cpu::kIq4Values;
  if (x <= static_cast<float>(values[0])) return 0;
  if (x >= static_cast<float>(values[15])) return 15;
  int below = 0, above = 15;
  while (above - below > 1) {
    const int middle = (below + above) / 2;
    (x < static_cast<float>(values[middle]) ? above : below) = middle;
  }
  const bool lower = x - static_cast<float>(values[above - 1]) < static_cast<float>(values[above]) - x;
  return static_cast<std::uint8_t>(lower ? above - 1 : above);
}

/// The scale of a group of 32; 0 if all elements are 0.
float fit_group(std::span<const float> x, const float* importance, float variance) {
  float weights[kGroup];
  if (importance) {
    importance_weights(x, importance, variance, weights);
  } else {
    for (std::size_t i = 0; i < kGroup; ++i) weights[i] = x[i] * x[i];
  }
  const Peak peak = peak_of(x);
  if (peak.magnitude < 1e-15f) return 0;
  float qx = 0, q2 = 0;
  const auto sum_at = [&](float inverse) {
    qx = q2 = 0;
    for (std::size_t i = 0; i < kGroup; ++i) {
      const auto value = static_cast<float>(cpu::kIq4Values[nearest_value(inverse * x[i])]);
      qx += weights[i] * value * x[i];
      q2 += weights[i] * value * value;
    }
  };
  const auto lowest = static_cast<float>(cpu::kIq4Values[0]);
  sum_at(1 / (-peak.value / lowest));
  float scale = q2 > 0 ? qx / q2 : 0.0f;
  float best = scale * qx;
  for (int trial = -kTrials; trial <= kTrials; ++trial) {
    sum_at((static_cast<float>(trial) + lowest) / peak.value);
    if (q2 > 0 && qx * qx > best * q2) {
      scale = qx / q2;
      best = scale * qx;
    }
  }
  return scale;
}

/// Stores the indices of a group, two per byte.
void store_group(std::span<const float> x, float inverse, std::uint8_t* nibbles) {
  for (std::size_t i = 0; i < kGroup / 2; ++i)
    nibbles[i] = static_cast<std::uint8_t>(nearest_value(inverse * x[i]) | nearest_value(inverse * x[i + 16]) << 4);
}

float variance_of(std::span<const float> x) { return square_sum(x) * (2.0f / static_cast<float>(x.size())); }

}  // namespace

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockIQ4NL* blocks) {
  for (std::size_t at = 0; at < x.size(); at += kGroup) {
    const auto part = x.subspan(at, kGroup);
    cpu::BlockIQ4NL& b = blocks[at / kGroup];
    const float scale = fit_group(part, importance ? importance + at : nullptr, variance_of(part));
    b.d = half(scale);
    store_group(part, scale != 0 ? 1 / scale : 0.0f, b.qs);
  }
}

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockIQ4XS* blocks) {
  constexpr std::size_t kBlock = 256, kGroups = kBlock / kGroup;
  for (std::size_t at = 0; at < x.size(); at += kBlock) {
    const auto part = x.subspan(at, kBlock);
    cpu::BlockIQ4XS& b = blocks[at / kBlock] = {};
    float scales[kGroups];
    for (std::size_t j = 0; j < kGroups; ++j)
      scales[j] = fit_group(part.subspan(j * kGroup, kGroup), importance ? importance + at + j * kGroup : nullptr, variance_of(part));
    const float scale = -peak_of(scales).value / 32;
    b.d = half(scale);
    const float inverse = scale != 0 ? 1 / scale : 0.0f;
    for (std::size_t j = 0; j < kGroups; ++j) {
      const int stored = std::max(-32, std::min(31, nearest(inverse * scales[j])));
      const float group_scale = scale * static_cast<float>(stored);
      store_group(part.subspan(j * kGroup, kGroup), group_scale != 0 ? 1 / group_scale : 0.0f, b.qs + 16 * j);
      b.scales_l[j / 2] = static_cast<std::uint8_t>(b.scales_l[j / 2] | ((stored + 32) & 15) << (j % 2 * 4));
      b.scales_h = static_cast<std::uint16_t>(b.scales_h | (stored + 32) >> 4 << (2 * j));
    }
  }
}

}  // namespace yamata::quantize
