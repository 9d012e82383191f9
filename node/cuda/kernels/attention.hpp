#pragma once
// Attention over segments of 256 visible cells, and merging of their results (docs/kernels.md).
//
// A block of 256 threads computes a segment of a row for some query heads of one key/value head. Each thread first multiplies the key of
// one cell, then sums two elements of the values. Each half of the segment is a chunk of 128 cells; at the end, both chunks are merged.
#include "node/cuda/kernels/cells.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kAttentionThreads = 256;
constexpr int kChunk = 128, kSegment = 2 * kChunk;

/// The work of a thread block.
struct AttentionTile {
  std::int64_t row, kv_head, segment;
  std::int64_t head;  // the first query head of this tile
  int count, heads;   // the row's cells in the segment; query heads
  const std::int32_t* cells;

  YAMATA_DEVICE AttentionTile(const AttentionArgs& a, int most_heads) {
    const auto group = static_cast<unsigned>(a.group), kv_heads = static_cast<unsigned>(a.kv_heads), i = simt::block_x();
    const unsigned tiles = divide_up(group, most_heads);
    row = i / (kv_heads * tiles), kv_head = i / tiles % kv_heads, segment = simt::block_y();
    const std::int64_t first = (a.first + segment) * kSegment, seen = a.begins[row + 1] - a.begins[row];
    count = static_cast<int>(seen - first < kSegment ? seen - first : kSegment);
    cells = a.cells + a.begins[row] + first;
    // Other units may compute the first or the last of the query heads that share the key/value head.
    const std::int64_t group_begin = kv_head * a.group - a.before, begin = group_begin + i % tiles * most_heads;
    std::int64_t end = begin + most_heads < group_begin + a.group ? begin + most_heads : group_begin + a.group;
    end = end < a.head_end ? end : a.head_end;
    head = begin > a.head_begin ? begin : a.head_begin;
    heads = static_cast<int>(end - head);
  }
  /// Number of cells of a chunk.
  YAMATA_DEVICE int in_chunk(int chunk) const {
    const int left = count - chunk * kChunk;
    return left < kChunk ? left : kChunk;
  }
};

/// Shared memory. It is followed by q[head][d] and out[chunk][head][d].
template <int kHeads>
struct alignas(16) AttentionShared {
  float p[2][kHeads][kChunk];  // products, then weights
  float peak[2][kHeads], total[2][kHeads];
  std::uint32_t eights[kSegment];  // of each cell, the number of its first eight elements in a plane

  YAMATA_DEVICE float* q() { return reinterpret_cast<float*>(this + 1); }
  YAMATA_DEVICE float* out(std::int64_t head_dim) { return q() + kHeads * head_dim; }
};

/// Four floats in shared memory.
YAMATA_DEVICE void load_four(const float* from, float* to) {
  const simt::Words4 words = *reinterpret_cast<const simt::Words4*>(from);
  for (int j = 0; j < 4; ++j) to[j] = simt::float_of_bits(words.word[j]);
}

/// Adds the products of 8 * kEights elements of a key, from element i of its plane on, with those of each query.
template <class Cells, int kEights, int kHeads>
YAMATA_DEVICE void multiply_key(const void* plane, std::int64_t i, const float* q, std::int64_t head_dim, float (&sums)[kHeads][8]) {
  typename Cells::Eight key[kEights];
  for (int e = 0; e < kEights; ++e) key[e] = Cells::eight(plane, i + 8 * e);
  for (int e = 0; e < kEights; ++e) {
    for (int h = 0; h < kHeads; ++h) {
      float query[8];
      load_four(q + h * head_dim + 8 * e, query), load_four(q + h * head_dim + 8 * e + 4, query + 4);
      for (int j = 0; j < 8; ++j) sums[h][j] = simt::fma(query[j], Cells::at(key[e], j), sums[h][j]);
    }
  }
}

/// One cell per thread: its key times every query; each product in 8 lanes.
template <class Cells, int kHeads>
YAMATA_DEVICE void score(const AttentionArgs& a, const AttentionTile& tile, AttentionShared<kHeads>& shared) {
  const unsigned place = simt::thread();
  if (!simt::within(place, tile.count)) return;
  const void* plane = a.cache_k[tile.kv_head];
  const std::int64_t first = static_cast<std::int64_t>(shared.eights[place]) * 8;
  float sums[kHeads][8] = {};
  constexpr int kEights = 8 / Cells::kRegisters;
  std::int64_t d = 0;
  for (; d + 8 * kEights <= a.head_dim; d += 8 * kEights) multiply_key<Cells, kEights>(plane, first + d, shared.q() + d, a.head_dim, sums);
  for (; d < a.head_dim; d += 8) multiply_key<Cells, 1>(plane, first + d, shared.q() + d, a.head_dim, sums);
  for (int h = 0; h < kHeads; ++h) {
    const auto& s = sums[h];
    const float product = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    shared.p[place / kChunk][h][place % kChunk] = a.softcap > 0 ? soft_cap(product * a.scale, a.softcap) : product;
  }
}

/// One warp per chunk and head: weights = exp(scale * p - peak), and their sum in 16 lanes. With a soft-cap, p is already scaled. Weights
/// of missing cells are -0, which changes no sum.
template <int kHeads>
YAMATA_DEVICE void weigh(const AttentionArgs& a, const AttentionTile& tile, AttentionShared<kHeads>& shared) {
  const int chunk = static_cast<int>(simt::warp()) / kHeads, head = static_cast<int>(simt::warp()) % kHeads;
  if (chunk > 1 || tile.in_chunk(chunk) <= 0) return;
  const int count = tile.in_chunk(chunk), lane = static_cast<int>(simt::lane());
  float* p = shared.p[chunk][head];
  const float scale = a.softcap > 0 ? 1.0f : a.scale;
  float own[kChunk / simt::kWarp], highest = p[0];
  for (int j = 0; j < 4; ++j) {
    own[j] = p[lane + 32 * j];
    if (simt::within(lane + 32 * j, count)) highest = larger(highest, own[j]);
  }
  const float peak = scale * largest_of_warp(highest);
  for (int j = 0; j < 4; ++j) p[lane + 32 * j] = simt::within(lane + 32 * j, count) ? exponential(simt::fma(own[j], scale, -peak)) : -0.0f;
  simt::sync_warp();
  float total = 0;
  for (int i = lane % 16; i < kChunk; i += 16) total += p[i];
  total = sum_of_16(total);
  if (lane == 0) shared.peak[chunk][head] = peak, shared.total[chunk][head] = total;
}

/// Two elements of some heads' outputs per thread: weights times values, cell after cell. Many values are loaded before the first is used.
template <class Cells, int kHeads>
YAMATA_DEVICE void add_values(const AttentionArgs& a, const AttentionTile& tile, AttentionShared<kHeads>& shared) {
  constexpr int kOwn = kHeads > 1 ? 2 : 1, kAhead = (kHeads > 1 ? 32 : 64) / Cells::kRegisters;
  const int pairs = static_cast<int>(a.head_dim) / 2;
  const void* plane = a.cache_v[tile.kv_head];
  for (int i = static_cast<int>(simt::thread()); i < 2 * pairs * kHeads / kOwn; i += kAttentionThreads) {
    const int d = i % pairs * 2, chunk = i / pairs % 2, head = i / pairs / 2 * kOwn, count = tile.in_chunk(chunk);
    const std::uint32_t* eights = shared.eights + chunk * kChunk;
    float sums[kOwn][2] = {};
    for (int first = 0; first < count; first += kAhead) {
      typename Cells::Two values[kAhead];
      YAMATA_UNROLL for (int c = 0; c < kAhead; ++c) {
        values[c] = {};
        if (first + c < count) values[c] = Cells::two(plane, static_cast<std::int64_t>(eights[first + c]) * 8 + d);
      }
      YAMATA_UNROLL for (int c = 0; c < kAhead; c += 4) {
        float p[kOwn][4];
        for (int h = 0; h < kOwn; ++h) load_four(&shared.p[chunk][head + h][first + c], p[h]);
        for (int k = 0; k < 4; ++k) {
          for (int j = 0; j < 2; ++j) {
            const float value = Cells::at(values[c + k], j);
            for (int h = 0; h < kOwn; ++h) sums[h][j] = simt::fma(p[h][k], value, sums[h][j]);
          }
        }
      }
    }
    float* out = shared.out(a.head_dim) + (chunk * kHeads + head) * a.head_dim + d;
    for (int h = 0; h < kOwn; ++h) out[h * a.head_dim] = sums[h][0], out[h * a.head_dim + 1] = sums[h][1];
  }
}

/// Merges two partial results of a query: the factors of the earlier and the later one, and their common peak and total.
struct Merge {
  float peak, keep, take;
  YAMATA_DEVICE Merge(float old_peak, float new_peak) {
    peak = larger(new_peak, old_peak);
    keep = exponential(old_peak - peak), take = exponential(new_peak - peak);
  }
  YAMATA_DEVICE float total(float old_total, float new_total) const { return old_total * keep + new_total * take; }
  YAMATA_DEVICE float out(float old_out, float new_out) const { return simt::fma(new_out, take, old_out * keep); }
};

/// Merges the results of both chunks into that of the segment.
template <int kHeads>
YAMATA_DEVICE void write_segment(const AttentionArgs& a, const AttentionTile& tile, AttentionShared<kHeads>& shared) {
  const bool both = tile.count > kChunk;
  for (int h = 0; h < tile.heads; ++h) {
    const std::int64_t query = (tile.segment * a.rows + tile.row) * a.q_heads + tile.head + h;
    const float* out = shared.out(a.head_dim) + h * a.head_dim;
    const Merge merge(shared.peak[0][h], both ? shared.peak[1][h] : shared.peak[0][h]);
    for (std::int64_t d = simt::thread(); d < a.head_dim; d += kAttentionThreads)
      a.out[query * a.head_dim + d] = both ? merge.out(out[d], out[kHeads * a.head_dim + d]) : out[d];
    if (simt::thread() != 0) continue;
    a.peak[query] = merge.peak;
    a.total[query] = both ? merge.total(shared.total[0][h], shared.total[1][h]) : shared.total[0][h];
  }
}

/// With two thread blocks per multiprocessor, a thread has 128 registers, for the loads that it has in flight.
template <class Keys, class Values, int kHeads>
YAMATA_KERNEL void YAMATA_BOUNDS(kAttentionThreads, 2) attend_segment(const AttentionArgs a) {
  const AttentionTile tile(a, kHeads);
  if (tile.count <= 0 || tile.heads <= 0) return;
  auto& shared = *simt::shared<AttentionShared<kHeads>>();
  const int own = static_cast<int>(simt::thread()), head_dim = static_cast<int>(a.head_dim), floats = tile.heads * head_dim;
  const float* q = a.q + (tile.row * a.q_heads + tile.head) * head_dim;
  // Missing heads are computed with zeros, so that no branch comes between the loads.
  for (int i = own; i < kHeads * head_dim; i += kAttentionThreads) shared.q()[i] = simt::within(i, floats) ? q[i] : 0.0f;
  if (simt::within(own, tile.count))
    shared.eights[own] = static_cast<std::uint32_t>(tile.cells[own]) * static_cast<std::uint32_t>(head_dim / 8);
  simt::sync_block();
  score<Keys>(a, tile, shared);
  simt::sync_block();
  weigh(a, tile, shared);
  simt::sync_block();
  add_values<Values>(a, tile, shared);
  simt::sync_block();
  write_segment(a, tile, shared);
}

constexpr unsigned kMergeThreads = 128;
constexpr int kMergeAhead = 8;  // segments that are loaded before they are merged

/// One thread block per query: merges its segments in order, then the attention sink of its head, as a segment without values.
YAMATA_KERNEL void YAMATA_BOUNDS(kMergeThreads) merge_segments(const MergeArgs a) {
  const std::int64_t row = simt::block_y(), query = row * a.q_heads + a.head_begin + simt::block_x(), states = a.rows * a.q_heads;
  const int segments = static_cast<int>(divide_up(a.begins[row + 1] - a.begins[row], kSegment));
  for (std::int64_t d = simt::thread(); d < a.head_dim; d += kMergeThreads) {
    float peak = 0, total = 1, out = 0;
    for (int first = 0; first < segments; first += kMergeAhead) {
      float peaks[kMergeAhead], totals[kMergeAhead], outs[kMergeAhead];
      for (int j = 0; j < kMergeAhead; ++j) {
        const std::int64_t at = (first + j < segments ? first + j : first) * states + query;
        peaks[j] = a.peak[at], totals[j] = a.total[at], outs[j] = a.partial[at * a.head_dim + d];
      }
      for (int j = 0; j < kMergeAhead && first + j < segments; ++j) {
        if (first + j == 0) {
          peak = peaks[0], total = totals[0], out = outs[0];
        } else {
          const Merge merge(peak, peaks[j]);
          peak = merge.peak, total = merge.total(total, totals[j]), out = merge.out(out, outs[j]);
        }
      }
    }
    if (a.sinks && segments > 0) {
      const Merge merge(peak, a.sinks[query % a.q_heads]);
      total = merge.total(total, 1.0f), out = out * merge.keep;
    }
    a.out[query * a.head_dim + d] = out / total;
  }
}

template <class Keys, class Values, int kHeads>
void launch_tiles(const AttentionArgs& a, Stream stream) {
  const std::size_t bytes = sizeof(AttentionShared<kHeads>) + static_cast<std::size_t>(3 * kHeads * a.head_dim) * sizeof(float);
  const auto tiles = static_cast<unsigned>(a.rows * a.kv_heads * divide_up(a.group, kHeads));
  simt::launch(&attend_segment<Keys, Values, kHeads>, {tiles, static_cast<unsigned>(a.last - a.first)}, kAttentionThreads, bytes, stream,
               a);
}

/// Four query heads share what is read of a key/value head, if that leaves enough thread blocks for a GPU.
template <class Keys, class Values>
void launch_attention(const AttentionArgs& a, Stream stream) {
  constexpr std::int64_t kEnough = 64;
  const std::int64_t blocks = a.rows * a.kv_heads * divide_up(a.group, 4) * (a.last - a.first);
  if (a.group == 1 || blocks < kEnough) return launch_tiles<Keys, Values, 1>(a, stream);
  launch_tiles<Keys, Values, 4>(a, stream);
}

template <class Keys>
void attend_keys(const AttentionArgs& a, Stream stream) {
  if (a.v_type == TensorType::F16) return launch_attention<Keys, HalfCells>(a, stream);
  if (a.v_type == TensorType::Q8_0) return launch_attention<Keys, Q8Cells>(a, stream);
  launch_attention<Keys, FloatCells>(a, stream);
}

void attend(const AttentionArgs& a, Stream stream) {
  if (a.rows == 0 || a.head_begin >= a.head_end || a.first >= a.last) return;
  if (a.k_type == TensorType::F16) return attend_keys<HalfCells>(a, stream);
  if (a.k_type == TensorType::Q8_0) return attend_keys<Q8Cells>(a, stream);
  attend_keys<FloatCells>(a, stream);
}

void merge(const MergeArgs& a, Stream stream) {
  const simt::Grid grid{static_cast<unsigned>(a.head_end - a.head_begin), static_cast<unsigned>(a.rows)};
  if (a.rows > 0 && a.head_begin < a.head_end) simt::launch(&merge_segments, grid, kMergeThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
