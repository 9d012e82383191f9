// Which unit has which part of the attention.
#include "node/units/op_cutter.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "node/cpu/cpu_unit.hpp"

namespace yamata {
namespace {

/// Attention of a tree of five rows after a text, divided between two units.
class AttentionCuts : public ::testing::Test {
 protected:
  using Segments = std::vector<std::pair<std::int64_t, std::int64_t>>;  // of each unit: first, last

  AttentionCuts() {
    for (int i = 0; i < 2; ++i) units_.push_back(std::make_unique<CpuUnit>(std::vector<int>{-1}, cpu::Isa::kScalar));
  }

  Segments cut(std::size_t context, AttentionCut how, std::vector<double> shares, std::size_t dense = 0) {
    std::vector<std::int32_t> cells(context + 2);
    std::iota(cells.begin(), cells.end(), 0);
    std::vector<std::span<const std::int32_t>> visible(5, cells);
    visible[0] = visible[0].first(context + 1);
    std::vector<float> q(5 * 4 * 16), out(q.size());
    std::vector<void*> planes(2);
    const std::vector<Op> ops{AttentionOp{q.data(), 5, 4, 2, 16, 1.0f, visible.data(), planes.data(), planes.data(), TensorType::F16,
                                          TensorType::F16, out.data()}};
    UnitBarrier barrier(2, 0);
    UnitShares division(std::move(shares), false);
    OpCutter cutter(units_, *units_[0], barrier, division);
    cutter.divide_attention(how, dense);
    cutter.cut(ops);
    Segments segments;
    for (std::size_t unit = 0; unit < 2; ++unit) {
      segments.emplace_back(0, 0);
      for (const Op& op : cutter.list(unit)) {
        if (const auto* part = std::get_if<AttentionPartOp>(&op)) segments.back() = {part->partials.first, part->partials.last};
      }
    }
    return segments;
  }

  std::vector<std::unique_ptr<ComputeUnit>> units_;
};

TEST_F(AttentionCuts, byHeads_noUnitHasSegments) { EXPECT_EQ(cut(1500, AttentionCut::kHeads, {.5, .5}), (Segments{{0, 0}, {0, 0}})); }

TEST_F(AttentionCuts, dynamic_theBoundaryFollowsTheShares) {
  EXPECT_EQ(cut(1500, AttentionCut::kDynamic, {.5, .5}), (Segments{{0, 3}, {3, 6}}));
  EXPECT_EQ(cut(1500, AttentionCut::kDynamic, {.8, .2}), (Segments{{0, 5}, {5, 6}}));
  EXPECT_EQ(cut(1500, AttentionCut::kDynamic, {.8, .2}, 1), (Segments{{1, 6}, {0, 1}})) << "the dense unit has the front";
  EXPECT_EQ(cut(250, AttentionCut::kDynamic, {.5, .5}), (Segments{{0, 0}, {0, 0}})) << "a single segment: by heads";
}

TEST_F(AttentionCuts, static_theBoundaryIsTheLastEdgeBeforeTheTree) {
  EXPECT_EQ(cut(1500, AttentionCut::kStatic, {.5, .5}), (Segments{{0, 5}, {5, 6}}));
  EXPECT_EQ(cut(1500, AttentionCut::kStatic, {.5, .5}, 1), (Segments{{5, 6}, {0, 5}}));
  EXPECT_EQ(cut(1535, AttentionCut::kStatic, {.5, .5}), (Segments{{0, 5}, {5, 7}})) << "the tree ends in the next segment";
  EXPECT_EQ(cut(1536, AttentionCut::kStatic, {.5, .5}), (Segments{{0, 6}, {6, 7}}));
  EXPECT_EQ(cut(100, AttentionCut::kStatic, {.5, .5}), (Segments{{0, 0}, {0, 1}})) << "all of it is sparse";
}

}  // namespace
}  // namespace yamata
