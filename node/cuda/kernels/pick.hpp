#pragma once
// The choice of cells in sparse attention: scores as of the CPU's index_scores (node/cpu/kernels/index_template.hpp), then the highest
// ones, of equal ones the first, in the order of the list.
#include "node/cuda/kernels/cells.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kScoreThreads = 128, kPickThreads = 512, kPickWarps = kPickThreads / simt::kWarp, kPoolThreads = 64;

/// Products of a key, from element i of its plane on, with kHeads queries; each in 8 lanes.
template <class Cells, int kHeads>
YAMATA_DEVICE void index_products(const void* plane, std::int64_t i, const float* q, std::int64_t dim, float (&products)[kHeads]) {
  float sums[kHeads][8] = {};
  for (std::int64_t d = 0; d < dim; d += 8) {
    const typename Cells::Eight key = Cells::eight(plane, i + d);
    for (int h = 0; h < kHeads; ++h) {
      for (int j = 0; j < 8; ++j) sums[h][j] = simt::fma(q[h * dim + d + j], Cells::at(key, j), sums[h][j]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    const auto& s = sums[h];
    products[h] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  }
}

/// One cell per thread.
template <class Cells>
YAMATA_KERNEL void YAMATA_BOUNDS(kScoreThreads) score_cells(const IndexScoreArgs a) {
  constexpr int kAtOnce = 4;
  const std::int64_t row = simt::block_y(), place = static_cast<std::int64_t>(simt::block_x()) * kScoreThreads + simt::thread();
  if (!simt::within(place, a.begins[row + 1] - a.begins[row])) return;
  const std::int64_t first = a.cells[a.begins[row] + place] * a.dim;
  const float *q = a.q + row * a.heads * a.dim, *weights = a.weights + row * a.weight_row;
  float sum = 0;
  std::int64_t head = 0;
  for (; head + kAtOnce <= a.heads; head += kAtOnce) {
    float products[kAtOnce];
    index_products<Cells>(a.cache, first, q + head * a.dim, a.dim, products);
    for (int h = 0; h < kAtOnce; ++h) sum = simt::fma(weights[head + h], larger(products[h], 0.0f), sum);
  }
  for (; head < a.heads; ++head) {
    float product[1];
    index_products<Cells>(a.cache, first, q + head * a.dim, a.dim, product);
    sum = simt::fma(weights[head], larger(product[0], 0.0f), sum);
  }
  a.scores[row * a.stride + place] = sum;
}

/// A whole number that is greater for a greater score. Both zeros are equal; what is no number has a place, too.
YAMATA_DEVICE std::uint32_t in_order(float score) {
  const std::uint32_t bits = simt::bits_of(score + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/// Shared memory of a block that picks: a number of each warp.
struct PickShared {
  int of_warps[kPickWarps];
};

/// The sum of a number of each thread, and of those in threads before this one. All threads of the block call it.
struct Placed {
  int before, all;

  YAMATA_DEVICE Placed(int own, PickShared& shared) {
    const unsigned lane = simt::lane();
    int up_to = own;  // of the warp, up to this lane
    for (unsigned distance = 1; distance < simt::kWarp; distance *= 2) {
      const int other = simt::shuffle(up_to, lane - distance);
      if (lane >= distance) up_to += other;
    }
    simt::sync_block();  // all have read the numbers of the call before
    if (lane == simt::kWarp - 1) shared.of_warps[simt::warp()] = up_to;
    simt::sync_block();
    before = up_to - own, all = 0;
    for (unsigned warp = 0; warp < kPickWarps; ++warp) {
      if (warp < simt::warp()) before += shared.of_warps[warp];
      all += shared.of_warps[warp];
    }
  }
};

/// The count-th highest of `seen` scores, in order: found bit by bit.
YAMATA_DEVICE std::uint32_t least_picked(const float* scores, int seen, int count, PickShared& shared) {
  std::uint32_t least = 0;
  for (std::uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    int reach = 0;
    for (int i = static_cast<int>(simt::thread()); i < seen; i += kPickThreads) reach += in_order(scores[i]) >= (least | bit) ? 1 : 0;
    if (Placed(reach, shared).all >= count) least |= bit;
  }
  return least;
}

/// One block per row. Each thread places the picked ones of consecutive cells.
YAMATA_KERNEL void YAMATA_BOUNDS(kPickThreads) pick_of_rows(const PickArgs a) {
  auto& shared = *simt::shared<PickShared>();
  const std::int64_t row = simt::block_x();
  const int seen = static_cast<int>(a.begins[row + 1] - a.begins[row]), block = static_cast<int>(a.block),
            tail = static_cast<int>(a.all_begins[row + 1] - a.all_begins[row]) - seen * block,
            count = (static_cast<int>(a.to_begins[row + 1] - a.to_begins[row]) - tail) / block;
  const float* scores = a.scores + row * a.stride;
  const std::uint32_t least = least_picked(scores, seen, count, shared);
  const int each = static_cast<int>(divide_up(seen, kPickThreads)), first = static_cast<int>(simt::thread()) * each,
            begin = first < seen ? first : seen, end = begin + each < seen ? begin + each : seen;
  int above = 0, equal = 0;
  for (int i = begin; i < end; ++i) {
    const std::uint32_t key = in_order(scores[i]);
    above += key > least ? 1 : 0, equal += key == least ? 1 : 0;
  }
  const Placed higher(above, shared), same(equal, shared);
  const int equal_picked = count - higher.all;
  int taken = same.before;
  std::int32_t* to = a.to + a.to_begins[row] + (higher.before + (taken < equal_picked ? taken : equal_picked)) * block;
  const std::int32_t* cells = a.cells + a.all_begins[row];
  for (int i = begin; i < end; ++i) {
    const std::uint32_t key = in_order(scores[i]);
    if (key < least || (key == least && taken++ >= equal_picked)) continue;
    for (int j = 0; j < block; ++j) *to++ = cells[i * block + j];
  }
  for (int i = static_cast<int>(simt::thread()); i < tail; i += kPickThreads)
    a.to[a.to_begins[row] + count * block + i] = cells[seen * block + i];
}

/// One block per row, several elements of 8 per thread.
template <class Cells>
YAMATA_KERNEL void YAMATA_BOUNDS(kPoolThreads) pool_of_rows(const PoolArgs a) {
  const std::int64_t row = simt::block_x(), begin = a.begins[row], end = a.begins[row + 1];
  const float part = 1.0f / static_cast<float>(end - begin);
  for (std::int64_t d = 8 * static_cast<std::int64_t>(simt::thread()); d < a.dim; d += 8 * kPoolThreads) {
    float sums[8] = {};
    for (std::int64_t i = begin; i < end; ++i) {
      const typename Cells::Eight key = Cells::eight(a.cache, a.cells[i] * a.dim + d);
      for (int j = 0; j < 8; ++j) sums[j] += Cells::at(key, j);
    }
    for (int j = 0; j < 8; ++j) a.out[row * a.dim + d + j] = sums[j] * part;
  }
}

void index_scores(const IndexScoreArgs& a, Stream stream) {
  const simt::Grid grid{static_cast<unsigned>(divide_up(a.most, kScoreThreads)), static_cast<unsigned>(a.rows)};
  if (a.rows == 0 || a.most == 0) return;
  if (a.type == TensorType::F16) return simt::launch(&score_cells<HalfCells>, grid, kScoreThreads, 0, stream, a);
  if (a.type == TensorType::Q8_0) return simt::launch(&score_cells<Q8Cells>, grid, kScoreThreads, 0, stream, a);
  simt::launch(&score_cells<FloatCells>, grid, kScoreThreads, 0, stream, a);
}

void pick(const PickArgs& a, Stream stream) {
  if (a.rows > 0) simt::launch(&pick_of_rows, {static_cast<unsigned>(a.rows), 1}, kPickThreads, sizeof(PickShared), stream, a);
}

void pool(const PoolArgs& a, Stream stream) {
  const simt::Grid grid{static_cast<unsigned>(a.rows), 1};
  if (a.rows == 0) return;
  if (a.type == TensorType::F16) return simt::launch(&pool_of_rows<HalfCells>, grid, kPoolThreads, 0, stream, a);
  if (a.type == TensorType::Q8_0) return simt::launch(&pool_of_rows<Q8Cells>, grid, kPoolThreads, 0, stream, a);
  simt::launch(&pool_of_rows<FloatCells>, grid, kPoolThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
