// The cells of layers with a window, compared with the whole table's cells.
#include "cache/window_cells.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "node/error.hpp"

namespace yamata {
namespace {

constexpr std::int32_t kCells = 400, kSequences = 4;

/// A text that grows by its own runs and by guesses, some of which are accepted. Every token writes a number into its cells.
class Text {
 public:
  Text(std::uint32_t seed, std::int32_t window, std::int32_t rows, std::int32_t guesses)
      : random_(seed),
        window_(window),
        rows_(rows),
        guesses_(guesses),
        cells_(kCells, static_cast<std::int32_t>(WindowCells::enough(window, rows, guesses)), window),
        of_table_(kCells),
        of_window_(kCells) {}

  std::int32_t length() const { return table_.end(0); }
  void grow() { write(0, 1 + pick(rows_)); }
  /// Two paths of guesses; the text takes a part of one.
  void guess() {
    const std::int32_t end = length(), most = guesses_ / 2;
    for (std::int32_t s = 1; s <= 2; ++s) {
      table_.copy(0, {s, s + 1}, {});
      write(s, 1 + pick(most));
    }
    const std::int32_t taken = 1 + pick(2);
    table_.copy(taken, {0, 1}, {end, end + pick(table_.end(taken) - end + 1)});
    table_.remove({1, 3}, {});
  }
  /// A run that is skipped by a stage, because it was cancelled in time.
  void skip() {
    const Placement skipped{length(), -1, {3, 4}};
    BatchCells ignored;
    table_.copy(0, {3, 4}, {});
    table_.place({&skipped, 1}, ignored);
    table_.remove({3, 4}, {});
  }
  void begin() { table_.clear(); }
  std::int32_t pick(std::int32_t n) { return static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(n)); }

 private:
  void write(std::int32_t sequence, std::int32_t tokens) {
    std::vector<Placement> batch;
    const std::int32_t begin = table_.end(sequence);
    for (std::int32_t i = 0; i < tokens; ++i) batch.push_back({begin + i, -1, {sequence, sequence + 1}});
    cells_.place(table_, batch, all_, in_window_);
    for (std::size_t row = 0; row < batch.size(); ++row) {
      at(of_table_, all_.cells()[row]) = at(of_window_, in_window_.cells()[row]) = ++written_;
    }
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const auto seen = all_.visible(row), here = in_window_.visible(row);
      ASSERT_EQ(here.size(), std::min<std::size_t>(seen.size(), static_cast<std::size_t>(window_)));
      const auto last = seen.last(here.size());
      for (std::size_t i = 0; i < here.size(); ++i)
        ASSERT_EQ(at(of_window_, here[i]), at(of_table_, last[i])) << "position " << batch[row].position << ", " << i;
    }
  }
  static int& at(std::vector<int>& contents, CellId cell) { return contents.at(static_cast<std::size_t>(cell)); }

  std::mt19937 random_;
  const std::int32_t window_, rows_, guesses_;
  CellTable table_{kCells, kSequences};
  WindowCells cells_;
  BatchCells all_, in_window_;
  std::vector<int> of_table_, of_window_;
  int written_ = 0;
};

TEST(WindowCells, RandomTexts_seeTheEndOfWhatTheySeeInTheTable) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto between = [&](unsigned low, unsigned high) { return static_cast<std::int32_t>(low + random() % (high - low + 1)); };
    Text text(seed, between(1, 20), between(1, 12), between(2, 16));
    for (int step = 0; step < 60; ++step) {
      const std::int32_t what = text.pick(8);
      if (text.length() > 300 || what == 7)
        text.begin();
      else if (what == 6)
        text.skip();
      else
        what < 3 ? text.grow() : text.guess();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

/// Placements of the first tokens of a text.
std::vector<Placement> chain(std::int32_t tokens) {
  std::vector<Placement> batch;
  for (std::int32_t p = 0; p < tokens; ++p) batch.push_back({p, -1, {0, 1}});
  return batch;
}

TEST(WindowCells, AChain_sharesOneList) {
  CellTable table(64, 1);
  WindowCells cells(64, 49, 10);
  BatchCells all, in_window;
  const std::vector<Placement> batch = chain(40);
  cells.place(table, batch, all, in_window);
  EXPECT_EQ(in_window.visible(39).data(), in_window.visible(9).data() + 30);
  EXPECT_EQ(in_window.visible(39).size(), 10u);
}

TEST(WindowCells, MoreThanThereAre_isAClusterError) {
  CellTable table(64, 1);
  WindowCells cells(64, 8, 4);
  BatchCells all, in_window;
  std::vector<Placement> batch = chain(9);
  EXPECT_THROW(cells.place(table, batch, all, in_window), ClusterError);
  EXPECT_EQ(table.free_cells(), 64);
  batch.pop_back();
  EXPECT_NO_THROW(cells.place(table, batch, all, in_window));
}

}  // namespace
}  // namespace yamata
