// The cells of layers with a window, compared with the whole table's cells.
#include "cache/window_cells.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "node/error.hpp"

namespace yamata {
namespace {

constexpr std::int32_t kCells = 600, kEach = 4;

/// What a seed determines.
struct Setting {
  std::int32_t window, rows, guesses;  // rows of a run, and open guesses, at most
  TextSlots texts;
};

/// Texts that grow by runs of their own or together, and by guesses, some of which are accepted. Some begin as others do, or as
/// checkpoints. Every token writes a number into its cells.
class Texts {
 public:
  Texts(std::uint32_t seed, const Setting& setting)
      : random_(seed),
        s_(setting),
        table_(kCells, s_.texts.slots * kEach + s_.texts.checkpoints),
        cells_(kCells,
               static_cast<std::int32_t>(WindowCells::enough(s_.window, s_.rows, s_.guesses, s_.texts.slots + s_.texts.checkpoints)),
               s_.window, s_.texts),
        of_table_(kCells),
        of_window_(kCells),
        open_(static_cast<std::size_t>(s_.texts.slots)) {}

  void step() {
    const std::int32_t slot = pick(s_.texts.slots), what = pick(10);
    if (table_.end(text(slot)) > 120 || what == 9) return begin(slot);
    if (what == 8) return keep(slot);
    if (what == 7) return skip(slot);
    what < 4 ? grow() : guess(slot);
  }
  std::int64_t shared() const { return shared_; }

 private:
  std::int32_t pick(std::int32_t n) { return static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(n)); }
  std::int32_t text(std::int32_t slot) const { return s_.texts.text_of(slot); }
  std::int32_t guess_cells() const { return std::accumulate(open_.begin(), open_.end(), 0); }

  /// Rows of some texts.
  void grow() {
    std::vector<Placement> batch;
    for (std::int32_t slot = 0; slot < s_.texts.slots; ++slot) {
      if (s_.texts.slots > 1 && pick(2) == 0) continue;
      const std::int32_t end = table_.end(text(slot)), most = s_.rows - static_cast<std::int32_t>(batch.size());
      for (std::int32_t i = most > 0 ? pick(most + 1) : 0; i > 0; --i)
        batch.push_back({end + static_cast<std::int32_t>(batch.size()), -1, {text(slot), text(slot) + 1}});
      std::int32_t at = end;
      for (Placement& token : batch) {
        if (token.sequences.begin == text(slot)) token.position = at++;
      }
    }
    if (!batch.empty()) write(batch);
  }
  /// Two paths of guesses, of which the text takes a part. The others stay until it guesses again.
  void guess(std::int32_t slot) {
    drop_guesses(slot);
    const std::int32_t own = text(slot), end = table_.end(own);
    std::int32_t guesses = 0;
    for (std::int32_t path = own + 1; path <= own + 2; ++path) {
      const std::int32_t length = std::min(s_.rows, 1 + pick(std::max(1, s_.guesses / 2)));
      if (guess_cells() + guesses + length > s_.guesses) break;
      table_.copy(own, {path, path + 1}, {});
      std::vector<Placement> batch;
      for (std::int32_t i = 0; i < length; ++i) batch.push_back({end + i, -1, {path, path + 1}});
      guesses += length;
      write(batch);
    }
    open_[static_cast<std::size_t>(slot)] = guesses;
    const std::int32_t taken = own + 1 + pick(2), most = table_.end(taken) - end;
    if (most > 0) table_.copy(taken, {own, own + 1}, {end, end + pick(most + 1)});
  }
  void drop_guesses(std::int32_t slot) {
    table_.remove(s_.texts.guesses_of(slot, table_), {});
    open_[static_cast<std::size_t>(slot)] = 0;
  }
  /// A run that is skipped by a stage, because it was cancelled in time.
  void skip(std::int32_t slot) {
    const std::int32_t own = text(slot), aside = own + 3;
    const Placement skipped{table_.end(own), -1, {aside, aside + 1}};
    BatchCells ignored;
    table_.copy(own, {aside, aside + 1}, {});
    table_.place({&skipped, 1}, ignored);
    table_.remove({aside, aside + 1}, {});
  }
  /// A text ends, and another one begins there.
  void begin(std::int32_t slot) {
    const std::int32_t own = text(slot), from = pick(table_.sequence_count()), end = table_.end(from);
    drop_guesses(slot);
    table_.remove({own, own + 1}, {});
    if (from == own || pick(2) == 0) return;
    const bool checkpoint = from >= s_.texts.first_checkpoint(table_), is_text = !checkpoint && from % kEach == 0;
    std::int32_t tokens = 0;
    if (checkpoint) tokens = end;
    if ((checkpoint || is_text) && end > 0 && end < s_.window) tokens = pick(end + 1);
    if (tokens > 0) table_.copy(from, {own, own + 1}, {0, tokens});
    shared_ += tokens;
  }
  /// Takes the place of an earlier checkpoint.
  void keep(std::int32_t slot) {
    if (s_.texts.checkpoints == 0) return;
    const std::int32_t kept = s_.texts.first_checkpoint(table_) + pick(s_.texts.checkpoints);
    table_.remove({kept, kept + 1}, {});
    table_.copy(text(slot), {kept, kept + 1}, {});
  }

  void write(const std::vector<Placement>& batch) {
    if (table_.free_cells() < std::ssize(batch)) return table_.clear();
    cells_.place(table_, batch, all_, in_window_);
    for (std::size_t row = 0; row < batch.size(); ++row)
      at(of_table_, all_.cells()[row]) = at(of_window_, in_window_.cells()[row]) = ++written_;
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const auto seen = all_.visible(row), here = in_window_.visible(row);
      ASSERT_EQ(here.size(), std::min<std::size_t>(seen.size(), static_cast<std::size_t>(s_.window)));
      const auto last = seen.last(here.size());
      for (std::size_t i = 0; i < here.size(); ++i)
        ASSERT_EQ(at(of_window_, here[i]), at(of_table_, last[i])) << "position " << batch[row].position << ", " << i;
    }
  }
  static int& at(std::vector<int>& contents, CellId cell) { return contents.at(static_cast<std::size_t>(cell)); }

  std::mt19937 random_;
  const Setting s_;
  CellTable table_;
  WindowCells cells_;
  BatchCells all_, in_window_;
  std::vector<int> of_table_, of_window_;
  std::vector<std::int32_t> open_;  // guesses by slot
  int written_ = 0;
  std::int64_t shared_ = 0;
};

TEST(WindowCells, RandomTexts_seeTheEndOfWhatTheySeeInTheTable) {
  std::int64_t shared = 0;
  for (std::uint32_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto between = [&](unsigned low, unsigned high) { return static_cast<std::int32_t>(low + random() % (high - low + 1)); };
    const std::int32_t slots = seed % 2 == 0 ? 1 : between(2, 4), checkpoints = between(0, 3);
    Texts texts(seed, {between(1, 20), between(4, 12), between(2, 16), {slots, kEach, checkpoints}});
    for (int step = 0; step < 100; ++step) {
      texts.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    shared += texts.shared();
  }
  EXPECT_GT(shared, 1000);
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
