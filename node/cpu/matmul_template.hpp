#pragma once
// The matrix product with quantized weights, one template for all formats, over the lanes included before this: a lane holds
// one row's sum, weights lie in panels of kRows rows (panel.hpp).
//
// A tile is a panel times at most kTileColumns tokens: weights are decoded once for all of them. The width of a tile never
// changes the order in which one result is summed, so it never changes the result.
//
// The lanes give
//   RowFloats, RowInts  a float, an int32 per row
//   RowPairs            two int16 per row: dot_pairs multiplies them by two int16 of x and adds
//   row_ints<shift>(p)  the same whole number to each row, times two to the power shift
//   RowBytes            four bytes per row: load_row_bytes; field<shift, bits> cuts bits out; join_high<shift> puts more on top;
//                       look_up replaces by a table's
//   signed_bytes        bytes of either sign made ready for dot, kSignedBias too large then
//   dot<step>(w, x)     per row the sum of four products with bytes 4*step and on of x, a token's 32; also added to a sum
//   PartialSums, flush      such a sum, after at most kStepsToFlush<bits of w> steps; as an int32; times a scale
//   run_factor<run>     that scale: the first or second of each row's pair
//   kColumnsAtOnce      tokens that products take at once: 1, or 2 by means of
//   join_steps(w...)        the bytes of 4 or 8 steps made ready for dot_pair
//   dot_pair<step>(w, x0, x1, sum0, sum1)  their dot, from `step` on, with both tokens, added to both sums
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "node/cpu/kernels.hpp"
#include "node/cpu/panel.hpp"
#include "node/cpu/repack.hpp"

#define YAMATA_INLINE inline __attribute__((always_inline))

namespace yamata::cpu {
namespace {

/// The quantized scales and minima of a group: [block][row], or [block][row][run].
struct GroupScales {
  alignas(64) std::int8_t scales[16 * kRows], minima[16 * kRows];
};

/// Numbers of six bits: the first half to `first`, the others to `second`.
template <int kNumbers, int kAbove>
YAMATA_INLINE void open_six(const std::uint8_t* planes, std::int8_t* first, std::int8_t* second) {
  constexpr int kQuarter = kNumbers / 4;
  const std::uint8_t *low = planes, *more = planes + kQuarter, *high = planes + kNumbers / 2;
  for (int i = 0; i < kQuarter; ++i) {
    first[i] = static_cast<std::int8_t>(((low[i] & 15) | (high[i] & 3) << 4) - kAbove);
    first[kQuarter + i] = static_cast<std::int8_t>(((more[i] & 15) | (high[i] >> 2 & 3) << 4) - kAbove);
    second[i] = static_cast<std::int8_t>((low[i] >> 4 | (high[i] >> 4 & 3) << 4) - kAbove);
    second[kQuarter + i] = static_cast<std::int8_t>((more[i] >> 4 | high[i] >> 6 << 4) - kAbove);
  }
}

template <Scales kScales>
YAMATA_INLINE void open_scales(const std::uint8_t* p, GroupScales& s) {
  if constexpr (kScales == Scales::kBlockSixMin) open_six<16 * kRows, 0>(p, s.scales, s.minima);
  if constexpr (kScales == Scales::kBlockSix) open_six<8 * kRows, 32>(p, s.scales, s.scales + 4 * kRows);
  if constexpr (kScales == Scales::kRunSix) open_six<16 * kRows, 32>(p, s.scales, s.scales + 8 * kRows);
  if constexpr (kScales == Scales::kRunByte) __builtin_memcpy(s.scales, p, 16 * kRows);
  if constexpr (kScales == Scales::kRunFourMin) {
    for (int i = 0; i < 16 * kRows; ++i) {
      s.scales[i] = static_cast<std::int8_t>(p[i] & 15);
      s.minima[i] = static_cast<std::int8_t>(p[i] >> 4);
    }
  }
}

/// Step kStep of a plane of kBits.
template <int kBits, int kStep>
YAMATA_INLINE RowBytes plane(const std::uint8_t* p) {
  constexpr int kSteps = 8 / kBits;
  const RowBytes vector = load_row_bytes(p + kStep / kSteps * 4 * kRows);
  if constexpr (kBits == 8)
    return vector;
  else
    return field<kStep % kSteps * kBits, kBits>(vector);
}

template <class Block, int kStep>
YAMATA_INLINE auto weights(const std::uint8_t* block) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  RowBytes numbers = plane<kFormat.low_bits, kStep>(block);
  if constexpr (kFormat.high_bits != 0) {
    numbers = join_high<kFormat.low_bits>(numbers, plane<kFormat.high_bits, kStep>(block + 4 * kFormat.low_bits * kRows));
  }
  if constexpr (kFormat.lookup) numbers = look_up(numbers, kIq4Values);
  if constexpr (kFormat.is_signed())
    return signed_bytes(numbers);
  else
    return numbers;
}

/// Steps between two flushes: no more than fit, and than share a scale.
template <class Block>
constexpr int kFlush = [] {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  constexpr int kFit = kStepsToFlush < kFormat.is_signed() ? 8 : kFormat.low_bits + kFormat.high_bits > ;
  return kFormat.has_runs() && kFit > 4 ? 4 : kFit;
}();

/// By how much the numbers that are multiplied are too large.
template <class Block>
constexpr int kBias = kPanelFormat<Block>.is_signed() ? kSignedBias : kPanelFormat<Block>.bias;

/// Sums of products of a whole block begin with what makes up for the bias.
template <class Block>
constexpr bool kHasStart = kBias<Block> != 0 && !kPanelFormat<Block>.has_runs();
/// They are RowInts from the first product on.
template <class Block>
constexpr bool kStartsWithIt = kHasStart<Block>&& std::is_same_v<PartialSums, RowInts>;

template <class Block>
YAMATA_INLINE RowInts start_of(const std::int32_t* start) {
  static_assert(kBias<Block> % kStartUnit == 0 && std::has_single_bit(unsigned{kBias<Block> / kStartUnit}));
  return row_ints<std::countr_zero(unsigned{kBias<Block> / kStartUnit})>(start);
}

template <class Block, int kFirst, int kStep, int kColumns>
YAMATA_INLINE void add_step(const std::uint8_t* w, const std::int8_t* x, PartialSums (&part)[kColumns]) {
  const auto operand = weights<Block, kFirst + kStep>(w);
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    if constexpr (kStep == 0 && !(kFirst == 0 && kStartsWithIt<Block>))
      part[c] = dot<kFirst>(operand, x + 32 * c);
    else
      part[c] = dot<kFirst + kStep>(part[c], operand, x + 32 * c);
  }
}

/// Products of the steps from kFirst on up to the next flush; an odd last token is its own partner.
template <class Block, int kFirst, int kColumns>
YAMATA_INLINE void add_products(const std::uint8_t* w, const std::int8_t* x, PartialSums (&part)[kColumns]) {
  [&]<int... kSteps>(std::integer_sequence<int, kSteps...>) {
    if constexpr (kColumnsAtOnce == 2 && kColumns > 1) {
      const auto operand = join_steps(weights<Block, kFirst + kSteps>(w)...);
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; c += 2) {
        const int next = c + 1 < kColumns ? c + 1 : c;
        dot_pair<kFirst>(operand, x + 32 * c, x + 32 * next, part[c], part[next]);
      }
    } else {
      (add_step<Block, kFirst, kSteps>(w, x, part), ...);
    }
  }
  (std::make_integer_sequence<int, kFlush<Block>>());
}

/// The whole-number sums of a block, from step kFirst on; `starts` of its tokens.
template <class Block, int kFirst, int kColumns>
YAMATA_INLINE void add_steps(const std::uint8_t* w, const std::int8_t* x, RowPairs scales, const std::int32_t* starts,
                             RowInts (&total)[kColumns]) {
  PartialSums part[kColumns]{};
  if constexpr (kFirst == 0 && kStartsWithIt<Block>) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) part[c] = start_of<Block>(starts + c);
  }
  add_products<Block, kFirst>(w, x, part);
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    RowInts sum;
    if constexpr (kPanelFormat<Block>.has_runs())
      sum = flush(part[c], run_factor<kFirst / 4>(scales));
    else
      sum = flush(part[c]);
    if constexpr (kFirst == 0 && kHasStart<Block> && !kStartsWithIt<Block>)
      total[c] = add(start_of<Block>(starts + c), sum);
    else if constexpr (kFirst == 0)
      total[c] = sum;
    else
      total[c] = add(total[c], sum);
  }
  if constexpr (kFirst + kFlush<Block> < 8) add_steps<Block, kFirst + kFlush<Block>>(w, x, scales, starts, total);
}

/// What the numbers of a block are multiplied by: floats to each row, and whole numbers to each run where there are.
struct BlockScales {
  RowFloats scale, min;
  RowPairs run_scales, run_minima;
};

template <class Block, int kColumns>
YAMATA_INLINE void add_block(const std::uint8_t* w, const BlockScales& s, const std::byte* x, RowFloats (&sums)[kColumns]) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  const auto* x_scales = reinterpret_cast<const float*>(x + 32 * kColumns);
  const float* x_sums = x_scales + kColumns;
  const auto* x_runs = reinterpret_cast<const std::int16_t*>(x_sums + kColumns);
  const auto* starts = reinterpret_cast<const std::int32_t*>(x_runs + 2 * kColumns);
  RowInts total[kColumns];
  add_steps<Block, 0>(w, reinterpret_cast<const std::int8_t*>(x), s.run_scales, starts, total);
  const RowPairs run_biases = mul(row_pairs(kBias<Block>), s.run_scales);
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    if constexpr (kBias<Block> != 0 && kFormat.has_runs()) total[c] = sub(total[c], dot_pairs(run_biases, x_runs + 2 * c));
    const RowFloats x_scale = row_floats(x_scales[c]);
    sums[c] = fma(from_ints(total[c]), mul(s.scale, x_scale), sums[c]);
    if constexpr (kFormat.has_min() && kFormat.has_runs()) {
      sums[c] = fma(from_ints(dot_pairs(s.run_minima, x_runs + 2 * c)), mul(s.min, x_scale), sums[c]);
    } else if constexpr (kFormat.has_min()) {
      sums[c] = fma(s.min, row_floats(x_sums[c]), sums[c]);
    }
  }
}

/// Panels are read once, one after the other: so far ahead of the reading they are called into the cache.
constexpr int kPrefetchBytes = 4096;

/// With block `b` of a group goes its part of what is called in: few lines at a time, since a core waits for few at once.
template <class Block>
YAMATA_INLINE void prefetch_part(const std::uint8_t* group, int b) {
  constexpr int kPart = kPanelFormat<Block>.group_bytes() * kRows / kPanelFormat<Block>.blocks();
  const std::uint8_t* part = group + kPrefetchBytes + b * kPart;
  for (int i = 0; i < kPart; i += 64) __builtin_prefetch(part + i);
}

/// The 8 blocks of a group whose scales are quantized.
template <class Block, int kColumns>
YAMATA_INLINE void add_group(const std::uint8_t* group, RowFloats d, RowFloats m, const std::byte* x, RowFloats (&sums)[kColumns]) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  const std::uint8_t* w = group + kFormat.half_bytes() * kRows;
  GroupScales opened;
  open_scales<kFormat.scales>(w, opened);
  w += kFormat.scale_bytes() * kRows;
  BlockScales s{d, m, row_pairs(0), row_pairs(0)};
  if constexpr (kFormat.has_min()) m = mul(m, row_floats(-1.0f));
  for (int b = 0; b < 8; ++b) {
    if constexpr (kFormat.has_runs()) {
      s.run_scales = load_pairs(opened.scales + 2 * kRows * b);
      if constexpr (kFormat.has_min()) s.min = m, s.run_minima = load_pairs(opened.minima + 2 * kRows * b);
    } else {
      s.scale = mul(d, from_bytes(opened.scales + kRows * b));
      if constexpr (kFormat.has_min()) s.min = mul(m, from_bytes(opened.minima + kRows * b));
    }
    prefetch_part<Block>(group, b);
    add_block<Block>(w, s, x, sums);
    w += kFormat.block_bytes() * kRows;
    x += kActivationBlockBytes * kColumns;
  }
}

/// A panel times kColumns tokens: sums [token][row].
template <class Block, int kColumns>
void multiply_panel(const std::uint8_t* panel, std::int64_t groups, const std::byte* x, float* out) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  RowFloats sums[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) sums[c] = row_floats(0.0f);
  for (std::int64_t g = 0; g < groups; ++g) {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(panel);
    const RowFloats d = from_halves(halves);
    RowFloats m = d;
    if constexpr (kFormat.has_min()) m = from_halves(halves + kRows);
    if constexpr (kFormat.grouped()) {
      add_group<Block>(panel, d, m, x, sums);
    } else {
      prefetch_part<Block>(panel, 0);
      add_block<Block>(panel + kFormat.half_bytes() * kRows, {d, m, row_pairs(0), row_pairs(0)}, x, sums);
    }
    panel += kFormat.group_bytes() * kRows;
    x += kFormat.blocks() * kActivationBlockBytes * kColumns;
  }
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) store_rows(out + c * kRows, sums[c]);
}

/// A panel, at `row`, times the tokens of a tile, of 1 to kColumns.
template <class Block, int kColumns>
inline void run_tile(const MatmulArgs& a, const std::byte* panel, std::int64_t row, std::int64_t token, std::int64_t count) {
  if constexpr (kColumns > 1) {
    if (count < kColumns) return run_tile<Block, kColumns - 1>(a, panel, row, token, count);
  }
  alignas(64) float sums[kColumns * kRows];
  const std::int64_t groups = a.cols / (32 * kPanelFormat<Block>.blocks());
  const std::byte* x = a.quantized.data + token * a.quantized.blocks * kActivationBlockBytes;
  multiply_panel<Block, kColumns>(reinterpret_cast<const std::uint8_t*>(panel), groups, x, sums);
  for (int c = 0; c < kColumns; ++c) {
    float* y = a.y + (token + c) * a.ldy + row;
    const float* sum = sums + c * kRows;
    if (a.row_end - row >= kRows) {
      store_rows(y, a.add ? add(load_rows(y), load_rows(sum)) : load_rows(sum));
    } else {
      for (std::int64_t r = 0; r < a.row_end - row; ++r) y[r] = a.add ? y[r] + sum[r] : sum[r];
    }
  }
}

/// So many bytes of panels stay in the second cache while all tokens pass by them.
constexpr std::size_t kPanelsBytes = 128 << 10;

template <class Block>
void matmul(const MatmulArgs& a) {
  const std::size_t panel_bytes = kRows * a.row_bytes;
  const std::int64_t most = a.packed ? static_cast<std::int64_t>(kPanelsBytes / panel_bytes) : 1;
  const std::int64_t step = kRows * (most > 1 && a.tokens > kTileColumns ? most : 1);
  for (std::int64_t first = a.row_begin; first < a.row_end; first += step) {
    const std::int64_t last = first + step < a.row_end ? first + step : a.row_end;
    const std::byte* panels = a.weights + static_cast<std::size_t>(first) * a.row_bytes;
    if (!a.packed) {
      repack_panel<Block>(panels, a.row_bytes, static_cast<int>(last - first), a.cols / (32 * kPanelFormat<Block>.blocks()), kRows,
                          a.scratch);
      panels = a.scratch;
    }
    for (std::int64_t token = 0; token < a.tokens; token += kTileColumns) {
      const std::int64_t left = a.tokens - token, count = left < kTileColumns ? left : kTileColumns;
      const std::byte* panel = panels;
      for (std::int64_t row = first; row < last; row += kRows, panel += panel_bytes) {
        run_tile<Block, kTileColumns>(a, panel, row, token, count);
      }
    }
  }
}

}  // namespace
}  // namespace yamata::cpu
