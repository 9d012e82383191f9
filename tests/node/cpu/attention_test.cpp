// Attention divided among threads: the same bits as each row alone on one thread, and no idle thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "node/cpu/attention_plan.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "tests/finish.hpp"

namespace yamata {
namespace {

struct Shape {
  std::int64_t kv_heads, group, head_dim;
};

/// Planes of cells in F16, and rows of queries with the cells that each sees.
struct CpuAttentionScene {
  CpuAttentionScene(Shape s, std::int32_t cells, std::vector<std::vector<std::int32_t>> rows) : shape(s), visible(std::move(rows)) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (auto* planes : {&k, &v}) {
      for (std::int64_t head = 0; head < s.kv_heads; ++head) {
        auto& plane = planes->emplace_back();
        for (std::int64_t i = 0; i < cells * s.head_dim; ++i) plane.push_back(cpu::f32_to_f16(normal(random)));
      }
    }
    for (std::size_t head = 0; head < k.size(); ++head) cache_k.push_back(k[head].data()), cache_v.push_back(v[head].data());
    q.resize(visible.size() * width());
    for (float& x : q) x = normal(random);
    for (const auto& row : visible) spans.emplace_back(row);
    out.assign(q.size(), 9.0f);
  }
  std::size_t width() const { return static_cast<std::size_t>(shape.kv_heads * shape.group * shape.head_dim); }
  AttentionOp op(std::size_t first, std::size_t count) {
    const std::size_t at = first * width();
    return {q.data() + at,
            static_cast<std::int64_t>(count),
            shape.kv_heads * shape.group,
            shape.kv_heads,
            shape.head_dim,
            0.25f,
            spans.data() + first,
            cache_k.data(),
            cache_v.data(),
            TensorType::F16,
            TensorType::F16,
            out.data() + at};
  }
  std::vector<float> run(CpuUnit& unit, std::span<const Op> ops) {
    std::fill(out.begin(), out.end(), 9.0f);
    unit.start(ops, nullptr);
    finish(unit);
    return out;
  }

  Shape shape;
  std::vector<std::vector<std::int32_t>> visible;
  std::vector<std::vector<std::uint16_t>> k, v;
  std::vector<void*> cache_k, cache_v;
  std::vector<float> q, out;
  std::vector<std::span<const std::int32_t>> spans;
};

/// A tree after a text of `context` non-adjacent cells: each row sees the text, some earlier rows, and itself.
std::vector<std::vector<std::int32_t>> tree(std::int32_t context, std::int32_t rows) {
  std::vector<std::vector<std::int32_t>> visible;
  for (std::int32_t row = 0; row < rows; ++row) {
    std::vector<std::int32_t> cells;
    if (row % 3 == 1) {
      cells = visible.back();
    } else {
      for (std::int32_t i = 0; i < context; ++i) cells.push_back((i * 7) % context);
    }
    cells.push_back(context + row);
    visible.push_back(std::move(cells));
  }
  return visible;
}

class AttentionOf : public testing::TestWithParam<int> {
 protected:
  CpuUnit team_{std::vector<int>(static_cast<std::size_t>(GetParam()), -1), cpu::choose_isa()};
  CpuUnit alone_{{-1}, cpu::choose_isa()};
};

TEST_P(AttentionOf, ManyRowsOverManyThreads_giveTheBitsOfOneRowOnOneThread) {
  for (const Shape shape : {Shape{1, 1, 16}, {4, 8, 64}, {3, 3, 32}, {1, 40, 16}, {2, 1, 80}}) {
    for (const std::int32_t context : {1, 127, 255, 300, 511, 1001}) {
      CpuAttentionScene scene(shape, context + 20, tree(context, 20));
      std::vector<Op> singly;
      for (std::size_t row = 0; row < 20; ++row) singly.push_back(scene.op(row, 1));
      const std::vector<float> expected = scene.run(alone_, singly);
      for (const std::size_t rows : {1u, 2u, 20u}) {
        std::vector<Op> together;
        for (std::size_t row = 0; row < 20; row += rows) together.push_back(scene.op(row, rows));
        EXPECT_EQ(scene.run(team_, together), expected)
            << shape.kv_heads << "x" << shape.group << " context " << context << " rows " << rows;
      }
      EXPECT_TRUE(std::all_of(expected.begin(), expected.end(), [](float x) { return std::isfinite(x) && x != 9.0f; }));
    }
  }
}

TEST_P(AttentionOf, LongWholeItemsBesideSplitAndShortOnes_giveTheBitsOfOneRow) {
  CpuAttentionScene scene({16, 1, 16}, 1020, tree(1000, 20));
  std::vector<Op> singly, mixed{scene.op(0, 18), scene.op(18, 1), scene.op(19, 1)};
  for (std::size_t row = 0; row < 20; ++row) singly.push_back(scene.op(row, 1));
  const std::vector<float> expected = scene.run(alone_, singly);
  EXPECT_EQ(scene.run(team_, mixed), expected);
}

TEST_P(AttentionOf, RowsThatSeeNothing_areZeros) {
  CpuAttentionScene scene({2, 3, 16}, 300, {{}, {5}, {}});
  scene.visible[1].resize(300, 7);
  scene.spans[1] = scene.visible[1];
  const std::vector<float> out = scene.run(team_, std::vector<Op>{scene.op(0, 3)});
  const auto width = static_cast<std::ptrdiff_t>(scene.width());
  EXPECT_EQ(std::count(out.begin(), out.begin() + width, 0.0f), width);
  EXPECT_EQ(std::count(out.end() - width, out.end(), 0.0f), width);
  EXPECT_EQ(std::count(out.begin() + width, out.end() - width, 0.0f), 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, AttentionOf, testing::Values(1, 2, 3, 4, 5, 6, 7, 8));

constexpr std::int64_t kSegment = AttentionPlan::kSegment;

/// The number of products of queries and cells of each thread.
std::vector<std::int64_t> loads(const AttentionPlan& plan, const AttentionOp& op, int threads) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) {
    for (std::int64_t piece = plan.begin(thread); piece < plan.begin(thread + 1); ++piece) {
      const AttentionPlan::Item& item = plan.item_of(piece);
      const std::int64_t first = plan.split() ? piece - item.first_piece : 0, segments = plan.split() ? 1 : item.segments;
      for (const std::int32_t row : item.rows) {
        const auto cells = static_cast<std::int64_t>(op.visible[row].size());
        loads[static_cast<std::size_t>(thread)] +=
            item.heads() * std::clamp<std::int64_t>(cells - first * kSegment, 0, segments * kSegment);
      }
    }
  }
  return loads;
}

/// Rows that see `context` cells each; the cells are never read.
struct Planned {
  Planned(Shape s, std::size_t context, std::size_t rows, int threads) : cells(context), visible(rows, cells) {
    op.rows = static_cast<std::int64_t>(rows);
    op.q_heads = s.kv_heads * s.group, op.kv_heads = s.kv_heads, op.head_dim = s.head_dim;
    op.visible = visible.data();
    plan.make(op, threads);
    shares = loads(plan, op, threads);
  }
  std::vector<std::int32_t> cells;
  std::vector<std::span<const std::int32_t>> visible;
  AttentionOp op{};
  AttentionPlan plan;
  std::vector<std::int64_t> shares;
};

TEST(AttentionPlan, OneToken_keepsEveryThreadBusyAlike) {
  for (const int threads : {1, 2, 3, 8, 16, 64}) {
    for (const Shape shape : {Shape{4, 8, 64}, {8, 4, 128}, {1, 8, 64}, {9, 1, 64}}) {
      const Planned p(shape, 8192, 1, threads);
      const std::int64_t all = 8192 * shape.kv_heads * shape.group, unit = kSegment * p.plan.items()[0].heads();
      std::int64_t sum = 0;
      for (const std::int64_t share : p.shares) {
        EXPECT_NEAR(static_cast<double>(share), static_cast<double>(all) / threads, static_cast<double>(unit)) << threads;
        sum += share;
      }
      EXPECT_EQ(sum, all);
    }
  }
}

TEST(AttentionPlan, HeadsOfAShortContext_areCutWhereThreadsWouldIdle) {
  const Planned p({4, 8, 64}, 100, 1, 16);
  EXPECT_GT(*std::min_element(p.shares.begin(), p.shares.end()), 0);
  EXPECT_FALSE(p.plan.split());
}

TEST(AttentionPlan, ItemsAreSplit_onlyWhereTheyAreFew) {
  EXPECT_TRUE(Planned({4, 8, 64}, 8192, 1, 2).plan.split());
  EXPECT_TRUE(Planned({3, 3, 64}, 8192, 1, 2).plan.split());
  EXPECT_TRUE(Planned({4, 8, 64}, 8192, 1, 8).plan.split());
  EXPECT_FALSE(Planned({4, 8, 64}, 8192, 16, 1).plan.split());
  EXPECT_FALSE(Planned({4, 8, 64}, 256, 1, 2).plan.split());
  EXPECT_FALSE(Planned({32, 1, 64}, 8192, 1, 2).plan.split());
  EXPECT_FALSE(Planned({4, 8, 64}, 600, 1, 2).plan.split());
  EXPECT_TRUE(Planned({3, 8, 64}, 600, 1, 2).plan.split());
}

TEST(AttentionPlan, RowsOfARun_shareOnePassAsFarAsThreadsStayBusy) {
  EXPECT_EQ(Planned({4, 8, 64}, 2000, 16, 2).plan.items().size(), 4u);
  EXPECT_EQ(Planned({4, 8, 64}, 2000, 64, 2).plan.items().size(), 16u);
}

TEST(AttentionPlan, RowsOfATree_areOrderedByWhatTheySee) {
  const std::vector<std::vector<std::int32_t>> seen{{7, 9}, {7, 9, 1}, {7, 9, 2}, {7, 9, 1, 3}, {7, 9, 2, 4}};
  const std::vector<std::span<const std::int32_t>> visible(seen.begin(), seen.end());
  AttentionOp op{};
  op.rows = 5, op.q_heads = 1, op.kv_heads = 1, op.head_dim = 64, op.visible = visible.data();
  AttentionPlan plan;
  plan.make(op, 1);
  ASSERT_EQ(plan.items().size(), 1u);
  const auto rows = plan.items()[0].rows;
  EXPECT_EQ(std::vector(rows.begin(), rows.end()), (std::vector<std::int32_t>{0, 1, 3, 2, 4}));
}

/// Their memory may have any cells until they are picked.
TEST(AttentionPlan, RowsThatPick_areOrderedByWhatTheySee) {
  const std::vector<std::vector<std::int32_t>> seen{{7, 9, 2, 4}, {7, 9, 1}, {7, 9, 1, 3}, {7, 9, 2}};
  const std::vector<std::span<const std::int32_t>> visible(seen.begin(), seen.end());
  const std::vector<std::int32_t> unknown{8, 6, 4, 2, 7, 5, 3, 1};
  std::vector<std::span<const std::int32_t>> picked;
  for (std::size_t row = 0; row < seen.size(); ++row) picked.push_back(std::span(unknown).subspan(2 * row, 2));
  AttentionOp op{};
  op.rows = 4, op.q_heads = 1, op.kv_heads = 1, op.head_dim = 64, op.visible = picked.data(), op.picked_of = visible.data();
  AttentionPlan plan;
  plan.make(op, 1);
  const auto rows = plan.items()[0].rows;
  EXPECT_EQ(std::vector(rows.begin(), rows.end()), (std::vector<std::int32_t>{1, 2, 3, 0}));
}

TEST(AttentionPlan, PartialResultsThatWouldTakeMuchMemory_areNotKept) {
  const Planned p({8, 8, 128}, 32768, 64, 64);
  EXPECT_EQ(p.plan.kept_floats(), 0);
  EXPECT_GT(*std::min_element(p.shares.begin(), p.shares.end()), 0);
  EXPECT_LE(Planned({8, 8, 128}, 32768, 1, 64).plan.kept_floats(), 4 << 20);
}

}  // namespace
}  // namespace yamata
