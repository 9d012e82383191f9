// Blocks of an index's keys: which are whole, which rows end one, and how many cells rows attend to.
#include "src/model/key_blocks.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "src/model/picked_cells.hpp"

namespace yamata {
namespace {

using Lists = std::vector<std::vector<CellId>>;

Lists copied(const std::span<const CellId>* rows, std::size_t count) {
  Lists lists;
  for (std::size_t row = 0; row < count; ++row) lists.emplace_back(rows[row].begin(), rows[row].end());
  return lists;
}

/// Rows of one text share a list, as BatchCells has them; a guess beside them has one of its own.
TEST(KeyBlocks, AreWholeWhereTheirLastTokenIsSeen) {
  const std::vector<CellId> text{7, 3, 9, 4, 5, 6, 8, 2}, branch{7, 3, 9, 4, 5, 11};
  const std::span<const CellId> all(text);
  const std::vector<std::span<const CellId>> rows{all.first(5), all.first(6), all, branch, all.first(2)};
  KeyBlocks blocks(3);
  for (int run = 0; run < 2; ++run) {
    blocks.place(rows);
    EXPECT_EQ(copied(blocks.last_cells(), rows.size()), (Lists{{9}, {9, 6}, {9, 6}, {9, 11}, {}}));
    ASSERT_EQ(blocks.ended(), 2);
    EXPECT_EQ(std::vector(blocks.ends(), blocks.ends() + 2), (std::vector<CellId>{6, 11}));
    EXPECT_EQ(copied(blocks.members(), 2), (Lists{{4, 5, 6}, {4, 5, 11}}));
    EXPECT_EQ(std::vector(blocks.first_positions().begin(), blocks.first_positions().end()), (std::vector<std::int32_t>{3, 3}));
  }
}

TEST(KeyBlocks, OfOtherModels_areNone) {
  KeyBlocks none(0);
  const std::vector<CellId> cells{1, 2, 3};
  none.place(std::vector<std::span<const CellId>>{cells});
  EXPECT_EQ(none.ended(), 0);
  EXPECT_EQ(none.last_cells(), nullptr);
}

/// Of 7 cells at most, in blocks of 3: two blocks, and those after the last whole one.
TEST(PickedCells, OfBlocks_areWholeOnesAndTheRest) {
  std::vector<CellId> cells(30), memory(4 * 9);
  std::iota(cells.begin(), cells.end(), 0);
  const std::span<const CellId> all(cells);
  const auto attended = [&](std::initializer_list<std::size_t> seen) {
    std::vector<std::span<const CellId>> rows;
    for (const std::size_t count : seen) rows.push_back(all.first(count));
    PickedCells picked(7, 3);
    picked.place(rows, memory.data());
    std::vector<std::size_t> sizes;
    for (std::size_t row = 0; picked.rows() && row < rows.size(); ++row) sizes.push_back(picked.rows()[row].size());
    return sizes;
  };
  EXPECT_EQ(attended({7, 8, 2, 6}), (std::vector<std::size_t>{})) << "no row sees three whole blocks";
  EXPECT_EQ(attended({9, 10, 11, 5}), (std::vector<std::size_t>{6, 7, 8, 5}));
  EXPECT_EQ(attended({12, 29}), (std::vector<std::size_t>{6, 8}));
}

}  // namespace
}  // namespace yamata
