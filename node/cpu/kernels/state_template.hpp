#pragma once
// Convolutions, the gated delta rule, and Mamba-2's scan. Uses the vector layer that was included before this.
#include <cstdint>

#include "node/cpu/kernels/state_kernels.hpp"
#include "node/state_op.hpp"

namespace yamata::cpu {
namespace {

/// Taps of 16 channels, from [16][kCount].
template <int kCount>
inline F32x16 taps_of(const float* taps, int tap) {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = taps[i * kCount + tap];
  return load(values);
}

template <int kCount>
void convolve_columns(const float* const* columns, const float* taps, std::int64_t channels, float* y) {
  for (std::int64_t c = 0; c < channels; c += 16) {
    const float* own = taps + c * kCount;
    F32x16 sum = mul(taps_of<kCount>(own, 0), load(columns[0] + c));
    for (int tap = 1; tap < kCount; ++tap) sum = fma(taps_of<kCount>(own, tap), load(columns[tap] + c), sum);
    store(y + c, sum);
  }
}

void convolve(const float* const* columns, const float* taps, std::int64_t count, std::int64_t channels, float* y) {
  static_assert(StateShape::kTaps == 4);
  count == 4   ? convolve_columns<4>(columns, taps, channels, y)
  : count == 3 ? convolve_columns<3>(columns, taps, channels, y)
               : convolve_columns<2>(columns, taps, channels, y);
}

constexpr int kPartialSums = 4;

inline F32x16 sum_of_partials(const F32x16* sums) { return add(add(sums[0], sums[1]), add(sums[2], sums[3])); }

/// The sum of decayed state times key.
inline F32x16 found(const float* state, const float* k, F32x16 decay, std::int64_t dim) {
  F32x16 sums[kPartialSums];
#pragma GCC unroll 4
  for (int p = 0; p < kPartialSums; ++p) sums[p] = set1(0.0f);
  for (std::int64_t i = 0; i < dim; i += kPartialSums) {
#pragma GCC unroll 4
    for (int p = 0; p < kPartialSums; ++p) sums[p] = fma(mul(load(state + (i + p) * 16), decay), set1(k[i + p]), sums[p]);
  }
  return sum_of_partials(sums);
}

/// What a pass over the state computes beside the state after a token.
struct Sums {
  F32x16 read;  ///< the state after the token times its query
  F32x16 next;  ///< `found` of the row after it
};

/// Writes the state after a token. `kReads`: its query is used. `kGoesOn`: `next` is the row after it.
template <bool kReads, bool kGoesOn>
inline Sums update(const float* before, const DeltaRow& row, const DeltaRow& next, F32x16 change, std::int64_t dim, float* after) {
  const float *k = row.k, *q = row.q, *next_k = next.k;  // the compiler cannot know that `after` does not change the rows
  const F32x16 decay = set1(row.decay), next_decay = set1(next.decay);
  F32x16 reads[kPartialSums], found[kPartialSums];
#pragma GCC unroll 4
  for (int p = 0; p < kPartialSums; ++p) reads[p] = found[p] = set1(0.0f);
  for (std::int64_t i = 0; i < dim; i += kPartialSums) {
#pragma GCC unroll 4
    for (int p = 0; p < kPartialSums; ++p) {
      const F32x16 state = fma(set1(k[i + p]), change, mul(load(before + (i + p) * 16), decay));
      store(after + (i + p) * 16, state);
      if (kReads) reads[p] = fma(state, set1(q[i + p]), reads[p]);
      if (kGoesOn) found[p] = fma(mul(state, next_decay), set1(next_k[i + p]), found[p]);
    }
  }
  return {sum_of_partials(reads), sum_of_partials(found)};
}

void delta_rule(const DeltaRow* rows, std::int64_t count, std::int64_t dim, float* state) {
  const float* current = state;
  F32x16 sum = set1(0.0f);
  for (std::int64_t r = 0; r < count; ++r) {
    const DeltaRow& row = rows[r];
    const bool goes_on = r + 1 < count && !rows[r + 1].from;
    const DeltaRow& next = goes_on ? rows[r + 1] : row;
    if (row.from) current = row.from;
    if (row.from || r == 0) sum = found(current, row.k, set1(row.decay), dim);
    const F32x16 change = mul(sub(load(row.v), sum), set1(row.strength));
    float* const after = row.to ? row.to : state;
    const auto pass =
        row.out ? (goes_on ? update<true, true> : update<true, false>) : (goes_on ? update<false, true> : update<false, false>);
    const Sums sums = pass(current, row, next, change, dim, after);
    if (row.out) store(row.out, sums.read);
    sum = sums.next;
    current = after;
  }
}

void scan(const DeltaRow* rows, std::int64_t count, std::int64_t dim, float* state) {
  const float* current = state;
  for (std::int64_t r = 0; r < count; ++r) {
    const DeltaRow& row = rows[r];
    if (row.from) current = row.from;
    const F32x16 value = load(row.v), change = mul(value, set1(row.strength));
    float* const after = row.to ? row.to : state;
    const Sums sums = (row.out ? update<true, false> : update<false, false>)(current, row, row, change, dim, after);
    if (row.out) store(row.out, fma(set1(row.skip), value, sums.read));
    current = after;
  }
}

}  // namespace
}  // namespace yamata::cpu
