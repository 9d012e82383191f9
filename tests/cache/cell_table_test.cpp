// The cell table, compared with a naive model: cells with a position and a set of sequences.
#include "cache/cell_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

namespace yamata {
namespace {

constexpr std::int32_t kCells = 24, kSequences = 5, kPositions = 12;

/// The same interface as CellTable, implemented in the simplest way: (sequence, position) -> cell.
class Naive {
 public:
  std::map<std::pair<std::int32_t, std::int32_t>, CellId> map;

  std::vector<CellId> free() const {
    std::vector<CellId> cells;
    for (CellId c = 0; c < kCells; ++c) {
      if (std::none_of(map.begin(), map.end(), [c](const auto& entry) { return entry.second == c; })) cells.push_back(c);
    }
    return cells;
  }
  std::vector<CellId> below(std::int32_t sequence, std::int32_t position) const {
    std::vector<CellId> cells;
    for (const auto& [key, cell] : map) {
      if (key.first == sequence && key.second < position) cells.push_back(cell);
    }
    return cells;
  }
  template <class Inside>
  void remove_if(Inside inside) {
    std::erase_if(map, [&](const auto& entry) { return inside(entry.first.first, entry.first.second); });
  }
};

class Streams {
 public:
  explicit Streams(std::uint32_t seed) : random_(seed), table_(kCells, kSequences), twin_(kCells, kSequences) {}

  void step() {
    switch (pick(6)) {
      case 0:
      case 1:
      case 2:
        place();
        break;
      case 3:
        copy();
        break;
      case 4:
        remove();
        break;
      default:
        pick(4) == 0 ? clear() : keep();
    }
    compare();
  }

 private:
  std::int32_t pick(std::int32_t n) { return static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(n)); }
  SequenceRange sequences() {
    const std::int32_t begin = pick(kSequences);
    return {begin, begin + 1 + pick(kSequences - begin)};
  }
  PositionRange positions() {
    const std::int32_t begin = pick(kPositions);
    return {begin, pick(3) == 0 ? kUnbounded : begin + pick(kPositions)};
  }
  static bool in(std::int32_t v, std::int32_t begin, std::int32_t end) { return v >= begin && v < end; }

  void place() {
    std::vector<Placement> batch(static_cast<std::size_t>(1 + pick(5)));
    std::int32_t next = pick(kPositions - 5);
    const SequenceRange chain = sequences();
    const bool is_chain = pick(2) == 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      batch[i] = is_chain ? Placement{next++, -1, chain}
                          : Placement{pick(kPositions), static_cast<std::int32_t>(pick(static_cast<std::int32_t>(i) + 1)) - 1, sequences()};
    }
    const std::vector<CellId> free = naive_.free();
    if (free.size() < batch.size()) {
      EXPECT_THROW(table_.place(batch, cells_), std::length_error);
      return;
    }
    table_.place(batch, cells_);
    BatchCells twin_cells;
    twin_.place(batch, twin_cells);
    ASSERT_TRUE(std::ranges::equal(cells_.cells(), twin_cells.cells()));
    std::vector<std::vector<CellId>> seen;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const CellId cell = naive_.free().at(0);
      std::vector<CellId> list = batch[i].parent >= 0 ? seen[static_cast<std::size_t>(batch[i].parent)]
                                                      : naive_.below(batch[i].sequences.begin, batch[i].position);
      list.push_back(cell);
      ASSERT_EQ(cells_.cells()[i], cell);
      ASSERT_TRUE(std::ranges::equal(cells_.visible(i), list)) << "row " << i;
      seen.push_back(list);
      for (std::int32_t s = batch[i].sequences.begin; s < batch[i].sequences.end; ++s) naive_.map[{s, batch[i].position}] = cell;
    }
  }
  void copy() {
    const std::int32_t from = pick(kSequences);
    const SequenceRange to = sequences();
    const PositionRange range = positions();
    table_.copy(from, to, range);
    twin_.copy(from, to, range);
    const auto before = naive_.map;
    naive_.remove_if([&](auto s, auto p) { return s != from && in(s, to.begin, to.end) && in(p, range.begin, range.end); });
    for (const auto& [key, cell] : before) {
      if (key.first != from || !in(key.second, range.begin, range.end)) continue;
      for (std::int32_t s = to.begin; s < to.end; ++s) naive_.map[{s, key.second}] = cell;
    }
  }
  void remove() {
    const SequenceRange seqs = sequences();
    const PositionRange range = positions();
    table_.remove(seqs, range);
    twin_.remove(seqs, range);
    naive_.remove_if([&](auto s, auto p) { return in(s, seqs.begin, seqs.end) && in(p, range.begin, range.end); });
  }
  void keep() {
    const SequenceRange seqs = sequences();
    const PositionRange range{pick(3), kPositions - pick(3)};
    table_.keep(seqs, range);
    twin_.keep(seqs, range);
    naive_.remove_if([&](auto s, auto p) { return !in(s, seqs.begin, seqs.end) || !in(p, range.begin, range.end); });
  }
  void clear() {
    table_.clear();
    twin_.clear();
    naive_.map.clear();
  }
  void compare() const {
    ASSERT_EQ(table_.free_cells(), static_cast<std::int32_t>(naive_.free().size()));
    std::set<CellId> held;
    for (const auto& [key, cell] : naive_.map) {
      if (key.first == 0 || key.first == 3) held.insert(cell);
    }
    const std::array<std::int32_t, 2> some{0, 3};
    ASSERT_EQ(table_.held_by(some), static_cast<std::int32_t>(held.size()));
    ASSERT_EQ(twin_.free_cells(), table_.free_cells());
    for (std::int32_t s = 0; s < kSequences; ++s) {
      for (std::int32_t p = 0; p < kPositions; ++p) {
        const auto it = naive_.map.find({s, p});
        ASSERT_EQ(table_.at(s, p), it == naive_.map.end() ? kNoCell : it->second) << "sequence " << s << " position " << p;
        ASSERT_EQ(twin_.at(s, p), table_.at(s, p));
      }
    }
  }

  std::mt19937 random_;
  CellTable table_, twin_;
  BatchCells cells_;
  Naive naive_;
};

TEST(CellTable, agrees_with_the_naive_model_on_random_streams) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    Streams streams(seed);
    for (int i = 0; i < 30; ++i) {
      streams.step();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CellTable, refuses_what_is_out_of_range_and_changes_nothing) {
  CellTable table(4, 2);
  BatchCells cells;
  const auto place = [&](Placement p) { table.place({&p, 1}, cells); };
  EXPECT_THROW(place({-1, -1, {0, 1}}), std::out_of_range);
  EXPECT_THROW(place({0, 0, {0, 1}}), std::out_of_range);
  EXPECT_THROW(place({0, -1, {0, 3}}), std::out_of_range);
  EXPECT_THROW(place({0, -1, {1, 1}}), std::out_of_range);
  EXPECT_THROW(table.copy(2, {0, 1}, {}), std::out_of_range);
  EXPECT_EQ(table.free_cells(), 4);
}

TEST(CellTable, a_chain_shares_one_list) {
  CellTable table(64, 1);
  BatchCells cells;
  std::vector<Placement> batch;
  for (std::int32_t p = 0; p < 40; ++p) batch.push_back({p, -1, {0, 1}});
  table.place(batch, cells);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(cells.visible(i).size(), i + 1);
    EXPECT_EQ(cells.visible(i).data(), cells.visible(0).data());
  }
}

}  // namespace
}  // namespace yamata
