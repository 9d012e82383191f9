// Q2_K to Q6_K: blocks of 256. Groups of 16 or 32 elements have quantized scales, and the block has a scale for these.
#include <algorithm>
#include <cmath>

#include "node/cpu/kernels/kernels.hpp"
#include "src/quantize/blocks.hpp"
#include "src/quantize/fit.hpp"
#include "src/quantize/group_fit.hpp"

namespace yamata::quantize {
namespace {

constexpr std::size_t kBlock = 256;
constexpr std::size_t kMaxGroups = 16;

const GroupFit& chosen_fit() {
  static const GroupFit& chosen = group_fit(cpu::choose_isa());
  return chosen;
}

struct Numbers {
  std::uint8_t of[kBlock];
};

/// Stores bits [shift, shift + width) of every number. Numbers are taken in sets of 8 / width * `bytes_of_run`, which share `bytes_of_run`
/// bytes: the first `bytes_of_run` numbers use the lowest bits of the bytes, the following ones the next bits.
template <int width, std::size_t bytes_of_run>
void store_bits(const Numbers& numbers, int shift, std::uint8_t* bytes) {
  constexpr std::size_t kPerByte = 8 / width;
  for (std::size_t at = 0; at < kBlock; at += kPerByte * bytes_of_run, bytes += bytes_of_run) {
    for (std::size_t i = 0; i < bytes_of_run; ++i) {
      unsigned byte = 0;
      for (std::size_t part = 0; part < kPerByte; ++part) {
        const unsigned bits = static_cast<unsigned>(numbers.of[at + part * bytes_of_run + i]) >> shift & ((1u << width) - 1);
        byte |= bits << (part * width);
      }
      bytes[i] = static_cast<std::uint8_t>(byte);
    }
  }
}
void store_pairs(const Numbers& numbers, int shift, std::uint8_t* bytes) { store_bits<2, 32>(numbers, shift, bytes); }
void store_nibbles(const Numbers& numbers, std::uint8_t* bytes) { store_bits<4, 32>(numbers, 0, bytes); }
void store_single_bits(const Numbers& numbers, int shift, std::uint8_t* bytes) { store_bits<1, 32>(numbers, shift, bytes); }

/// Scales and mins of a block's groups: as floats, then as the quantized numbers that are stored.
struct Groups {
  float scales[kMaxGroups], minimums[kMaxGroups];
  std::uint8_t stored_scales[kMaxGroups], stored_minimums[kMaxGroups];
  float scale, minimum;  ///< of the block
};

/// Parameters of a format with mins.
struct OffsetFormat {
  std::size_t group;     ///< elements
  int most, most_scale;  ///< largest number, largest stored scale
  Trials plain;          ///< without importance
  float variance;        ///< with importance: this many times the mean square
};
constexpr OffsetFormat kQ2{16, 3, 15, {-0.5f, 0.1f, 15, true}, 1}, kQ4{32, 15, 63, {-1.0f, 0.1f, 20, false}, 2},
    kQ5{32, 31, 63, {-0.5f, 0.1f, 15, false}, 2};
constexpr Trials kTrials{-0.9f, 0.05f, 36, false};

/// Quantizes the scales: the largest one becomes the largest number, the others the nearest number.
float store_scales(const float* scales, const OffsetFormat& format, std::uint8_t* stored) {
  const std::size_t count = kBlock / format.group;
  float largest = 0;
  for (std::size_t j = 0; j < count; ++j) {
    if (scales[j] > largest) largest = scales[j];
  }
  const auto most = static_cast<float>(format.most_scale);
  const float inverse = largest > 0 ? most / largest : 0.0f;
  for (std::size_t j = 0; j < count; ++j)
    stored[j] =
        static_cast<std::uint8_t>(std::min(format.most_scale, static_cast<int>(static_cast<std::uint8_t>(nearest(inverse * scales[j])))));
  return largest / most;
}

/// The sum of each group's weights.
void sum_groups(const float* weights, std::size_t group, float* sums) {
  for (std::size_t at = 0; at < kBlock; at += group) {
    float& sum = sums[at / group] = 0;
    for (std::size_t i = at; i < at + group; ++i) sum += weights[i];
  }
}

void fit_groups(std::span<const float> x, const float* weights, const OffsetFormat& format, const Trials& trials, Groups& groups,
                Numbers& numbers) {
  const std::size_t count = kBlock / format.group;
  Offset fits[kMaxGroups];
  chosen_fit().offset({x.data(), weights, format.group, count}, format.most, trials, numbers.of, fits);
  for (std::size_t j = 0; j < count; ++j) {
    groups.scales[j] = fits[j].scale;
    groups.minimums[j] = fits[j].minimum;
  }
}

void fit_plain(std::span<const float> x, const OffsetFormat& format, Groups& groups, Numbers& numbers) {
  float weights[kBlock];
  for (std::size_t at = 0; at < kBlock; at += format.group) {
    const auto part = x.subspan(at, format.group);
    // Q2_K weighs by magnitude only, because its error is |difference|.
    const float mean = format.plain.absolute ? 0.0f : std::sqrt(square_sum(part) / static_cast<float>(format.group));
    for (std::size_t i = 0; i < format.group; ++i) weights[at + i] = mean + std::fabs(part[i]);
  }
  fit_groups(x, weights, format, format.plain, groups, numbers);
  groups.scale = store_scales(groups.scales, format, groups.stored_scales);
  groups.minimum = store_scales(groups.minimums, format, groups.stored_minimums);
}

void fit_weighted(std::span<const float> x, const float* importance, const OffsetFormat& format, Groups& groups, Numbers& numbers) {
  const std::size_t count = kBlock / format.group;
  const float variance = format.variance * square_sum(x) / static_cast<float>(kBlock);
  float weights[kBlock], sums[kMaxGroups];
  importance_weights(x, importance, variance, weights);
  sum_groups(weights, format.group, sums);
  fit_groups(x, weights, format, kTrials, groups, numbers);
  groups.scale = fit_positive({groups.scales, count}, format.most_scale, sums, groups.stored_scales);
  groups.minimum = fit_positive({groups.minimums, count}, format.most_scale, sums, groups.stored_minimums);
}

/// Quantizes the scales, then the numbers for the stored scales. A group whose scale is stored as 0 keeps its fitted numbers.
template <class Block>
void fit_block(std::span<const float> x, const float* importance, const OffsetFormat& format, Block& b, Groups& groups, Numbers& numbers) {
  importance ? fit_weighted(x, importance, format, groups, numbers) : fit_plain(x, format, groups, numbers);
  b.d = half(groups.scale);
  b.dmin = half(groups.minimum);
  for (std::size_t j = 0; j < kBlock / format.group; ++j) {
    const float scale = cpu::f16_to_f32(b.d) * static_cast<float>(groups.stored_scales[j]);
    const float minimum = cpu::f16_to_f32(b.dmin) * static_cast<float>(groups.stored_minimums[j]);
    if (scale == 0) continue;
    for (std::size_t i = j * format.group; i < (j + 1) * format.group; ++i)
      numbers.of[i] = static_cast<std::uint8_t>(std::max(0, std::min(format.most, nearest((x[i] + minimum) / scale))));
  }
}

/// Stores eight six-bit scales and mins in twelve bytes.
void store_six_bits(const Groups& groups, std::uint8_t* bytes) {
  for (std::size_t j = 0; j < 4; ++j) {
    const int scale = groups.stored_scales[j], minimum = groups.stored_minimums[j];
    const int next_scale = groups.stored_scales[j + 4], next_minimum = groups.stored_minimums[j + 4];
    bytes[j] = static_cast<std::uint8_t>(scale | next_scale >> 4 << 6);
    bytes[j + 4] = static_cast<std::uint8_t>(minimum | next_minimum >> 4 << 6);
    bytes[j + 8] = static_cast<std::uint8_t>((next_scale & 15) | (next_minimum & 15) << 4);
  }
}

/// Stores sixteen six-bit scales in twelve bytes.
void store_six_bits(const std::uint8_t* scales, std::uint8_t* bytes) {
  std::fill_n(bytes, 12, std::uint8_t{0});
  for (std::size_t j = 0; j < 16; ++j) {
    bytes[j % 8] = static_cast<std::uint8_t>(bytes[j % 8] | (scales[j] & 15) << (j / 8 * 4));
    bytes[8 + j % 4] = static_cast<std::uint8_t>(bytes[8 + j % 4] | scales[j] >> 4 << (j / 4 * 2));
  }
}

/// Numbers around `levels` for the stored scales.
void refit(std::span<const float> x, const float* scales, int levels, Numbers& numbers) {
  for (std::size_t j = 0; j < kBlock / 16; ++j) {
    const float scale = scales[j];
    if (scale == 0) continue;
    for (std::size_t i = j * 16; i < (j + 1) * 16; ++i)
      numbers.of[i] = static_cast<std::uint8_t>(std::max(-levels, std::min(levels - 1, nearest(x[i] / scale))) + levels);
  }
}

/// The block's scale of Q3_K; the groups' scales plus 32 go to `stored`.
float fit_q3(std::span<const float> x, const float* importance, std::uint8_t* stored, Numbers& numbers) {
  float scales[16];
  if (importance) {
    const float variance = 2 * square_sum(x) / static_cast<float>(kBlock);
    float weights[kBlock], sums[16];
    importance_weights(x, importance, variance, weights);
    sum_groups(weights, 16, sums);
    chosen_fit().symmetric({x.data(), weights, 16, 16}, 4, numbers.of, scales);
    return fit_symmetric(scales, 32, sums, stored);
  }
  chosen_fit().refine({x.data(), nullptr, 16, 16}, 4, numbers.of, scales);
  const float largest = peak_of(scales).value;
  std::fill_n(stored, 16, std::uint8_t{0});
  if (largest == 0) return 0;
  const float inverse = -32.0f / largest;
  for (std::size_t j = 0; j < 16; ++j) {
    const int rounded = static_cast<std::int8_t>(nearest(inverse * scales[j]));
    stored[j] = static_cast<std::uint8_t>(std::max(-32, std::min(31, rounded)) + 32);
  }
  return 1 / inverse;
}

template <class Block, class Body>
void each_block(std::span<const float> x, const float* importance, Block* blocks, Body body) {
  for (std::size_t at = 0; at < x.size(); at += kBlock)
    body(blocks[at / kBlock], x.subspan(at, kBlock), importance ? importance + at : nullptr);
}

}  // namespace

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ2K* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ2K& b, std::span<const float> part, const float* weights) {
    Numbers numbers;
    Groups groups;
    fit_block(part, weights, kQ2, b, groups, numbers);
    for (std::size_t j = 0; j < 16; ++j) b.scales[j] = static_cast<std::uint8_t>(groups.stored_scales[j] | groups.stored_minimums[j] << 4);
    store_pairs(numbers, 0, b.qs);
  });
}

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ3K* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ3K& b, std::span<const float> part, const float* weights) {
    Numbers numbers;
    std::uint8_t stored[16];
    b.d = half(fit_q3(part, weights, stored, numbers));
    store_six_bits(stored, b.scales);
    float scales[16];
    for (std::size_t j = 0; j < 16; ++j) scales[j] = cpu::f16_to_f32(b.d) * static_cast<float>(stored[j] - 32);
    refit(part, scales, 4, numbers);
    store_pairs(numbers, 0, b.qs);
    store_single_bits(numbers, 2, b.hmask);
  });
}

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ4K* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ4K& b, std::span<const float> part, const float* weights) {
    Numbers numbers;
    Groups groups;
    fit_block(part, weights, kQ4, b, groups, numbers);
    store_six_bits(groups, b.scales);
    store_nibbles(numbers, b.qs);
  });
}

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ5K* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ5K& b, std::span<const float> part, const float* weights) {
    Numbers numbers;
    Groups groups;
    fit_block(part, weights, kQ5, b, groups, numbers);
    store_six_bits(groups, b.scales);
    store_nibbles(numbers, b.qs);
    store_single_bits(numbers, 4, b.qh);
  });
}

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ6K* blocks) {
  each_block(x, importance, blocks, [](cpu::BlockQ6K& b, std::span<const float> part, const float* weights) {
    Numbers numbers;
    float scales[16];
    chosen_fit().symmetric({part.data(), weights, 16, 16}, 32, numbers.of, scales);
    const Peak peak = peak_of(scales);
    b = {};
    if (peak.magnitude < 1e-15f) return;
    const float inverse = -128.0f / peak.value;
    b.d = half(1 / inverse);
    for (std::size_t j = 0; j < 16; ++j) {
      b.scales[j] = static_cast<std::int8_t>(std::min(127, nearest(inverse * scales[j])));
      scales[j] = cpu::f16_to_f32(b.d) * static_cast<float>(b.scales[j]);
    }
    refit(part, scales, 32, numbers);
    store_bits<4, 64>(numbers, 0, b.ql);
    store_pairs(numbers, 4, b.qh);
  });
}

}  // namespace yamata::quantize
