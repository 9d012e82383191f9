// A step with a tree of guesses: its rows, and that it can be measured.
#include "launch/program/planning/tree_bench.hpp"

#include <gtest/gtest.h>

#include "node/cpu/cpu_unit.hpp"
#include "tests/paths.hpp"

namespace yamata::test {
namespace {

/// Two first choices; below the first two, below the second one.
const StaticTree kTree{.nodes = {{}, {0, 0, 0}, {0, 0, 1}, {1, 1, 0}, {2, 1, 0}, {1, 1, 1}}};

TEST(TreeBench, EachPathOfTheTree_isASequence) {
  const std::vector<Placement> rows = tree_placements(kTree, 100);
  ASSERT_EQ(rows.size(), 6u);
  const std::vector<SequenceRange> sequences{{0, 3}, {0, 2}, {2, 3}, {0, 1}, {2, 3}, {1, 2}};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(rows[row].parent, kTree.nodes[row].parent);
    EXPECT_EQ(rows[row].position, 101 + kTree.nodes[row].level) << row;
    EXPECT_EQ(rows[row].sequences, sequences[row]) << row;
  }
}

/// Every row sees the text and its own path.
TEST(TreeBench, Rows_seeTheTextAndTheirPath) {
  CellTable cells(64, 8);
  std::vector<Placement> text;
  for (int position = 0; position < 10; ++position) text.push_back({position, -1, {0, 8}});
  BatchCells placed;
  cells.place(text, placed);
  cells.place(tree_placements(kTree, 10), placed);
  for (std::size_t row = 0; row < kTree.nodes.size(); ++row) {
    std::vector<CellId> path;
    for (int node = static_cast<int>(row); node >= 0; node = kTree.nodes[static_cast<std::size_t>(node)].parent)
      path.insert(path.begin(), placed.cells()[static_cast<std::size_t>(node)]);
    const auto visible = placed.visible(row);
    EXPECT_EQ(visible.size(), 10 + path.size()) << row;
    EXPECT_TRUE(std::equal(path.rbegin(), path.rend(), visible.rbegin())) << row;
  }
}

TEST(TreeBench, StepsOfAModelAndItsHeads_takeTime) {
  const ModelFile model = ModelFile::open(source_path("/models/tales-target-q8_0.gguf"));
  CpuUnit unit({-1}, cpu::choose_isa());
  for (const char* name : {"/models/tales-medusa.safetensors", "/models/tales-dgf.safetensors"}) {
    const auto heads = draft_heads::DraftHeadsFile::open(source_path(name), std::nullopt);
    TreeBench bench(model, heads, TensorType::Q8_0, unit, {.context = 16, .cache_types = CacheType::kF16});
    EXPECT_GT(bench.target_s({}), 0);
    EXPECT_EQ(bench.heads_s({}, 1), 0) << "nothing is guessed";
    EXPECT_GT(bench.target_s(kTree), 0);
    EXPECT_GT(bench.heads_s(kTree, 3), 0);
  }
}

}  // namespace
}  // namespace yamata::test
