// The contract of compute units (unit_contract_test.cpp): sparse attention.
#include <algorithm>
#include <numeric>

#include "tests/node/unit_contract.hpp"
#include "tests/node/unit_scene.hpp"

namespace yamata::unit_contract {
namespace {

/// Rows that see from no cell to more than a segment, and attend to at most kMost of them; with blocks of several cells, to as many whole
/// blocks, and to the cells after the last one.
struct PickScene {
  static constexpr std::int64_t kHeads = 6, kDim = 64, kCells = 700, kMost = 300;

  /// `whole`: all scores are whole numbers, and many are equal.
  PickScene(TensorType its_type, bool whole, std::size_t its_block = 1) : type(its_type), block(its_block) {
    const auto some = whole ? whole_numbers : reals;
    const std::vector<std::size_t> seen{700, 0, 513, 20, 300, 301, 699};
    rows = std::ssize(seen);
    q = some(static_cast<std::size_t>(rows * kHeads * kDim), 1), weights = some(static_cast<std::size_t>(rows * kHeads), 2);
    keys = some(static_cast<std::size_t>(kCells * kDim), 3);
    std::ranges::for_each(keys, [&](float& key) { key = whole ? key / 8 : key; });  // or halves of floats could not hold the products
    const std::size_t cell_bytes = row_bytes(type, kDim);
    plane.resize(static_cast<std::size_t>(kCells) * cell_bytes);
    for (std::int64_t cell = 0; cell < kCells; ++cell)
      cpu::kernels(cpu::Isa::kScalar).store_cell(keys.data() + cell * kDim, kDim, type, plane.data(), cell);
    cache = plane.data();
    std::size_t all = 0;
    for (const std::size_t count : seen) {
      auto& row = cells.emplace_back(static_cast<std::size_t>(kCells));
      std::iota(row.begin(), row.end(), 0);
      std::ranges::shuffle(row, std::mt19937(static_cast<unsigned>(count)));
      row.resize(count);
      auto& last = last_cells.emplace_back();
      for (std::size_t i = block; i <= count; i += block) last.push_back(row[i - 1]);
      all += attended(count);
    }
    picks.resize(all, -1);
    std::span<const std::int32_t> left(picks);
    for (std::size_t row = 0; row < cells.size(); ++row) {
      visible.emplace_back(cells[row]), ends.emplace_back(last_cells[row]);
      picked.push_back(left.first(attended(cells[row].size())));
      left = left.subspan(picked.back().size());
    }
    attention.resize(q.size());
  }
  std::size_t attended(std::size_t seen) const { return std::min(seen / block, kMost / block) * block + seen % block; }

  std::vector<Op> ops() {
    PickOp pick{q.data(), weights.data(), rows, kHeads, kDim, visible.data(), picked.data(), &cache, type};
    if (block > 1)
      pick.visible = ends.data(), pick.blocks = visible.data(), pick.block = static_cast<std::int64_t>(block), pick.same_weights = true;
    return {pick, AttentionOp{.q = q.data(),
                              .rows = rows,
                              .q_heads = kHeads,
                              .kv_heads = 1,
                              .head_dim = kDim,
                              .scale = 0.125f,
                              .visible = picked.data(),
                              .cache_k = &cache,
                              .cache_v = &cache,
                              .k_type = type,
                              .v_type = type,
                              .out = attention.data(),
                              .picked_of = visible.data()}};
  }
  double score(std::int64_t row, std::int32_t cell) const {
    const std::int64_t weights_of = block > 1 ? 0 : row * kHeads;
    double sum = 0;
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const float *query = q.data() + (row * kHeads + head) * kDim, *key = keys.data() + cell * kDim;
      const double product = std::inner_product(query, query + kDim, key, 0.0);
      sum += std::max(0.0, product) * static_cast<double>(weights[static_cast<std::size_t>(weights_of + head)]);
    }
    return sum;
  }

  TensorType type;
  std::size_t block;
  std::int64_t rows = 0;
  std::vector<float> q, weights, keys, attention;
  std::vector<std::byte> plane;
  void* cache = nullptr;
  std::vector<std::vector<std::int32_t>> cells, last_cells;  // last_cells: of whole blocks
  std::vector<std::int32_t> picks;
  std::vector<std::span<const std::int32_t>> visible, ends, picked;
};

TEST_P(UnitContract, PickedCells_areThoseOfOneThread) {
  for (const TensorType type : {TensorType::F32, TensorType::F16, TensorType::Q8_0}) {
    for (const bool whole : {false, true}) {
      for (const std::size_t block : {1u, 4u}) {
        PickScene scene(type, whole, block), expected(type, whole, block);
        run(unit(), scene.ops());
        run(reference(), expected.ops());
        EXPECT_EQ(scene.picks, expected.picks) << traits(type).name << ", blocks of " << block;
        EXPECT_EQ(scene.attention, expected.attention) << traits(type).name << ", blocks of " << block;
      }
    }
  }
}

/// Rows of one list of operations: keys are stored, then the means of blocks replace some of them.
struct PoolScene {
  static constexpr std::int64_t kDim = 96, kCells = 300;

  explicit PoolScene(TensorType its_type) : type(its_type) {
    const std::size_t cell_bytes = row_bytes(type, kDim);
    plane.resize(static_cast<std::size_t>(kCells) * cell_bytes);
    keys = reals(static_cast<std::size_t>(kCells * kDim), 3);
    for (std::int64_t cell = 0; cell < kCells; ++cell)
      cpu::kernels(cpu::Isa::kScalar).store_cell(keys.data() + cell * kDim, kDim, type, plane.data(), cell);
    cache = plane.data();
    for (std::int32_t row = 0; row < 9; ++row) members.push_back({row, 299 - row, 40 + 3 * row});
    for (const auto& of_row : members) cells.emplace_back(of_row), ends.push_back(of_row.back());
    means.resize(members.size() * static_cast<std::size_t>(kDim));
  }
  std::vector<Op> ops() {
    const auto rows = std::ssize(members);
    return {PoolOp{cells.data(), rows, kDim, &cache, type, means.data()}, StoreOp{.q = nullptr,
                                                                                  .k = means.data(),
                                                                                  .v = nullptr,
                                                                                  .rows = rows,
                                                                                  .q_heads = 0,
                                                                                  .kv_heads = 1,
                                                                                  .head_dim = kDim,
                                                                                  .rotary_dim = 0,
                                                                                  .interleaved = false,
                                                                                  .cos_sin = means.data(),
                                                                                  .cells = ends.data(),
                                                                                  .cache_k = &cache,
                                                                                  .cache_v = &cache,
                                                                                  .k_type = type,
                                                                                  .v_type = type}};
  }

  TensorType type;
  std::vector<float> keys, means;
  std::vector<std::byte> plane;
  void* cache = nullptr;
  std::vector<std::vector<std::int32_t>> members;
  std::vector<std::span<const std::int32_t>> cells;
  std::vector<std::int32_t> ends;
};

TEST_P(UnitContract, MeansOfKeys_areThoseOfOneThread) {
  for (const TensorType type : {TensorType::F32, TensorType::F16, TensorType::Q8_0}) {
    PoolScene scene(type), expected(type);
    run(unit(), scene.ops());
    run(reference(), expected.ops());
    EXPECT_EQ(scene.means, expected.means) << traits(type).name;
    EXPECT_EQ(scene.plane, expected.plane) << traits(type).name;
  }
}

TEST(MeansOfKeys, AreSumsInTheOrderOfTheCells) {
  PoolScene scene(TensorType::F32);
  run(*cpu_unit(cpu::choose_isa(), 2), std::vector<Op>{scene.ops().front()});
  for (std::size_t row = 0; row < scene.members.size(); ++row) {
    for (std::int64_t i = 0; i < PoolScene::kDim; ++i) {
      float sum = 0;
      for (const std::int32_t cell : scene.members[row]) sum += scene.keys[static_cast<std::size_t>(cell * PoolScene::kDim + i)];
      ASSERT_EQ(scene.means[row * PoolScene::kDim + static_cast<std::size_t>(i)], sum * (1.0f / 3.0f)) << row << ", " << i;
    }
  }
}

TEST(PickedCells, HaveTheHighestScores_andOfEqualOnesTheFirst) {
  const auto unit = cpu_unit(cpu::choose_isa(), 2);
  for (const TensorType type : {TensorType::F32, TensorType::F16}) {
    PickScene scene(type, true);
    run(*unit, scene.ops());
    int ties = 0;
    for (std::int64_t row = 0; row < scene.rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      std::vector<std::size_t> order(scene.cells[at].size());
      std::iota(order.begin(), order.end(), 0);
      const auto score = [&](std::size_t place) { return scene.score(row, scene.cells[at][place]); };
      std::ranges::stable_sort(order, std::ranges::greater(), score);
      const std::size_t count = scene.picked[at].size();
      ties += count < order.size() && score(order[count - 1]) == score(order[count]);
      order.resize(count);
      std::ranges::sort(order);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(scene.picked[at][i], scene.cells[at][order[i]]) << row << ", " << i;
    }
    EXPECT_GT(ties, 0);
  }
}

/// Of equal scores the first block; then the cells after the last whole one.
TEST(PickedCells, InBlocks_areThoseOfTheHighestAndTheTail) {
  const auto unit = cpu_unit(cpu::choose_isa(), 2);
  PickScene scene(TensorType::F32, true, 4);
  run(*unit, scene.ops());
  for (std::int64_t row = 0; row < scene.rows; ++row) {
    const auto at = static_cast<std::size_t>(row);
    const std::vector<std::int32_t>&cells = scene.cells[at], &last = scene.last_cells[at];
    std::vector<std::size_t> order(last.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t place) { return scene.score(row, last[place]); });
    order.resize(std::min<std::size_t>(order.size(), PickScene::kMost / 4));
    std::ranges::sort(order);
    std::vector<std::int32_t> expected;
    for (const std::size_t place : order) {
      const auto first = cells.begin() + static_cast<std::ptrdiff_t>(4 * place);
      expected.insert(expected.end(), first, first + 4);
    }
    expected.insert(expected.end(), cells.end() - static_cast<std::ptrdiff_t>(cells.size() % 4), cells.end());
    EXPECT_EQ(std::vector(scene.picked[at].begin(), scene.picked[at].end()), expected) << row;
  }
}

/// More than are scored at once.
TEST(PickedCells, OfManyRows_areThoseOfEach) {
  constexpr std::int64_t kRows = 40, kCells = 30000, kDim = 32, kMost = 5;
  ASSERT_GT(kRows * kCells, PickCells::kMostScores);
  const std::vector<float> q = reals(kRows * kDim, 1), weights = reals(kRows, 2), keys = reals(kCells * kDim, 3);
  std::vector<std::int32_t> cells(kCells), together(kRows * kMost), alone(kRows * kMost);
  std::iota(cells.begin(), cells.end(), 0);
  void* cache = const_cast<float*>(keys.data());
  const std::vector<std::span<const std::int32_t>> visible(kRows, cells);
  const auto pick = [&](std::int64_t first, std::int64_t rows, std::vector<std::int32_t>& to) {
    std::vector<std::span<const std::int32_t>> picked;
    for (std::int64_t row = first; row < first + rows; ++row)
      picked.push_back(std::span<const std::int32_t>(to).subspan(static_cast<std::size_t>(row * kMost), kMost));
    const Op op =
        PickOp{q.data() + first * kDim, weights.data() + first, rows, 1, kDim, visible.data(), picked.data(), &cache, TensorType::F32};
    run(*cpu_unit(cpu::choose_isa(), 3), std::span(&op, 1));
  };
  pick(0, kRows, together);
  for (std::int64_t row = 0; row < kRows; ++row) pick(row, 1, alone);
  EXPECT_EQ(together, alone);
}

/// Weights of a damaged file.
TEST(PickedCells, OfWhatIsNoNumber_areSome) {
  const auto unit = cpu_unit(cpu::choose_isa(), 1);
  PickScene scene(TensorType::F32, false);
  std::ranges::fill(scene.weights, std::numeric_limits<float>::quiet_NaN());
  run(*unit, std::vector<Op>{scene.ops().front()});
  EXPECT_EQ(std::ranges::count(scene.picks, -1), 0);
}

}  // namespace
}  // namespace yamata::unit_contract
