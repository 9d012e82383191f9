// Attention of a tree of 64 rows on one core, with 32 query heads of 128 values that share 32 key/value heads (MHA) or 8 (GQA), after 0,
// 256 and 2048 tokens, in F16. The tree is grown from acceptance rates like Medusa's. Four ways (Ghidorah, Fig. 10b): each row with the
// cells that it sees (as in Yamata); each row with all cells, as with a dense mask, but without the cost of the mask; and a list of pairs
// of row and cell (COO), one after another, compiled with and without vector instructions.
// Then the same attention on two cores as two units, which divide it by heads, or at a moving or a fixed boundary (Fig. 10a). Arguments:
// key/value heads, tokens before the tree.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "node/cpu/cpu_unit.hpp"
#include "node/spin_wait.hpp"
#include "node/topology.hpp"
#include "node/units/split_unit.hpp"
#include "src/speculation/tree_builder.hpp"
#include "tests/finish.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kRows = 64, kHeads = 32, kHeadDim = 128, kWidth = kHeads * kHeadDim;
constexpr float kScale = 0.088388f;

/// The right token's rank among the guesses of five heads.
const LevelAccuracies kAccuracies{{.66, .12, .05, .03, .02, .015, .01, .01},
                                  {.45, .12, .06, .04, .03, .02, .015, .01},
                                  {.33, .10, .06, .04, .03, .02, .015, .01},
                                  {.26, .09, .05, .04, .03, .02, .015, .01},
                                  {.20, .08, .05, .04, .03, .02, .015, .01}};

struct TreeScene {
  TreeScene(std::int64_t kv_count, std::int32_t context) : kv_heads(kv_count), cells(context + kRows) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (auto* planes : {&k, &v}) {
      for (std::int64_t head = 0; head < kv_heads; ++head) {
        auto& plane = planes->emplace_back(static_cast<std::size_t>(cells * kHeadDim));
        for (auto& value : plane) value = cpu::f32_to_f16(normal(random));
      }
    }
    for (auto& plane : k) cache_k.push_back(plane.data());
    for (auto& plane : v) cache_v.push_back(plane.data());
    for (float& value : q) value = normal(random);
    std::vector<std::int32_t> text(static_cast<std::size_t>(context));
    std::iota(text.begin(), text.end(), 0);
    const StaticTree tree = greedy_tree(kAccuracies, kRows);
    for (std::int32_t row = 0; row < kRows; ++row) {
      std::vector<std::int32_t> seen =
          row == 0 ? text : visible[static_cast<std::size_t>(tree.nodes[static_cast<std::size_t>(row)].parent)];
      seen.push_back(context + row);
      visible.push_back(std::move(seen));
    }
    std::vector<std::int32_t> all(static_cast<std::size_t>(cells));
    std::iota(all.begin(), all.end(), 0);
    dense.assign(kRows, all);
  }
  AttentionOp op(const std::vector<std::vector<std::int32_t>>& rows) {
    spans.assign(rows.begin(), rows.end());
    return {q.data(),     kRows,          kHeads,         kv_heads,        kHeadDim,        kScale,
            spans.data(), cache_k.data(), cache_v.data(), TensorType::F16, TensorType::F16, out.data()};
  }

  std::int64_t kv_heads, cells;
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
  TreeScene scene(state.range(0), static_cast<std::int32_t>(state.range(1)));
  const std::vector<Op> ops{scene.op(dense ? scene.dense : scene.visible)};
  for ([[maybe_unused]] auto _ : state) {
    unit().start(ops, nullptr);
    finish(unit());
  }
}

/// Fig. 10a: two cores as two units. They adapt to the cut before it is measured.
void on_two_units(benchmark::State& state, AttentionCut cut) {
  std::vector<UnitPart> parts;
  for (int i = 0; i < 2; ++i)
    parts.push_back({"cpu:" + std::to_string(i), std::make_unique<CpuUnit>(assign_cpus(Topology::detect(), 1, i, 2), cpu::choose_isa())});
  SplitUnit both(std::move(parts), cut == AttentionCut::kDynamic, kSpinsBound);
  both.divide_attention(cut);
  TreeScene scene(state.range(0), static_cast<std::int32_t>(state.range(1)));
  const std::vector<Op> ops{scene.op(scene.visible)};
  const auto run = [&] {
    both.start(ops, nullptr);
    finish(both);
  };
  for (int i = 0; i < 100; ++i) run();
  for ([[maybe_unused]] auto _ : state) run();
}

struct Pair {
  std::int32_t row, cell;
};

float dot(const float* a, const float* b) {
  float sum[8] = {};
  for (std::int64_t i = 0; i < kHeadDim; i += 8)
    for (std::int64_t lane = 0; lane < 8; ++lane) sum[lane] += a[i + lane] * b[i + lane];
  return std::accumulate(sum, sum + 8, 0.0f);
}
void add(float weight, const float* value, float* out) {
  for (std::int64_t i = 0; i < kHeadDim; ++i) out[i] += weight * value[i];
}

#if defined(__clang__)
#define YAMATA_NOT_VECTORIZED
#define YAMATA_SCALAR_LOOP _Pragma("clang loop vectorize(disable) unroll(disable)")
#else
#define YAMATA_NOT_VECTORIZED __attribute__((noinline, optimize("no-tree-vectorize")))
#define YAMATA_SCALAR_LOOP
#endif
YAMATA_NOT_VECTORIZED float scalar_dot(const float* a, const float* b) {
  float sum = 0;
  YAMATA_SCALAR_LOOP for (std::int64_t i = 0; i < kHeadDim; ++i) sum += a[i] * b[i];
  return sum;
}
YAMATA_NOT_VECTORIZED void scalar_add(float weight, const float* value, float* out) {
  YAMATA_SCALAR_LOOP for (std::int64_t i = 0; i < kHeadDim; ++i) out[i] += weight * value[i];
}

/// Attention of one head. Keys and values are floats: the build's instruction set has no conversion of half floats.
template <auto kDot, auto kAdd>
void attend_pairs(const std::vector<Pair>& pairs, const float* q, const float* k, const float* v, std::vector<float>& scores, float* out) {
  float peak[kRows], total[kRows] = {};
  std::fill_n(peak, kRows, -INFINITY);
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const auto [row, cell] = pairs[p];
    scores[p] = kScale * kDot(q + row * kWidth, k + cell * kHeadDim);
    peak[row] = std::max(peak[row], scores[p]);
  }
  for (std::int64_t row = 0; row < kRows; ++row) std::fill_n(out + row * kWidth, kHeadDim, 0.0f);
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const auto [row, cell] = pairs[p];
    const float weight = std::exp(scores[p] - peak[row]);
    total[row] += weight;
    kAdd(weight, v + cell * kHeadDim, out + row * kWidth);
  }
  for (std::int64_t row = 0; row < kRows; ++row)
    for (std::int64_t i = 0; i < kHeadDim; ++i) out[row * kWidth + i] /= total[row];
}

template <auto kDot, auto kAdd>
void list_of_pairs(benchmark::State& state) {
  TreeScene scene(state.range(0), static_cast<std::int32_t>(state.range(1)));
  std::vector<std::vector<float>> k, v;
  for (auto [from, to] : {std::pair(&scene.k, &k), std::pair(&scene.v, &v)}) {
    for (const auto& half_plane : *from) {
      auto& plane = to->emplace_back();
      for (const std::uint16_t half : half_plane) plane.push_back(cpu::f16_to_f32(half));
    }
  }
  std::vector<Pair> pairs;
  for (std::int32_t row = 0; row < kRows; ++row)
    for (const std::int32_t cell : scene.visible[static_cast<std::size_t>(row)]) pairs.push_back({row, cell});
  std::vector<float> scores(pairs.size());
  for ([[maybe_unused]] auto _ : state) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto kv = static_cast<std::size_t>(head / (kHeads / scene.kv_heads));
      attend_pairs<kDot, kAdd>(pairs, &scene.q[static_cast<std::size_t>(head * kHeadDim)], k[kv].data(), v[kv].data(), scores,
                               &scene.out[static_cast<std::size_t>(head * kHeadDim)]);
    }
    benchmark::ClobberMemory();
  }
}

void all_scenes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({{kHeads, kHeads / 4}, {0, 256, 2048}})->Unit(benchmark::kMicrosecond)->MeasureProcessCPUTime();
}

void long_scenes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({{kHeads, kHeads / 4}, {256, 512, 1024, 2048}})->Unit(benchmark::kMicrosecond)->UseRealTime();
}

BENCHMARK_CAPTURE(on_two_units, heads, AttentionCut::kHeads)->Apply(long_scenes);
BENCHMARK_CAPTURE(on_two_units, dynamic, AttentionCut::kDynamic)->Apply(long_scenes);
BENCHMARK_CAPTURE(on_two_units, static, AttentionCut::kStatic)->Apply(long_scenes);
BENCHMARK_CAPTURE(in_chunks, visible_cells, false)->Apply(all_scenes);
BENCHMARK_CAPTURE(in_chunks, dense_mask, true)->Apply(all_scenes);
BENCHMARK(list_of_pairs<scalar_dot, scalar_add>)->Name("list_of_pairs/scalar")->Apply(all_scenes);
BENCHMARK(list_of_pairs<dot, add>)->Name("list_of_pairs/vectorized")->Apply(all_scenes);

}  // namespace
}  // namespace yamata

BENCHMARK_MAIN();
