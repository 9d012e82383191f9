#pragma once
// Scores of cells for sparse attention. Uses the vector layer that was included before this.
#include "node/cpu/kernels/attention_template.hpp"

namespace yamata::cpu {
namespace {

/// sums += weight * max(0, query . key) for a tile's keys. The products of a query and kKeysAtOnce keys are computed at once.
inline void add_head(const float* q, float weight, const float* tile, std::int64_t count, std::int64_t dim, float* products, float* sums) {
  for (std::int64_t i = 0; i < count; i += kKeysAtOnce) {
    if (count - i <= 8)
      score<0, 8>(q, tile + i * dim, dim, products + i);
    else
      score<0, kKeysAtOnce>(q, tile + i * dim, dim, products + i);
  }
  for (std::int64_t i = 0; i < count; i += 16) store(sums + i, fma(set1(weight), max(load(products + i), set1(0.0f)), load(sums + i)));
}

void index_scores(const IndexArgs& a) {
  constexpr std::int64_t kMost = tile_cells(64);
  CellTile<Plane::kKeys> keys(a.k, a.type, a.dim);
  const std::int64_t step = tile_cells(a.dim);
  const auto span = [&](std::int64_t begin) {
    const std::int64_t first = begin < a.count ? begin : a.count, left = a.count - first;
    return CellSpan{a.cells + first, left < step ? left : step};
  };
  for (std::int64_t begin = 0; begin < a.count; begin += step) {
    alignas(64) float products[kMost] = {}, sums[kMost] = {};
    const CellSpan cells = span(begin);
    const float* tile = keys.widened(cells, span(begin + step));
    for (std::int64_t head = 0; head < a.heads; ++head) {
      keys.fetch((step + a.heads - 1) / a.heads);
      add_head(a.q + head * a.dim, a.weights[head], tile, cells.count, a.dim, products, sums);
    }
    for (std::int64_t i = 0; i < cells.count; ++i) a.scores[begin + i] = sums[i];
  }
}

}  // namespace
}  // namespace yamata::cpu
