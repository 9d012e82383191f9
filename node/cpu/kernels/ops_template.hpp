#pragma once
// Quantization, normalization and activation. Uses the vector layer that was included before this.
#include <cstddef>
#include <cstdint>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/panel.hpp"

namespace yamata::cpu {
namespace {

constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, ties to even

/// The first `n` of 16 floats; the others are `fill`.
inline F32x16 load_part(const float* p, std::int64_t n, float fill) {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = i < n ? p[i] : fill;
  return load(values);
}

inline void store_part(float* p, std::int64_t n, F32x16 a) {
  float values[16];
  store(values, a);
  __builtin_memcpy(p, values, static_cast<std::size_t>(n) * sizeof(float));
}

/// e to the power x within 2 ulp; 0 below -104, infinity above 89.
inline F32x16 exp(F32x16 x) {
  x = max(min(x, set1(89.0f)), set1(-104.0f));
  const F32x16 n = sub(fma(x, set1(1.44269504f), set1(kRound)), set1(kRound));
  F32x16 r = fma(n, set1(-0.693359375f), x);  // ln 2 in two parts; the first has 10 bits, so that n times it is exact
  r = fma(n, set1(2.12194440e-4f), r);
  F32x16 p = set1(1.0f / 5040);
  p = fma(p, r, set1(1.0f / 720));
  p = fma(p, r, set1(1.0f / 120));
  p = fma(p, r, set1(1.0f / 24));
  p = fma(p, r, set1(1.0f / 6));
  p = fma(p, r, set1(0.5f));
  p = fma(p, r, set1(1.0f));
  p = fma(p, r, set1(1.0f));
  const I32x16 whole = to_int(n), half = halve(whole);  // two factors, since 2^n itself may not be a normal float
  return mul(mul(p, pow2(half)), pow2(sub(whole, half)));
}

inline float exp_one(float x) {
  float values[16];
  store(values, exp(set1(x)));
  return values[0];
}

/// Position of a block of a token's quantized activations: its tile has `columns` tokens, and this is token `column` of it.
struct QuantizedBlock {
  std::int8_t* values;
  float *scale, *sum;
  std::int16_t* sub_sums;
  std::int32_t* compensation;
  std::int16_t* sub_compensation;
};

inline QuantizedBlock quantized_block(const QuantizedRows& out, std::int64_t row, std::int64_t block) {
  const std::int64_t first = row / kTileColumns * kTileColumns, column = row - first;
  const std::int64_t columns = out.rows - first < kTileColumns ? out.rows - first : kTileColumns;
  std::byte* tile = out.data + (first * out.blocks + block * columns) * kActivationBlockBytes;
  auto* scales = reinterpret_cast<float*>(tile + 32 * columns);
  auto* sub_sums = reinterpret_cast<std::int16_t*>(scales + 2 * columns);
  auto* compensation = reinterpret_cast<std::int32_t*>(sub_sums + 2 * columns);
  auto* sub_compensation = reinterpret_cast<std::int16_t*>(compensation + columns);
  return {reinterpret_cast<std::int8_t*>(tile) + 32 * column,
          scales + column,
          scales + columns + column,
          sub_sums + 2 * column,
          compensation + column,
          sub_compensation + 4 * column};
}

/// 32 elements.
struct Block32 {
  F32x16 low, high;
};

inline Block32 load_block(const float* p) { return {load(p), load(p + 16)}; }

/// The first `n` of 32; the others are zeros.
inline Block32 load_block(const float* p, std::int64_t n) {
  if (n >= 32) return load_block(p);
  if (n <= 16) return {load_part(p, n, 0.0f), set1(0.0f)};
  return {load(p), load_part(p + 16, n - 16, 0.0f)};
}

inline Block32 mul(const Block32& a, const Block32& b) { return {mul(a.low, b.low), mul(a.high, b.high)}; }

inline F32x16 round_to_whole(F32x16 x) { return sub(add(x, set1(kRound)), set1(kRound)); }

/// x rounded to multiples of a scale, and the scale. If the scale would not be a normal float, the block becomes zeros.
struct RoundedBlock {
  Block32 values;
  float scale;
};

inline RoundedBlock round_block(const Block32& x) {
  float scale = reduce_max(max(abs(x.low), abs(x.high))) / 127.0f;
  if (scale < 1.17549435e-38f) scale = 0.0f;
  const F32x16 inverse = set1(scale == 0.0f ? 0.0f : 1.0f / scale);
  return {{round_to_whole(mul(x.low, inverse)), round_to_whole(mul(x.high, inverse))}, scale};
}

/// Calls use(first element, rounded block) for each block of x, or of x * weight.
template <class Use>
inline void for_rounded(const float* x, const float* weight, std::int64_t n, Use use) {
  const std::int64_t whole = n / 32 * 32;
  if (weight) {
    for (std::int64_t i = 0; i < whole; i += 32) use(i, round_block(mul(load_block(x + i), load_block(weight + i))));
    if (whole < n) use(whole, round_block(mul(load_block(x + whole, n - whole), load_block(weight + whole, n - whole))));
  } else {
    for (std::int64_t i = 0; i < whole; i += 32) use(i, round_block(load_block(x + i)));
    if (whole < n) use(whole, round_block(load_block(x + whole, n - whole)));
  }
}

/// Writes a block: its values, its scale, its sums and its compensation.
inline void put_block(const Block32& values, float scale, const QuantizedBlock& out) {
  store_i8(out.values, to_int(values.low)), store_i8(out.values + 16, to_int(values.high));
  std::int16_t sums[4];
  sum_bytes(out.values, sums);
  for (int i = 0; i < 4; ++i) out.sub_compensation[i] = static_cast<std::int16_t>(-kSubCompensationUnit * sums[i]);
  const int low = sums[0] + sums[1], high = sums[2] + sums[3];
  out.sub_sums[0] = static_cast<std::int16_t>(low), out.sub_sums[1] = static_cast<std::int16_t>(high);
  *out.scale = scale;
  *out.sum = scale * static_cast<float>(low + high);
  *out.compensation = -kCompensationUnit * (low + high);
}

void quantize(const float* x, const float* weight, float factor, std::int64_t begin, std::int64_t end, const QuantizedRows& out,
              std::int64_t row) {
  for_rounded(x, weight, end - begin, [&](std::int64_t i, const RoundedBlock& block) {
    put_block(block.values, block.scale * factor, quantized_block(out, row, (begin + i) / 32));
  });
}

void encode_blocks(const float* x, const float* weight, std::int64_t n, EncodedBlock* out) {
  for_rounded(x, weight, n, [&](std::int64_t, const RoundedBlock& block) {
    out->scale = block.scale;
    store_i8(out->values, to_int(block.values.low)), store_i8(out->values + 16, to_int(block.values.high));
    ++out;
  });
}

void decode_blocks(const EncodedBlock* blocks, std::int64_t count, float factor, const QuantizedRows& out, std::int64_t row,
                   std::int64_t first) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Block32 values = {load_i8(blocks[i].values), load_i8(blocks[i].values + 16)};
    put_block(values, blocks[i].scale * factor, quantized_block(out, row, first + i));
  }
}

void block_squares(const float* x, std::int64_t n, float* squares) {
  for (std::int64_t i = 0; i < n; i += 32) {
    const Block32 part = load_block(x + i, n - i);
    *squares++ = reduce_add(fma(part.high, part.high, mul(part.low, part.low)));
  }
}

float inverse_rms(const float* squares, std::int64_t n, float epsilon) {
  double sum = 0;
  for (std::int64_t i = 0; i < QuantizedRows::blocks_of(n); ++i) sum += static_cast<double>(squares[i]);
  return static_cast<float>(1.0 / __builtin_sqrt(sum / static_cast<double>(n) + static_cast<double>(epsilon)));
}

void scale_mul(const float* x, float factor, const float* weight, std::int64_t n, float* y) {
  const std::int64_t whole = n / 16 * 16, rest = n - whole;
  const F32x16 factors = set1(factor);
  for (std::int64_t i = 0; i < whole; i += 16) store(y + i, mul(mul(load(x + i), factors), load(weight + i)));
  if (rest > 0) {
    const F32x16 tail = mul(load_part(x + whole, rest, 0.0f), factors);
    store_part(y + whole, rest, mul(tail, load_part(weight + whole, rest, 0.0f)));
  }
}

/// x / (1 + e^-y): x times the logistic function of y
inline F32x16 by_sigmoid(F32x16 x, F32x16 y) { return div(x, add(set1(1.0f), exp(sub(set1(0.0f), y)))); }

/// c tanh(x / c), as c (1 - 2 / (1 + e^(2x / c)))
inline F32x16 soft_cap(F32x16 x, float cap) {
  const F32x16 e = exp(mul(x, set1(2.0f / cap)));
  return mul(set1(cap), sub(set1(1.0f), div(set1(2.0f), add(set1(1.0f), e))));
}

template <Activation kKind>
inline F32x16 activated(F32x16 gate) {
  if constexpr (kKind == Activation::kSilu) return by_sigmoid(gate, gate);
  if constexpr (kKind == Activation::kGeluTanh) {
    const F32x16 inner = mul(set1(1.59576912f), gate);  // 2 sqrt(2 / pi)
    return by_sigmoid(gate, fma(mul(inner, set1(0.044715f)), mul(gate, gate), inner));
  }
  if constexpr (kKind == Activation::kClampedSilu) {
    const F32x16 clamped = min(gate, set1(7.0f));
    return by_sigmoid(clamped, mul(set1(1.702f), clamped));
  }
  if constexpr (kKind == Activation::kSquaredRelu) {
    const F32x16 positive = max(gate, set1(0.0f));
    return mul(positive, positive);
  }
  return gate;
}

template <Activation kKind>
inline F32x16 activated(F32x16 gate, F32x16 up) {
  if constexpr (kKind == Activation::kClampedSilu) up = add(max(min(up, set1(7.0f)), set1(-7.0f)), set1(1.0f));
  return mul(activated<kKind>(gate), up);
}

template <Activation kKind>
inline void activate_all(const float* gate, const float* up, std::int64_t n, float* y) {
  const std::int64_t whole = n / 16 * 16, rest = n - whole;
  const auto one = [&](F32x16 g, F32x16 u) { return up ? activated<kKind>(g, u) : activated<kKind>(g); };
  for (std::int64_t i = 0; i < whole; i += 16) store(y + i, one(load(gate + i), load((up ? up : gate) + i)));
  if (rest > 0) store_part(y + whole, rest, one(load_part(gate + whole, rest, 0.0f), load_part((up ? up : gate) + whole, rest, 0.0f)));
}

void activate(Activation activation, const float* gate, const float* up, std::int64_t n, float* y) {
  switch (activation) {
    case Activation::kSilu:
      return activate_all<Activation::kSilu>(gate, up, n, y);
    case Activation::kGeluTanh:
      return activate_all<Activation::kGeluTanh>(gate, up, n, y);
    case Activation::kClampedSilu:
      return activate_all<Activation::kClampedSilu>(gate, up, n, y);
    case Activation::kSquaredRelu:
      return activate_all<Activation::kSquaredRelu>(gate, up, n, y);
    case Activation::kNone:
      return activate_all<Activation::kNone>(gate, up, n, y);
  }
}

void exponentials(const float* x, std::int64_t n, float* y) {
  const std::int64_t whole = n / 16 * 16, rest = n - whole;
  for (std::int64_t i = 0; i < whole; i += 16) store(y + i, exp(load(x + i)));
  if (rest > 0) store_part(y + whole, rest, exp(load_part(x + whole, rest, 0.0f)));
}

}  // namespace
}  // namespace yamata::cpu
