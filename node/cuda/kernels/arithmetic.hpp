#pragma once
// Arithmetic in the order of the CPU's kernels (node/cpu/kernels/ops_template.hpp, attention_template.hpp), for one float at a time.
#include "node/activation.hpp"
#include "node/cuda/kernels/simt.hpp"

namespace yamata::cuda {
namespace {

constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, ties to even

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

YAMATA_DEVICE float larger(float a, float b) { return a > b ? a : b; }
YAMATA_DEVICE float smaller(float a, float b) { return a < b ? a : b; }
YAMATA_DEVICE float magnitude(float a) { return a < 0 ? -a : a; }
YAMATA_DEVICE float round_whole(float x) { return (x + kRound) - kRound; }
/// 2 to the power n, for n of -126 to 127
YAMATA_DEVICE float power_of_2(int n) { return simt::float_of_bits(static_cast<std::uint32_t>(n + 127) << 23); }

/// e to the power x, by the CPU's polynomial.
YAMATA_DEVICE float exponential(float x) {
  x = x < 89.0f ? x : 89.0f;
  x = x > -104.0f ? x : -104.0f;
  const float n = simt::fma(x, 1.44269504f, kRound) - kRound;
  float r = simt::fma(n, -0.693359375f, x);
  r = simt::fma(n, 2.12194440e-4f, r);
  float p = 1.0f / 5040;
  p = simt::fma(p, r, 1.0f / 720);
  p = simt::fma(p, r, 1.0f / 120);
  p = simt::fma(p, r, 1.0f / 24);
  p = simt::fma(p, r, 1.0f / 6);
  p = simt::fma(p, r, 0.5f);
  p = simt::fma(p, r, 1.0f);
  p = simt::fma(p, r, 1.0f);
  const int whole = static_cast<int>(n), half = whole >> 1;
  return p * power_of_2(half) * power_of_2(whole - half);
}

/// x / (1 + e^-y)
YAMATA_DEVICE float by_sigmoid(float x, float y) { return x / (1.0f + exponential(0.0f - y)); }
/// cap tanh(x / cap), as cap (1 - 2 / (1 + e^(2x / cap)))
YAMATA_DEVICE float soft_cap(float x, float cap) { return cap * (1.0f - 2.0f / (1.0f + exponential(x * (2.0f / cap)))); }

/// The activation of g, times u if `gated`.
YAMATA_DEVICE float activated(Activation activation, float g, float u, bool gated) {
  switch (activation) {
    case Activation::kNone:
      break;
    case Activation::kSilu:
      g = by_sigmoid(g, g);
      break;
    case Activation::kGeluTanh: {
      const float inner = 1.59576912f * g;  // 2 sqrt(2 / pi)
      g = by_sigmoid(g, simt::fma(inner * 0.044715f, g * g, inner));
      break;
    }
    case Activation::kClampedSilu: {
      const float clamped = g < 7.0f ? g : 7.0f;
      g = by_sigmoid(clamped, 1.702f * clamped);
      if (gated) u = larger(u < 7.0f ? u : 7.0f, -7.0f) + 1.0f;
      break;
    }
    case Activation::kSquaredRelu:
      g = larger(g, 0.0f) * larger(g, 0.0f);
      break;
  }
  return gated ? g * u : g;
}

/// The sum of 16 neighbouring lanes, for all of them: [l] + [l + 8], then + 4, + 2, + 1.
YAMATA_DEVICE float sum_of_16(float value) {
  for (unsigned distance = 8; distance > 0; distance /= 2) value += simt::shuffle_xor(value, distance);
  return value;
}

/// The sum of squares of a warp's block of 32, for every lane: the upper 16 lanes are added to the lower 16.
YAMATA_DEVICE float block_square(float x) {
  const float other = simt::shuffle(x, simt::lane() % 16 + 16), first = simt::shuffle(x, simt::lane() % 16);
  return sum_of_16(simt::fma(other, other, first * first));
}

/// From a sum of squares in double precision: 1 / sqrt(mean + epsilon).
YAMATA_DEVICE float inverse_rms(double sum, std::int64_t cols, float epsilon) {
  return static_cast<float>(1.0 / simt::square_root(sum / static_cast<double>(cols) + static_cast<double>(epsilon)));
}

YAMATA_DEVICE float largest_of_warp(float value) {
  for (unsigned distance = 16; distance > 0; distance /= 2) value = larger(value, simt::shuffle_xor(value, distance));
  return value;
}

}  // namespace
}  // namespace yamata::cuda
