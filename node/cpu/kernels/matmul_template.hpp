#pragma once
// The matrix product with quantized weights: one template for all formats. Uses the lanes that were included before this: a lane holds one
// row's sum; weights are in panels of kRows rows (panel.hpp).
//
// A tile is a panel times at most kTileColumns tokens: weights are decoded once for all of them. With at most kFewColumns tokens, a tile is
// two panels, so that an activation is read once for both. The shape of a tile does not change the order of summation of any result, so it
// does not change the result.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/panel_weights.hpp"
#include "node/cpu/kernels/repack.hpp"

namespace yamata::cpu {
namespace {

/// Panels that are multiplied side by side.
constexpr int kPanelsAtOnce = kFewColumns<false> == 0 ? 1 : 2;

/// Whether a sub-block's sum begins with its compensation. Then the result is the sum over the numbers without their zero point.
template <class Block>
constexpr bool kHasSubCompensation = kSubCompensation&& kPanelFormat<Block>.has_sub_blocks() && kPanelFormat<Block>.zero_point
                                                                                                    == kSubCompensationUnit;

/// Steps between two flushes: as many as fit into the partial sums and share a scale.
template <class Block>
constexpr int kFlush = [] {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  if (kHasSubCompensation<Block>) return 4;
  constexpr int kFit = kStepsToFlush<kFormat.bits()>;
  return kFormat.has_sub_blocks() && kFit > 4 ? 4 : kFit;
}();

/// The zero point of the multiplied numbers.
template <class Block>
constexpr int kZeroPoint = kPanelFormat<Block>.is_signed() ? kSignedZeroPoint : kPanelFormat<Block>.zero_point;

/// Whether the sum of a whole block includes a compensation for the zero point.
template <class Block>
constexpr bool kHasCompensation = kZeroPoint<Block> != 0 && !kPanelFormat<Block>.has_sub_blocks();
/// Whether the sums are RowInts, so that they can begin with the compensation.
template <class Block>
constexpr bool kBeginsCompensated = kHasCompensation<Block>&& std::is_same_v<PartialSums, RowInts>;

template <class Block>
YAMATA_INLINE RowInts compensation_of(const std::int32_t* compensation) {
  static_assert(kZeroPoint<Block> % kCompensationUnit == 0 && std::has_single_bit(unsigned{kZeroPoint<Block> / kCompensationUnit}));
  return row_ints<std::countr_zero(unsigned{kZeroPoint<Block> / kCompensationUnit})>(compensation);
}

/// Whether the sums from step kFirst on have a value before the first product.
template <class Block, int kFirst>
constexpr bool kBegun = kHasSubCompensation<Block> || (kFirst == 0 && kBeginsCompensated<Block>);

template <class Block, int kFirst, int kStep, int kPanels, int kColumns>
YAMATA_INLINE void add_step(const std::uint8_t* w, std::size_t stride, const std::int8_t* x, PartialSums (&part)[kPanels][kColumns]) {
  decltype(weights<Block, kFirst + kStep>(w)) operands[kPanels];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) operands[p] = weights<Block, kFirst + kStep>(w + p * stride);
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      if constexpr (kStep == 0 && !kBegun<Block, kFirst>)
        part[p][c] = dot<kFirst>(operands[p], x + 32 * c);
      else
        part[p][c] = dot<kFirst + kStep>(part[p][c], operands[p], x + 32 * c);
    }
  }
}

/// Products of the steps from kFirst up to the next flush. An odd last token is paired with itself. Inlined: otherwise the sums would pass
/// through memory.
template <class Block, int kFirst, int kPanels, int kColumns>
YAMATA_INLINE void add_products(const std::uint8_t* w, std::size_t stride, const std::int8_t* x, PartialSums (&part)[kPanels][kColumns]) {
  [&]<int... kSteps>(std::integer_sequence<int, kSteps...>) __attribute__((always_inline)) {
    if constexpr (kColumnsAtOnce == 2 && kColumns > 1) {
      static_assert(kPanels == 1);
      const auto operand = join_steps(weights<Block, kFirst + kSteps>(w)...);
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; c += 2) {
        const int next = c + 1 < kColumns ? c + 1 : c;
        dot_pair<kFirst>(operand, x + 32 * c, x + 32 * next, part[0][c], part[0][next]);
      }
    } else {
      (add_step<Block, kFirst, kSteps>(w, stride, x, part), ...);
    }
  }
  (std::make_integer_sequence<int, kFlush<Block>>());
}

/// The scales of a block: floats per row, and integers per sub-block if the format has sub-blocks.
struct BlockScales {
  RowFloats scale, min;
  RowPairs sub_scales, sub_mins;
};

/// The integer sums of a block, from step kFirst on; `compensation` and `sub_compensation`: of the block's tokens.
template <class Block, int kFirst, int kPanels, int kColumns>
YAMATA_INLINE void add_steps(const std::uint8_t* w, std::size_t stride, const std::int8_t* x, const BlockScales (&scales)[kPanels],
                             const std::int32_t* compensation, const std::int16_t* sub_compensation, RowInts (&total)[kPanels][kColumns]) {
  PartialSums part[kPanels][kColumns]{};
  if constexpr (kFirst == 0 && kBeginsCompensated<Block>) {
#pragma GCC unroll 32
    for (int i = 0; i < kPanels * kColumns; ++i) part[i / kColumns][i % kColumns] = compensation_of<Block>(compensation + i % kColumns);
  }
  if constexpr (kHasSubCompensation<Block>) {
#pragma GCC unroll 32
    for (int i = 0; i < kPanels * kColumns; ++i)
      begin_sub_block(part[i / kColumns][i % kColumns], sub_compensation + 4 * (i % kColumns) + kFirst / 2);
  }
  add_products<Block, kFirst>(w, stride, x, part);
#pragma GCC unroll 32
  for (int i = 0; i < kPanels * kColumns; ++i) {
    const int p = i / kColumns, c = i % kColumns;
    RowInts sum;
    if constexpr (kPanelFormat<Block>.has_sub_blocks())
      sum = flush(part[p][c], sub_factor<kFirst / 4>(scales[p].sub_scales));
    else
      sum = flush(part[p][c]);
    if constexpr (kFirst == 0 && kHasCompensation<Block> && !kBeginsCompensated<Block>)
      total[p][c] = add(compensation_of<Block>(compensation + c), sum);
    else if constexpr (kFirst == 0)
      total[p][c] = sum;
    else
      total[p][c] = add(total[p][c], sum);
  }
  if constexpr (kFirst + kFlush<Block> < 8)
    add_steps<Block, kFirst + kFlush<Block>>(w, stride, x, scales, compensation, sub_compensation, total);
}

template <class Block, int kPanels, int kColumns>
YAMATA_INLINE void add_block(const std::uint8_t* w, std::size_t stride, const BlockScales (&scales)[kPanels], const std::byte* x,
                             RowFloats (&sums)[kPanels][kColumns]) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  const auto* x_scales = reinterpret_cast<const float*>(x + 32 * kColumns);
  const float* x_sums = x_scales + kColumns;
  const auto* x_subs = reinterpret_cast<const std::int16_t*>(x_sums + kColumns);
  const auto* compensation = reinterpret_cast<const std::int32_t*>(x_subs + 2 * kColumns);
  const auto* sub_compensation = reinterpret_cast<const std::int16_t*>(compensation + kColumns);
  RowInts total[kPanels][kColumns];
  add_steps<Block, 0>(w, stride, reinterpret_cast<const std::int8_t*>(x), scales, compensation, sub_compensation, total);
#pragma GCC unroll 32
  for (int i = 0; i < kPanels * kColumns; ++i) {
    const int p = i / kColumns, c = i % kColumns;
    const BlockScales& s = scales[p];
    RowInts whole = total[p][c];
    if constexpr (kZeroPoint<Block> != 0 && kFormat.has_sub_blocks() && !kHasSubCompensation<Block>) {
      whole = sub(whole, dot_pairs(mul(row_pairs(kZeroPoint<Block>), s.sub_scales), x_subs + 2 * c));
    }
    const RowFloats x_scale = row_floats(x_scales[c]);
    sums[p][c] = fma(from_ints(whole), mul(s.scale, x_scale), sums[p][c]);
    if constexpr (kFormat.has_min() && kFormat.has_sub_blocks()) {
      sums[p][c] = fma(from_ints(dot_pairs(s.sub_mins, x_subs + 2 * c)), mul(s.min, x_scale), sums[p][c]);
    } else if constexpr (kFormat.has_min()) {
      sums[p][c] = fma(s.min, row_floats(x_sums[c]), sums[p][c]);
    }
  }
}

/// Consecutive panels that are multiplied side by side.
struct Panels {
  const std::uint8_t* end;  ///< end of the first panel
  std::size_t bytes;        ///< of each panel
};

/// Prefetches, while block `b` of a group is computed, a part of the panel further ahead: few lines at a time, since a core has few cache
/// misses in flight. Beyond the first panel's end, the prefetched part belongs to the panels after those that are multiplied side by side.
template <class Block, int kPanels, int kColumns>
YAMATA_INLINE void prefetch_part(const Panels& panels, const std::uint8_t* group, int b) {
  constexpr int kPart = kPanelFormat<Block>.group_bytes() * kRows / kPanelFormat<Block>.blocks();
  constexpr int kAhead = kPrefetchBytes<(kColumns > 1 || kPanelFormat<Block>.grouped())>;
  const std::uint8_t* part = group + kAhead + b * kPart;
  if (kPanels > 1 && part >= panels.end) part += (kPanels - 1) * panels.bytes;
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    for (int i = 0; i < kPart; i += 64) {
      __builtin_prefetch(part + p * panels.bytes + i);
      if (prefetches_to_l2<kColumns>()) __builtin_prefetch(part + kPrefetchL2Bytes - kAhead + p * panels.bytes + i, 0, 2);
    }
  }
}

/// Adds the 8 blocks of a group whose scales are quantized.
template <class Block, int kPanels, int kColumns>
YAMATA_INLINE void add_group(const std::uint8_t* group, const Panels& panels, const std::byte* x, RowFloats (&sums)[kPanels][kColumns]) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  constexpr int kHalfBytes = kFormat.half_bytes() * kRows;
  const std::uint8_t* w = group + kHalfBytes + kFormat.scale_bytes() * kRows;
  GroupScales unpacked[kPanels];
  RowFloats d[kPanels], m[kPanels];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    unpack_scales<kFormat.scales>(group + p * panels.bytes + kHalfBytes, unpacked[p]);
    d[p] = unpack_d<kFormat.scales>(group + p * panels.bytes);
    const auto* halves = reinterpret_cast<const std::uint16_t*>(group + p * panels.bytes);
    if constexpr (kFormat.has_min()) m[p] = mul(from_halves(halves + kRows), row_floats(-1.0f));
  }
  for (int b = 0; b < 8; ++b) {
    BlockScales s[kPanels];
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      if constexpr (kFormat.has_sub_blocks()) {
        s[p].scale = d[p], s[p].sub_scales = load_pairs(unpacked[p].scales + 2 * kRows * b);
        if constexpr (kFormat.has_min()) s[p].min = m[p], s[p].sub_mins = load_pairs(unpacked[p].mins + 2 * kRows * b);
      } else {
        s[p].scale = mul(d[p], from_bytes(unpacked[p].scales + kRows * b));
        if constexpr (kFormat.has_min()) s[p].min = mul(m[p], from_bytes(unpacked[p].mins + kRows * b));
      }
    }
    prefetch_part<Block, kPanels, kColumns>(panels, group, b);
    add_block<Block>(w, panels.bytes, s, x, sums);
    w += kFormat.block_bytes() * kRows;
    x += kActivationBlockBytes * kColumns;
  }
}

/// Adds the only block of a group whose scales are floats.
template <class Block, int kPanels, int kColumns>
YAMATA_INLINE void add_single(const std::uint8_t* group, const Panels& panels, const std::byte* x, RowFloats (&sums)[kPanels][kColumns]) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  BlockScales s[kPanels];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(group + p * panels.bytes);
    s[p].scale = unpack_d<kFormat.scales>(group + p * panels.bytes);
    if constexpr (kFormat.has_min()) s[p].min = from_halves(halves + kRows);
  }
  prefetch_part<Block, kPanels, kColumns>(panels, group, 0);
  add_block<Block>(group + kFormat.half_bytes() * kRows, panels.bytes, s, x, sums);
}

/// Consecutive panels times kColumns tokens: sums [panel][token][row]. A separate function for each shape, which has all registers for its
/// sums.
template <class Block, int kPanels, int kColumns>
__attribute__((noinline)) void multiply_panels(const std::uint8_t* group, std::int64_t groups, const std::byte* x, float* out) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  constexpr int kGroupBytes = kFormat.group_bytes() * kRows;
  RowFloats sums[kPanels][kColumns];
#pragma GCC unroll 32
  for (int i = 0; i < kPanels * kColumns; ++i) sums[i / kColumns][i % kColumns] = row_floats(0.0f);
  const Panels panels{group + groups * kGroupBytes, static_cast<std::size_t>(groups) * kGroupBytes};
  for (; group < panels.end; group += kGroupBytes) {
    if constexpr (kFormat.grouped())
      add_group<Block>(group, panels, x, sums);
    else
      add_single<Block>(group, panels, x, sums);
    x += kFormat.blocks() * kActivationBlockBytes * kColumns;
  }
#pragma GCC unroll 32
  for (int i = 0; i < kPanels * kColumns; ++i) store_rows(out + i * kRows, sums[i / kColumns][i % kColumns]);
}

/// kPanels panels, at `row`, times the tokens of a tile (1 to kColumns).
template <class Block, int kPanels, int kColumns>
inline void multiply_tile(const MatmulArgs& a, const std::byte* panels, std::int64_t row, std::int64_t token, std::int64_t count) {
  if constexpr (kColumns > 1) {
    if (count < kColumns) return multiply_tile<Block, kPanels, kColumns - 1>(a, panels, row, token, count);
  }
  alignas(64) float sums[kPanels * kColumns * kRows];
  const std::int64_t groups = a.cols / (32 * kPanelFormat<Block>.blocks());
  const std::byte* x = a.quantized.data + token * a.quantized.blocks * kActivationBlockBytes;
  multiply_panels<Block, kPanels, kColumns>(reinterpret_cast<const std::uint8_t*>(panels), groups, x, sums);
  for (int i = 0; i < kPanels * kColumns; ++i) {
    const std::int64_t at = row + i / kColumns * kRows;
    float* y = a.y + (token + i % kColumns) * a.ldy + at;
    const float* sum = sums + i * kRows;
    if (a.row_end - at >= kRows) {
      store_rows(y, a.add ? add(load_rows(y), load_rows(sum)) : load_rows(sum));
    } else {
      for (std::int64_t r = 0; r < a.row_end - at; ++r) y[r] = a.add ? y[r] + sum[r] : sum[r];
    }
  }
}

/// All panels of a range of rows times the tokens of a tile.
template <class Block>
inline void multiply_rows(const MatmulArgs& a, const std::byte* panels, std::size_t panel_bytes, std::int64_t row, std::int64_t last,
                          std::int64_t token, std::int64_t count) {
  constexpr int kFew = kFewColumns<kPanelFormat<Block>.is_signed()>;
  if constexpr (kPanelsAtOnce > 1) {
    for (; count <= kFew && last - row > (kPanelsAtOnce - 1) * kRows; row += kPanelsAtOnce * kRows, panels += kPanelsAtOnce * panel_bytes) {
      multiply_tile<Block, kPanelsAtOnce, kFew>(a, panels, row, token, count);
    }
  }
  for (; row < last; row += kRows, panels += panel_bytes) multiply_tile<Block, 1, kTileColumns>(a, panels, row, token, count);
}

/// The panels have the format PanelBlockOf<Block>.
template <class Block>
void matmul(const MatmulArgs& a) {
  using Panel = PanelBlockOf<Block>;
  constexpr PanelFormat kFormat = kPanelFormat<Panel>;
  const std::int64_t groups = a.cols / (32 * kFormat.blocks());
  const std::size_t row_bytes = static_cast<std::size_t>(groups) * kFormat.group_bytes(), panel_bytes = kRows * row_bytes;
  const std::int64_t fit = kPanelsBytes / static_cast<std::int64_t>(panel_bytes), stay = fit > 1 ? fit : 1;
  const std::int64_t step = kRows * (!a.packed ? 1 : a.tokens > kTileColumns ? stay : kPanelsAtOnce);
  for (std::int64_t first = a.row_begin; first < a.row_end; first += step) {
    const std::int64_t last = first + step < a.row_end ? first + step : a.row_end;
    const std::byte* panels = a.weights + static_cast<std::size_t>(first) * (a.packed ? row_bytes : a.row_bytes);
    if (!a.packed) {
      repack_panel<Block>(panels, a.row_bytes, static_cast<int>(last - first), groups, kRows, a.scratch);
      panels = a.scratch;
    }
    for (std::int64_t token = 0; token < a.tokens; token += kTileColumns) {
      const std::int64_t left = a.tokens - token, count = left < kTileColumns ? left : kTileColumns;
      multiply_rows<Panel>(a, panels, panel_bytes, first, last, token, count);
    }
  }
}

}  // namespace
}  // namespace yamata::cpu
