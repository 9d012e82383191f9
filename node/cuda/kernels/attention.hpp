#pragma once
// Attention over segments of 256 visible cells, and merging of their results (docs/kernels.md).
//
// A block of 256 threads computes a segment of a row for up to four query heads of one key/value head. Each thread first multiplies the key
// of one cell, then sums one element of the values. Each half of the threads has a chunk of 128 cells; at the end, both chunks are merged.
#include "node/cuda/device_kernels.hpp"
#include "node/cuda/kernels/cells.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kAttentionThreads = 256;
constexpr int kChunk = 128, kSegment = 2 * kChunk, kTileHeads = 4;

/// The work of a thread block.
struct AttentionTile {
  std::int64_t row, kv_head, segment, count;  // count: the row's cells in the segment
  std::int64_t head;                          // the first query head of this tile
  int heads;
  const std::int32_t* cells;

  YAMATA_DEVICE explicit AttentionTile(const AttentionArgs& a) {
    const std::int64_t tiles = divide_up(a.group, kTileHeads), i = simt::block_x();
    row = i / (a.kv_heads * tiles), kv_head = i / tiles % a.kv_heads, segment = simt::block_y();
    const std::int64_t first = (a.first + segment) * kSegment, seen = a.begins[row + 1] - a.begins[row];
    count = seen - first < kSegment ? seen - first : kSegment;
    cells = a.cells + a.begins[row] + first;
    // Other units may compute the first or the last of the query heads that share the key/value head.
    const std::int64_t group_begin = kv_head * a.group - a.before, begin = group_begin + i % tiles * kTileHeads;
    std::int64_t end = begin + kTileHeads < group_begin + a.group ? begin + kTileHeads : group_begin + a.group;
    end = end < a.head_end ? end : a.head_end;
    head = begin > a.head_begin ? begin : a.head_begin;
    heads = static_cast<int>(end - head);
  }
  /// Number of cells of a chunk.
  YAMATA_DEVICE std::int64_t in_chunk(int chunk) const {
    const std::int64_t left = count - chunk * kChunk;
    return left < kChunk ? left : kChunk;
  }
};

/// Shared memory. It is followed by q[head][d] and out[chunk][head][d].
struct AttentionShared {
  float p[2][kTileHeads][kChunk];  // products, then weights
  float peak[2][kTileHeads], total[2][kTileHeads];

  YAMATA_DEVICE float* q() { return reinterpret_cast<float*>(this + 1); }
  YAMATA_DEVICE float* out(std::int64_t head_dim) { return q() + kTileHeads * head_dim; }
};

/// One cell per thread: its key times every query; each product in 8 lanes.
template <class Cells>
YAMATA_DEVICE void score(const AttentionArgs& a, const AttentionTile& tile, AttentionShared& shared) {
  const unsigned place = simt::thread();
  if (!simt::within(place, tile.count)) return;
  const void* plane = a.cache_k[tile.kv_head];
  const float* q = shared.q();
  float sums[kTileHeads][8] = {};
  for (std::int64_t d = 0; d < a.head_dim; d += 8) {
    float key[8];
    eight_of<Cells>(plane, tile.cells[place] * a.head_dim + d, key);
    for (int h = 0; h < kTileHeads; ++h) {
      if (h >= tile.heads) break;
      for (int j = 0; j < 8; ++j) sums[h][j] = simt::fma(q[h * a.head_dim + d + j], key[j], sums[h][j]);
    }
  }
  for (int h = 0; h < kTileHeads; ++h) {
    if (h >= tile.heads) break;
    const auto& s = sums[h];
    const float product = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    shared.p[place / kChunk][h][place % kChunk] = a.softcap > 0 ? soft_cap(product * a.scale, a.softcap) : product;
  }
}

/// One warp per chunk and head: weights = exp(scale * p - peak), and their sum in 16 lanes. With a soft-cap, p is already scaled.
YAMATA_DEVICE void weigh(const AttentionArgs& a, const AttentionTile& tile, AttentionShared& shared) {
  const int chunk = static_cast<int>(simt::warp()) / kTileHeads, head = static_cast<int>(simt::warp()) % kTileHeads;
  const std::int64_t count = tile.in_chunk(chunk);
  if (head >= tile.heads || count <= 0) return;
  float* p = shared.p[chunk][head];
  const float scale = a.softcap > 0 ? 1.0f : a.scale;
  float highest = p[0];
  for (unsigned i = simt::lane(); i < kChunk; i += simt::kWarp) {
    if (simt::within(i, count)) highest = larger(highest, p[i]);
  }
  const float peak = scale * largest_of_warp(highest);
  for (unsigned i = simt::lane(); i < kChunk; i += simt::kWarp) p[i] = exponential(simt::fma(p[i], scale, -peak));
  simt::sync_warp();
  float total = 0;
  for (unsigned i = simt::lane() % 16; i < kChunk; i += 16) {
    if (simt::within(i, count)) total += p[i];
  }
  total = sum_of_16(total);
  if (simt::lane() == 0) shared.peak[chunk][head] = peak, shared.total[chunk][head] = total;
}

/// One element of every head's output per thread: weights times values, cell after cell.
template <class Cells>
YAMATA_DEVICE void add_values(const AttentionArgs& a, const AttentionTile& tile, AttentionShared& shared) {
  const int chunk = static_cast<int>(simt::thread()) / kChunk;
  const std::int64_t count = tile.in_chunk(chunk);
  const std::int32_t* cells = tile.cells + chunk * kChunk;
  const void* plane = a.cache_v[tile.kv_head];
  float* out = shared.out(a.head_dim) + chunk * kTileHeads * a.head_dim;
  for (std::int64_t d = simt::thread() % kChunk; d < a.head_dim; d += kChunk) {
    float sums[kTileHeads] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = Cells::at(plane, cells[i] * a.head_dim + d);
      for (int h = 0; h < kTileHeads; ++h) {
        if (h < tile.heads) sums[h] = simt::fma(shared.p[chunk][h][i], value, sums[h]);
      }
    }
    for (int h = 0; h < kTileHeads; ++h) out[h * a.head_dim + d] = sums[h];
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
YAMATA_DEVICE void write_segment(const AttentionArgs& a, const AttentionTile& tile, AttentionShared& shared) {
  const std::int64_t first = (tile.segment * a.rows + tile.row) * a.q_heads + tile.head;
  const float* out = shared.out(a.head_dim);
  const std::int64_t floats = tile.heads * a.head_dim;
  for (std::int64_t i = simt::thread(); i < floats; i += kAttentionThreads) {
    const std::int64_t h = i / a.head_dim;
    const Merge merge(shared.peak[0][h], tile.count > kChunk ? shared.peak[1][h] : shared.peak[0][h]);
    const bool both = tile.count > kChunk;
    a.out[first * a.head_dim + i] = both ? merge.out(out[i], out[kTileHeads * a.head_dim + i]) : out[i];
    if (i % a.head_dim != 0) continue;
    a.peak[first + h] = merge.peak;
    a.total[first + h] = both ? merge.total(shared.total[0][h], shared.total[1][h]) : shared.total[0][h];
  }
}

/// With three thread blocks per multiprocessor, a thread has 80 registers. By default, nvcc takes 64 and spills one or two.
template <class Keys, class Values>
YAMATA_KERNEL void YAMATA_BOUNDS(kAttentionThreads, 3) attend_segment(const AttentionArgs a) {
  const AttentionTile tile(a);
  if (tile.count <= 0 || tile.heads <= 0) return;
  AttentionShared& shared = *simt::shared<AttentionShared>();
  const float* q = a.q + (tile.row * a.q_heads + tile.head) * a.head_dim;
  for (std::int64_t i = simt::thread(); i < tile.heads * a.head_dim; i += kAttentionThreads) shared.q()[i] = q[i];
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

template <class Keys, class Values>
void launch_attention(const AttentionArgs& a, Stream stream) {
  const std::size_t bytes = sizeof(AttentionShared) + static_cast<std::size_t>(3 * kTileHeads * a.head_dim) * sizeof(float);
  const auto tiles = static_cast<unsigned>(a.rows * a.kv_heads * divide_up(a.group, kTileHeads));
  simt::launch(&attend_segment<Keys, Values>, {tiles, static_cast<unsigned>(a.last - a.first)}, kAttentionThreads, bytes, stream, a);
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
