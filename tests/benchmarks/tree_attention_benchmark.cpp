// Attention of a tree of guesses on one core, in three ways: each row with the cells that it sees, in chunks (as in Yamata); each row with
// all cells, as with a dense mask, but without the cost of the mask; and a list of pairs of row and cell, one after another (COO without
// order). 32 query heads of 128 values, 8 key/value heads; a random tree of 64 rows after 256 and 2048 tokens, in F16.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "node/cpu/cpu_unit.hpp"
#include "node/topology.hpp"
#include "tests/finish.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kRows = 64, kHeads = 32, kKvHeads = 8, kHeadDim = 128, kWidth = kHeads * kHeadDim;
constexpr float kScale = 0.088388f;

struct TreeScene {
  explicit TreeScene(std::int32_t context) : cells(context + kRows) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (auto* planes : {&k, &v}) {
      for (std::int64_t head = 0; head < kKvHeads; ++head) {
        auto& plane = planes->emplace_back(static_cast<std::size_t>(cells * kHeadDim));
        for (auto& value : plane) value = cpu::f32_to_f16(normal(random));
      }
    }
    for (std::size_t head = 0; head < kKvHeads; ++head) cache_k.push_back(k[head].data()), cache_v.push_back(v[head].data());
    for (float& value : q) value = normal(random);
    std::vector<std::int32_t> text(static_cast<std::size_t>(context));
    std::iota(text.begin(), text.end(), 0);
    for (std::int32_t row = 0; row < kRows; ++row) {
      const int parent = row == 0 ? -1 : std::uniform_int_distribution(std::max(0, row - 12), row - 1)(random);
      std::vector<std::int32_t> seen = parent < 0 ? text : visible[static_cast<std::size_t>(parent)];
      seen.push_back(context + row);
      visible.push_back(std::move(seen));
    }
    std::vector<std::int32_t> all(static_cast<std::size_t>(cells));
    std::iota(all.begin(), all.end(), 0);
    dense.assign(kRows, all);
  }
  AttentionOp op(const std::vector<std::vector<std::int32_t>>& rows) {
    spans.assign(rows.begin(), rows.end());
    return {q.data(),     kRows,          kHeads,         kKvHeads,        kHeadDim,        kScale,
            spans.data(), cache_k.data(), cache_v.data(), TensorType::F16, TensorType::F16, out.data()};
  }

  std::int64_t cells;
  std::vector<std::vector<std::uint16_t>> k, v;
  std::vector<void*> cache_k, cache_v;
  std::vector<std::vector<std::int32_t>> visible, dense;
  std::vector<std::span<const std::int32_t>> spans;
  std::vector<float> q = std::vector<float>(kRows * kWidth), out = q;
};

CpuUnit& unit() {
  static CpuUnit one(assign_cpus(Topology::detect(), 1, 0, 1), cpu::choose_isa());
  return one;
}

void in_chunks(benchmark::State& state, bool dense) {
  TreeScene scene(static_cast<std::int32_t>(state.range(0)));
  const std::vector<Op> ops{scene.op(dense ? scene.dense : scene.visible)};
  for ([[maybe_unused]] auto _ : state) {
    unit().start(ops, nullptr);
    finish(unit());
  }
}

/// Keys and values are floats here: the build's instruction set has no conversion of half floats.
void list_of_pairs(benchmark::State& state) {
  TreeScene scene(static_cast<std::int32_t>(state.range(0)));
  std::vector<std::vector<float>> k, v;
  for (std::size_t head = 0; head < kKvHeads; ++head) {
    for (auto [from, to] : {std::pair(&scene.k, &k), std::pair(&scene.v, &v)}) {
      auto& plane = to->emplace_back();
      for (const std::uint16_t half : (*from)[head]) plane.push_back(cpu::f16_to_f32(half));
    }
  }
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (std::int32_t row = 0; row < kRows; ++row)
    for (const std::int32_t cell : scene.visible[static_cast<std::size_t>(row)]) pairs.emplace_back(row, cell);
  std::vector<float> scores(pairs.size());
  for ([[maybe_unused]] auto _ : state) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto kv = static_cast<std::size_t>(head / (kHeads / kKvHeads));
      float peak[kRows], total[kRows] = {};
      std::fill_n(peak, kRows, -INFINITY);
      for (std::size_t p = 0; p < pairs.size(); ++p) {
        const float *query = &scene.q[static_cast<std::size_t>(pairs[p].first * kWidth + head * kHeadDim)],
                    *key = &k[kv][static_cast<std::size_t>(pairs[p].second * kHeadDim)];
        float sum[8] = {};
        for (std::int64_t i = 0; i < kHeadDim; i += 8)
          for (std::int64_t lane = 0; lane < 8; ++lane) sum[lane] += query[i + lane] * key[i + lane];
        scores[p] = kScale * std::accumulate(sum, sum + 8, 0.0f);
        peak[pairs[p].first] = std::max(peak[pairs[p].first], scores[p]);
      }
      for (std::int64_t row = 0; row < kRows; ++row)
        std::fill_n(&scene.out[static_cast<std::size_t>(row * kWidth + head * kHeadDim)], kHeadDim, 0.0f);
      for (std::size_t p = 0; p < pairs.size(); ++p) {
        const float weight = std::exp(scores[p] - peak[pairs[p].first]),
                    *value = &v[kv][static_cast<std::size_t>(pairs[p].second * kHeadDim)];
        float* out = &scene.out[static_cast<std::size_t>(pairs[p].first * kWidth + head * kHeadDim)];
        total[pairs[p].first] += weight;
        for (std::int64_t i = 0; i < kHeadDim; ++i) out[i] += weight * value[i];
      }
      for (std::int64_t row = 0; row < kRows; ++row)
        for (std::int64_t i = 0; i < kHeadDim; ++i) scene.out[static_cast<std::size_t>(row * kWidth + head * kHeadDim + i)] /= total[row];
    }
    benchmark::ClobberMemory();
  }
}

BENCHMARK_CAPTURE(in_chunks, visible_cells, false)->Arg(256)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(in_chunks, dense_mask, true)->Arg(256)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(list_of_pairs)->Arg(256)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace yamata

BENCHMARK_MAIN();
