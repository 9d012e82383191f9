#pragma once
// Attention over the cells of a KV cache, and the writing of cells. Uses the vector layer that was included before this.
#include <cstddef>
#include <cstdint>

#include "node/cpu/kernels/blocks.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "node/cpu/kernels/ops_template.hpp"

namespace yamata::cpu {
namespace {

static_assert(kKeysAtOnce % 8 == 0);

/// Cells are converted to floats in tiles of this many cells, once for all queries that see them: 8 KiB for heads of 64 or 128 elements, so
/// that the L1 cache also holds queries, scores and the next cells.
constexpr std::int64_t tile_cells(std::int64_t head_dim) { return head_dim <= 64 ? 32 : 16; }
constexpr std::int64_t kTileFloats = tile_cells(kMaxHeadDim) * kMaxHeadDim;
static_assert(kTileFloats >= tile_cells(64) * 64 && kAttentionChunk % tile_cells(64) == 0 && tile_cells(kMaxHeadDim) % kKeysAtOnce == 0);

struct HalfCells {
  static std::int64_t bytes(std::int64_t n) { return 2 * n; }
  static F32x16 widen(const std::byte* cell, std::int64_t d) { return load_f16(reinterpret_cast<const std::uint16_t*>(cell) + d); }
};
struct FloatCells {
  static std::int64_t bytes(std::int64_t n) { return 4 * n; }
  static F32x16 widen(const std::byte* cell, std::int64_t d) { return load(reinterpret_cast<const float*>(cell) + d); }
};
struct Q8Cells {
  static std::int64_t bytes(std::int64_t n) { return n / 32 * static_cast<std::int64_t>(sizeof(BlockQ8_0)); }
  static F32x16 widen(const std::byte* cell, std::int64_t d) {
    const auto& block = reinterpret_cast<const BlockQ8_0*>(cell)[d / 32];
    return mul(load_i8(block.qs + d % 32), set1(widen_half(block.d)));
  }
};

/// Consecutive entries of a list of visible cells.
struct CellSpan {
  const std::int32_t* cells;
  std::int64_t count;
};

/// The memory of one head's cells. Passed by value: by reference, compilers assume that every stored float may change it.
struct CellPlane {
  const std::byte* first;
  std::int64_t cell_bytes;
  const std::byte* cell(std::int64_t i) const { return first + i * cell_bytes; }
};

/// tile[d] = element d of the cell.
template <class Cells>
inline void widen_value(const std::byte* cell, std::int64_t head_dim, float* tile) {
  for (std::int64_t d = 0; d < head_dim; d += 16) store(tile + d, Cells::widen(cell, d));
}

/// Two keys, interleaved: tile[d / 8][which of the two][d % 8].
template <class Cells>
inline void widen_keys(const std::byte* one, const std::byte* other, std::int64_t head_dim, float* tile) {
  if (one == other) {
    for (std::int64_t d = 0; d < head_dim; d += 16, tile += 32) {
      const F32x16 both = Cells::widen(one, d);
      store_eights(tile, both, both);
    }
    return;
  }
  for (std::int64_t d = 0; d < head_dim; d += 16, tile += 32) store_eights(tile, Cells::widen(one, d), Cells::widen(other, d));
}

/// Calls `use` with the cell format of `type`.
template <class Use>
inline void with_cells(TensorType type, Use use) {
  switch (type) {
    case TensorType::F16:
      return use(HalfCells());
    case TensorType::Q8_0:
      return use(Q8Cells());
    default:
      return use(FloatCells());
  }
}

enum class Plane { kKeys, kValues };

inline std::int64_t cell_bytes(TensorType type, std::int64_t head_dim) {
  std::int64_t bytes = 0;
  with_cells(type, [&](auto cells) { bytes = decltype(cells)::bytes(head_dim); });
  return bytes;
}

/// A tile of one plane's cells as floats. The next row uses it again; of rows of a tree, which see the same text but other guesses, only
/// the cells that differ are converted. Keys are interleaved in pairs, entries 8g + j and 8g + j + 4, and their number is rounded up to a
/// multiple of 8 with other cells, whose scores are not used.
template <Plane kPlane>
class CellTile {
 public:
  CellTile(const void* plane, TensorType type, std::int64_t head_dim)
      : plane_{static_cast<const std::byte*>(plane), cell_bytes(type, head_dim)}, type_(type), head_dim_(head_dim) {}

  /// The cells of `span` as floats; `next`: the cells of the following call.
  const float* widened(CellSpan span, CellSpan next) {
    if (!holds(span)) {
      with_cells(type_, [&](auto cells) {
        if constexpr (kPlane == Plane::kKeys)
          renew_keys<decltype(cells)>(span);
        else
          renew_values<decltype(cells)>(span);
      });
      next_ = next;
    }
    return floats_;
  }
  /// Prefetches up to `count` of the next cells. Call it with small counts during the computation: a core has few cache misses in flight.
  void fetch(std::int64_t count) {
    if (count > next_.count) count = next_.count;
    // The prefetches stay in this function, which also changes a member: compilers remove calls of a function that only prefetches.
    for (std::int64_t i = 0; i < count; ++i) {
      const std::byte* cell = plane_.cell(next_.cells[i]);
      for (std::int64_t at = 0; at < plane_.cell_bytes; at += 64) __builtin_prefetch(cell + at);
    }
    next_ = {next_.cells + count, next_.count - count};
  }

 private:
  bool holds(CellSpan span) const {
    return span.count <= held_count_ && __builtin_memcmp(span.cells, held_, static_cast<std::size_t>(span.count) * sizeof *held_) == 0;
  }
  /// Whether entry i of the span needs no conversion.
  bool holds(CellSpan span, std::int64_t i) const { return i < held_count_ && (i >= span.count || held_[i] == span.cells[i]); }

  template <class Cells>
  void renew_keys(CellSpan span) {
    const std::int64_t padded = (span.count + 7) / 8 * 8;
    const auto hold = [&](std::int64_t i) {
      held_[i] = span.cells[i < span.count ? i : span.count - 1];
      return plane_.cell(held_[i]);
    };
    for (std::int64_t pair = 0; pair < padded / 2; ++pair) {
      const std::int64_t i = pair / 4 * 8 + pair % 4;
      if (holds(span, i) && holds(span, i + 4)) continue;
      const std::byte *one = hold(i), *other = hold(i + 4);
      widen_keys<Cells>(one, other, head_dim_, floats_ + 2 * pair * head_dim_);
    }
    if (held_count_ < padded) held_count_ = padded;
  }
  template <class Cells>
  void renew_values(CellSpan span) {
    for (std::int64_t i = 0; i < span.count; ++i) {
      if (holds(span, i)) continue;
      held_[i] = span.cells[i];
      widen_value<Cells>(plane_.cell(held_[i]), head_dim_, floats_ + i * head_dim_);
    }
    if (held_count_ < span.count) held_count_ = span.count;
  }

  CellPlane plane_;
  TensorType type_;
  std::int64_t head_dim_;
  CellSpan next_{nullptr, 0};
  std::int64_t held_count_ = 0;
  std::int32_t held_[tile_cells(64)];
  alignas(64) float floats_[kTileFloats];
};

/// p[0..kKeys) = the dot products of a query with kKeys keys; writes kKeysAtOnce elements. kHeadDim is the head's size, which unrolls the
/// loop; if it is 0, the size is `head_dim`.
template <int kHeadDim, int kKeys>
inline void score(const float* q, const float* k, std::int64_t head_dim, float* p) {
  if constexpr (kHeadDim > 0) head_dim = kHeadDim;
  F32x16 sums[kKeysAtOnce / 2];
#pragma GCC unroll 8
  for (auto& sum : sums) sum = set1(0.0f);
#pragma GCC unroll 16
  for (std::int64_t d = 0; d < head_dim; d += 8) {
    const F32x16 query = load_twice(q + d);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys / 2; ++j) sums[j] = fma(query, load(k + 2 * (j * head_dim + d)), sums[j]);
  }
  reduce_eights(sums, p);
}

/// Scores of one row's queries for a tile of keys; their number is rounded up to a multiple of kKeysAtOnce.
template <int kHeadDim>
inline void score_heads(const AttentionArgs& a, CellTile<Plane::kKeys>& cells, const float* q, const float* tile, std::int64_t count,
                        float* p) {
  const std::int64_t share = (kKeysAtOnce + a.heads - 1) / a.heads;
  for (std::int64_t head = 0; head < a.heads; ++head, q += a.head_dim, p += kAttentionChunk) {
    for (std::int64_t i = 0; i < count; i += kKeysAtOnce) {
      cells.fetch(share);
      if (count - i <= 8)
        score<kHeadDim, 8>(q, tile + i * a.head_dim, a.head_dim, p + i);
      else
        score<kHeadDim, kKeysAtOnce>(q, tile + i * a.head_dim, a.head_dim, p + i);
    }
  }
}

inline void score_tile(const AttentionArgs& a, CellTile<Plane::kKeys>& cells, const float* q, const float* tile, std::int64_t count,
                       float* p) {
  if (a.head_dim == 64) return score_heads<64>(a, cells, q, tile, count, p);
  if (a.head_dim == 128) return score_heads<128>(a, cells, q, tile, count, p);
  score_heads<0>(a, cells, q, tile, count, p);
}

/// p = cap tanh(scale p / cap); the number of elements is rounded up to a multiple of 16.
inline void cap_scores(float* p, std::int64_t count, float scale, float cap) {
  for (std::int64_t i = 0; i < count; i += 16) store(p + i, soft_cap(mul(load(p + i), set1(scale)), cap));
}

/// p = exp(scale * p - peak) for `count` products; *peak = the largest scale * p, *total = the sum of the exponentials. After them zeros,
/// up to a multiple of 16.
inline void softmax_weights(float* p, std::int64_t count, float scale, float* peak, float* total) {
  const std::int64_t padded = (count + 15) / 16 * 16;
  for (std::int64_t i = count; i < padded; ++i) p[i] = -__builtin_inff();
  F32x16 highest = load(p);
  for (std::int64_t i = 16; i < padded; i += 16) highest = max(highest, load(p + i));
  const float m = scale * reduce_max(highest);
  F32x16 sum = set1(0.0f);
  for (std::int64_t i = 0; i < padded; i += 16) {
    const F32x16 weight = exp(fma(load(p + i), set1(scale), set1(-m)));
    store(p + i, weight);
    sum = add(sum, weight);
  }
  *peak = m;
  *total = reduce_add(sum);
}

/// out[query][0..16 kParts) += the sum of p times v over a tile's cells, in cell order. `first`: out is 0.
template <int kQueries, int kParts>
inline void add_values(const float* p, const float* v, std::int64_t count, std::int64_t head_dim, bool first, float* out) {
  const auto place = [&](int i) { return out + i / kParts * head_dim + 16 * (i % kParts); };
  F32x16 sums[kQueries][kParts];
#pragma GCC unroll 16
  for (int i = 0; i < kQueries * kParts; ++i) sums[i / kParts][i % kParts] = first ? set1(0.0f) : load(place(i));
  for (std::int64_t cell = 0; cell < count; ++cell, v += head_dim) {
    F32x16 values[kParts];
#pragma GCC unroll 4
    for (int j = 0; j < kParts; ++j) values[j] = load(v + 16 * j);
#pragma GCC unroll 4
    for (int i = 0; i < kQueries; ++i) {
      const F32x16 weight = set1(p[i * kAttentionChunk + cell]);
#pragma GCC unroll 4
      for (int j = 0; j < kParts; ++j) sums[i][j] = fma(weight, values[j], sums[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kQueries * kParts; ++i) store(place(i), sums[i / kParts][i % kParts]);
}

/// The same for 16 elements of one query.
inline void add_few_values(const float* p, const float* v, std::int64_t count, std::int64_t head_dim, bool first, float* out) {
  F32x16 sum = first ? set1(0.0f) : load(out);
  for (std::int64_t cell = 0; cell < count; ++cell, v += head_dim) sum = fma(set1(p[cell]), load(v), sum);
  store(out, sum);
}

/// Accumulates a tile of values into the results of kQueries queries of a row, kParts parts of 16 elements at once. Each step prefetches
/// its share of the next cells.
template <int kQueries, int kParts>
inline void add_tile(const AttentionArgs& a, CellTile<Plane::kValues>& cells, const float* p, const float* tile, std::int64_t count,
                     bool first, float* out) {
  const std::int64_t all = a.heads * a.head_dim, part = (tile_cells(a.head_dim) * kQueries * 16 + all - 1) / all;
  std::int64_t d = 0;
  for (; d + 16 * kParts <= a.head_dim; d += 16 * kParts) {
    cells.fetch(part * kParts);
    add_values<kQueries, kParts>(p, tile + d, count, a.head_dim, first, out + d);
  }
  for (; d < a.head_dim; d += 16) {
    cells.fetch(part);
    for (int i = 0; i < kQueries; ++i)
      add_few_values(p + i * kAttentionChunk, tile + d, count, a.head_dim, first, out + i * a.head_dim + d);
  }
}

inline void fetch_floats(const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 16) __builtin_prefetch(x + i);
}

/// At most `most` cells of a row from entry `begin` on; empty if the row has fewer.
inline CellSpan span_of(const AttentionRow& row, std::int64_t begin, std::int64_t most) {
  const std::int64_t first = begin < row.count ? begin : row.count, left = row.count - first;
  return {row.cells + first, left < most ? left : most};
}

/// Calls use(row, begin, cells, cells as floats) for every tile of the chunk and every row that has cells in it. Rows are visited from the
/// last to the first: of consecutive tokens, the last one sees the most cells, so its tile can serve the earlier ones.
template <Plane kPlane, class Use>
inline void each_tile(const AttentionArgs& a, std::int64_t chunk_begin, CellTile<kPlane>& tile, Use use) {
  const std::int64_t step = tile_cells(a.head_dim);
  for (std::int64_t begin = chunk_begin; begin < chunk_begin + kAttentionChunk; begin += step) {
    for (std::int64_t r = a.row_count - 1; r >= 0; --r) {
      const CellSpan span = span_of(a.rows[r], begin, step);
      if (span.count == 0) continue;
      // The following cells may be the first tile of the next chunk.
      use(r, begin, span.count, tile.widened(span, span_of(a.rows[r], begin + step, step)));
    }
  }
}

void attention(const AttentionArgs& a) {
  alignas(64) float p[kAttentionQueries * kAttentionChunk];
  const std::int64_t chunk_begin = a.chunk * kAttentionChunk;
  {
    CellTile<Plane::kKeys> keys(a.k, a.k_type, a.head_dim);
    each_tile(a, chunk_begin, keys, [&](std::int64_t r, std::int64_t begin, std::int64_t count, const float* tile) {
      if (begin == chunk_begin && r > 0) fetch_floats(a.rows[r - 1].q, a.heads * a.head_dim);
      score_tile(a, keys, a.rows[r].q, tile, count, p + r * a.heads * kAttentionChunk + begin - chunk_begin);
    });
  }
  for (std::int64_t r = 0; r < a.row_count; ++r) {
    const std::int64_t left = a.rows[r].count - chunk_begin, count = left < kAttentionChunk ? left : kAttentionChunk;
    for (std::int64_t head = 0; head < a.heads; ++head) {
      float* scores = p + (r * a.heads + head) * kAttentionChunk;
      if (a.softcap > 0) cap_scores(scores, count, a.scale, a.softcap);
      softmax_weights(scores, count, a.softcap > 0 ? 1.0f : a.scale, a.rows[r].peak + head, a.rows[r].total + head);
    }
  }
  CellTile<Plane::kValues> values(a.v, a.v_type, a.head_dim);
  each_tile(a, chunk_begin, values, [&](std::int64_t r, std::int64_t begin, std::int64_t count, const float* tile) {
    const float* weights = p + r * a.heads * kAttentionChunk + begin - chunk_begin;
    float* out = a.rows[r].out;
    const bool first = begin == chunk_begin;
    std::int64_t head = 0;
    for (; head + kQueriesAtOnce <= a.heads; head += kQueriesAtOnce) {
      add_tile<kQueriesAtOnce, kPartsAtOnce>(a, values, weights + head * kAttentionChunk, tile, count, first, out + head * a.head_dim);
    }
    for (; head < a.heads; ++head) {
      add_tile<1, kPartsOfOne>(a, values, weights + head * kAttentionChunk, tile, count, first, out + head * a.head_dim);
    }
  });
}

void merge_attention(const AttentionRow& into, const AttentionRow& next, std::int64_t heads, std::int64_t head_dim) {
  for (std::int64_t begin = 0; begin < heads; begin += 16) {
    const std::int64_t n = heads - begin < 16 ? heads - begin : 16;
    const F32x16 old_peak = load_part(into.peak + begin, n, 0.0f), new_peak = load_part(next.peak + begin, n, 0.0f);
    const F32x16 peak = max(new_peak, old_peak);
    const F32x16 keep = exp(sub(old_peak, peak)), take = exp(sub(new_peak, peak));
    const F32x16 kept = mul(load_part(into.total + begin, n, 0.0f), keep), taken = mul(load_part(next.total + begin, n, 0.0f), take);
    store_part(into.peak + begin, n, peak);
    store_part(into.total + begin, n, add(kept, taken));
    float keeps[16], takes[16];
    store(keeps, keep), store(takes, take);
    for (std::int64_t i = 0; i < n; ++i) {
      float* out = into.out + (begin + i) * head_dim;
      const float* more = next.out + (begin + i) * head_dim;
      for (std::int64_t d = 0; d < head_dim; d += 16)
        store(out + d, fma(load(more + d), set1(takes[i]), mul(load(out + d), set1(keeps[i]))));
    }
  }
}

void finish_attention(const AttentionRow& row, std::int64_t heads, std::int64_t head_dim, const float* sinks, float* out) {
  const float* sums = row.out;
  for (std::int64_t head = 0; head < heads; ++head, sums += head_dim, out += head_dim) {
    float keep = 1;
    if (sinks) {
      const float peak = sinks[head] > row.peak[head] ? sinks[head] : row.peak[head];
      keep = exp_one(row.peak[head] - peak);
      row.total[head] = row.total[head] * keep + exp_one(sinks[head] - peak);
      row.peak[head] = peak;
    }
    for (std::int64_t d = 0; d < head_dim; d += 16) store(out + d, div(mul(load(sums + d), set1(keep)), set1(row.total[head])));
  }
}

/// Blocks of 32: q = x * 127 / max|x|, rounded to nearest; the scale is rounded to a half float.
inline void store_q8(const float* x, std::int64_t n, BlockQ8_0* blocks) {
  for (std::int64_t i = 0; i < n; i += 32, ++blocks) {
    const F32x16 part[2] = {load(x + i), load(x + i + 16)};
    const float scale = reduce_max(max(abs(part[0]), abs(part[1]))) / 127.0f;
    const F32x16 inverse = set1(scale < 1.17549435e-38f ? 0.0f : 1.0f / scale);
    for (int j = 0; j < 2; ++j) {
      const F32x16 rounded = sub(add(mul(part[j], inverse), set1(kRound)), set1(kRound));
      store_i8(blocks->qs + 16 * j, to_int(rounded));
    }
    blocks->d = f32_to_f16(scale);
  }
}

void store_cell(const float* x, std::int64_t n, TensorType type, void* plane, std::int64_t cell) {
  auto* base = static_cast<std::byte*>(plane);
  switch (type) {
    case TensorType::F16:
      for (std::int64_t d = 0; d < n; d += 16)
        store_f16(reinterpret_cast<std::uint16_t*>(base + cell * HalfCells::bytes(n)) + d, load(x + d));
      break;
    case TensorType::Q8_0:
      store_q8(x, n, reinterpret_cast<BlockQ8_0*>(base + cell * Q8Cells::bytes(n)));
      break;
    default:
      __builtin_memcpy(base + cell * FloatCells::bytes(n), x, static_cast<std::size_t>(FloatCells::bytes(n)));
  }
}

}  // namespace
}  // namespace yamata::cpu
