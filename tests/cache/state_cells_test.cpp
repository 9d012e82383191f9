// Runs of random trees: every token's state must be that of the tokens before it, wherever it was kept, and whatever runs were left.
#include "cache/state_cells.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cache/cache_operation.hpp"
#include "node/error.hpp"
#include "tests/cache/layer_of_texts.hpp"

namespace yamata {
namespace {

constexpr std::int32_t kCells = 96, kEach = 12, kGuesses = 16;

/// A head that writes texts, and a stage with one layer.
class Scene {
 public:
  Scene(unsigned seed, std::int32_t inputs, const TextSlots& texts = {1, kEach})
      : random_(seed),
        texts_(texts),
        layer_({inputs, StateCells::states(texts)}),
        states_(cells_of(texts), inputs, texts, kFar),
        table_(cells_of(texts), texts.slots * kEach + texts.checkpoints),
        growing_(static_cast<std::size_t>(texts.slots)) {}

  int draw(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  /// A run of these tokens. If it is left before its end, its results are not used.
  void run(const std::vector<int>& tokens, const std::vector<Placement>& placements, std::int32_t likely_row, bool ends = true) {
    table_.place(placements, cells_);
    const StatePlan& plan = states_.plan(table_, placements, cells_, likely_row);
    std::vector<State> expected;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      token_of_[cells_.cells()[row]] = tokens[row];
      State state;
      for (const CellId cell : cells_.visible(row)) state.push_back(token_of_[cell]);
      expected.push_back(state);
    }
    const std::vector<Layer::Row> rows = layer_.run(plan, tokens);
    for (std::size_t row = 0; row < tokens.size() && ends; ++row) {
      ASSERT_EQ(rows[row].state, expected[row]) << "row " << row;
      State columns(expected[row].rbegin(), expected[row].rend());
      columns.resize(StateShape::kTaps, 0);
      ASSERT_EQ(rows[row].columns, columns) << "row " << row;
      State far(expected[row].rbegin(), expected[row].rend());
      far.resize(kFar + 1, 0);
      ASSERT_EQ(rows[row].far, far) << "row " << row;
    }
    *states_.written() = ends;
    replayed_ += std::ranges::count_if(plan.steps, [](const StateStep& step) { return step.row < 0; });
  }

  /// Texts at the same time, some of which begin at checkpoints: prompts in chunks, then a tree of guesses in several runs for every few
  /// tokens; some runs are cancelled.
  void write_texts(std::int32_t length) {
    for (std::int32_t slot = 0; slot < texts_.slots; ++slot) begin(slot, length);
    const auto ended = [&](const Text& text) { return text.end >= length; };
    while (!std::ranges::all_of(growing_, ended) && !::testing::Test::HasFatalFailure()) grow(length);
  }

  /// Goes on with a token and a chain of guesses, all of which become text. `likely`: the row that is called so.
  void accept_chain(std::int32_t guesses, std::int32_t likely, std::int32_t slot = 0) {
    const std::int32_t text = texts_.text_of(slot), root = table_.end(text);
    std::vector<int> tokens{1 + draw(1000)};
    std::vector<Placement> placements{{root, -1, {text, text + 2}}};
    for (std::int32_t i = 0; i < guesses; ++i) {
      tokens.push_back(1 + draw(1000));
      placements.push_back({root + 1 + i, i, {text + 1, text + 2}});
    }
    run(tokens, placements, likely);
    table_.copy(text + 1, {text, text + 1}, {root + 1, kUnbounded});
  }

  std::int64_t replayed() const { return replayed_; }
  std::int64_t from_checkpoints() const { return from_checkpoints_; }
  CellTable& table() { return table_; }

 private:
  static std::int32_t cells_of(const TextSlots& texts) { return kCells * (texts.slots + texts.checkpoints); }

  struct Text {
    std::int32_t end = 0, prompt = 0;
  };
  struct Guess {
    std::int32_t parent, position, sequence;  // parent: -1: the root
    bool placed = false;
  };

  Text& growing(std::int32_t slot) { return growing_[static_cast<std::size_t>(slot)]; }

  void begin(std::int32_t slot, std::int32_t length) {
    const std::int32_t text = texts_.text_of(slot);
    table_.remove({text, text + kEach}, {});
    std::int32_t end = 0;
    if (texts_.checkpoints > 0 && draw(3) > 0) {
      const std::int32_t from = texts_.first_checkpoint(table_) + draw(texts_.checkpoints);
      if (table_.end(from) < length) end = table_.end(from);
      if (end > 0) table_.copy(from, {text, text + 1}, {});
      from_checkpoints_ += end;
    }
    growing(slot) = {end, end + 1 + draw(20)};
  }

  /// A run with the next tokens of some texts; then each may have guesses, or become a checkpoint.
  void grow(std::int32_t length) {
    std::vector<std::int32_t> some;
    for (std::int32_t slot = 0; slot < texts_.slots; ++slot) {
      if (growing(slot).end < length && (texts_.slots == 1 || draw(2) > 0)) some.push_back(slot);
    }
    if (some.empty()) return;
    std::vector<int> tokens;
    std::vector<Placement> placements;
    for (const std::int32_t slot : some) {
      Text& text = growing(slot);
      const std::int32_t sequence = texts_.text_of(slot),
                         count = text.end < text.prompt ? std::min(1 + draw(7), text.prompt - text.end) : 1;
      for (std::int32_t i = 0; i < count; ++i, ++text.end) {
        tokens.push_back(1 + draw(1000));
        placements.push_back({text.end, -1, {sequence, sequence + 1}});
      }
    }
    run(tokens, placements, some.size() == 1 ? draw_likely(tokens.size()) : -1);
    for (const std::int32_t slot : some) {
      if (texts_.checkpoints > 0 && draw(8) == 0) keep(slot);
    }
    for (const std::int32_t slot : some) {
      if (growing(slot).end > growing(slot).prompt && !::testing::Test::HasFatalFailure()) guess(slot);
      if (growing(slot).end >= length && draw(3) > 0) begin(slot, length / 2);
    }
  }

  void keep(std::int32_t slot) {
    const std::int32_t kept = texts_.first_checkpoint(table_) + draw(texts_.checkpoints);
    table_.remove({kept, kept + 1}, {});
    table_.copy(texts_.text_of(slot), {kept, kept + 1}, {});
  }

  /// Guesses below the last token in some runs, and the path that becomes text.
  void guess(std::int32_t slot) {
    const std::int32_t text = texts_.text_of(slot);
    const SequenceRange paths{text + 1, text + kEach};
    std::vector<Guess> tree{{-1, growing(slot).end - 1, text, true}};
    const int guesses = draw(static_cast<int>(kEach) - 1);
    for (int i = 0; i < guesses; ++i) {
      const auto parent = static_cast<std::int32_t>(draw(static_cast<int>(tree.size())));
      tree.push_back({parent, tree[static_cast<std::size_t>(parent)].position + 1, paths.begin + i});
    }
    for (std::size_t at = 1; at < tree.size();) {
      const std::size_t until = std::min(tree.size(), at + 1 + static_cast<std::size_t>(draw(4)));
      send(tree, at, until, draw(5) > 0);
      at = until;
    }
    // A path down from the root becomes text, as far as its runs ended.
    std::int32_t node = 0;
    for (bool deeper = true; deeper;) {
      deeper = false;
      for (std::size_t i = 1; i < tree.size() && !deeper; ++i) {
        if (tree[i].parent != node || !tree[i].placed || draw(3) == 0) continue;
        node = static_cast<std::int32_t>(i);
        table_.copy(tree[i].sequence, {text, text + 1}, {tree[i].position, tree[i].position + 1});
        deeper = true;
      }
    }
    if (draw(2) > 0) table_.remove(paths, {});  // else later: when the text has grown
    const std::int32_t next = tree[static_cast<std::size_t>(node)].position + 1;
    table_.remove(paths, {next - draw(2), kUnbounded});
    growing(slot).end = next;
  }

  /// Any row, or none.
  std::int32_t draw_likely(std::size_t rows) { return draw(static_cast<int>(rows) + 1) - 1; }

  void send(std::vector<Guess>& tree, std::size_t at, std::size_t until, bool ends) {
    const std::int32_t text = tree.front().sequence;
    std::vector<int> tokens;
    std::vector<Placement> placements;
    for (std::size_t i = at; i < until; ++i) {
      const auto parent = static_cast<std::size_t>(tree[i].parent);
      if (!tree[parent].placed && parent < at) return;  // its run was cancelled
      const bool in_run = parent >= at;
      if (!in_run) {
        table_.copy(text, {tree[i].sequence, tree[i].sequence + 1}, {});
        for (std::size_t p = parent; p > 0; p = static_cast<std::size_t>(tree[p].parent))
          table_.copy(tree[p].sequence, {tree[i].sequence, tree[i].sequence + 1}, {tree[p].position, tree[p].position + 1});
      }
      tokens.push_back(1 + draw(1000));
      placements.push_back(
          {tree[i].position, in_run ? static_cast<std::int32_t>(parent - at) : -1, {tree[i].sequence, tree[i].sequence + 1}});
    }
    run(tokens, placements, draw_likely(tokens.size()), ends);
    for (std::size_t i = at; i < until; ++i) tree[i].placed = ends;
  }

  std::mt19937 random_;
  const TextSlots texts_;
  Layer layer_;
  StateCells states_;
  CellTable table_;
  BatchCells cells_;
  std::map<CellId, int> token_of_;
  std::vector<Text> growing_;
  std::int64_t replayed_ = 0, from_checkpoints_ = 0;
};

std::int32_t inputs_for(std::int64_t guesses, std::int64_t texts = 1) {
  return static_cast<std::int32_t>(StateCells::enough(guesses, texts));
}

TEST(StateCells, EveryToken_hasTheStateOfTheTokensBeforeIt) {
  std::int64_t replayed = 0, from_checkpoints = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const std::int32_t slots = seed % 2 == 0 ? 1 : 2 + static_cast<std::int32_t>(seed / 2 % 3);
    Scene scene(seed, inputs_for(slots * (8 + 2 * kGuesses), slots), {slots, kEach, static_cast<std::int32_t>(seed / 8 % 4)});
    for (int round = 0; round < 3; ++round) ASSERT_NO_FATAL_FAILURE(scene.write_texts(60));
    replayed += scene.replayed();
    from_checkpoints += scene.from_checkpoints();
  }
  EXPECT_GT(replayed, 1000);
  EXPECT_GT(from_checkpoints, 1000);
}

TEST(StateCells, TextsOfARun_allGoOnFromTheirStates) {
  Scene scene(1, 1, {3, kEach});
  const std::vector<Placement> all{{0, -1, {0, 1}}, {1, -1, {0, 1}}, {0, -1, {12, 13}}, {0, -1, {24, 25}}};
  scene.run({1, 2, 3, 4}, all, -1);
  for (std::int32_t at = 1; at < 6; ++at) scene.run({5, 6}, {{at, -1, {24, 25}}, {at, -1, {12, 13}}}, -1);
  scene.run({7, 8}, {{2, -1, {0, 1}}, {6, -1, {24, 25}}}, -1);
  EXPECT_EQ(scene.replayed(), 0) << "no input of a token was kept, or needed";
}

TEST(StateCells, AGuessOfOneText_getsNoStateWhileOthersAreFarFromTheirs) {
  for (const std::int32_t likely : {-1, 4}) {
    Scene scene(1, inputs_for(8, 2), {2, kEach});
    scene.accept_chain(4, likely, 1);  // without a state after its last token, the text is 4 tokens after its latest one
    scene.accept_chain(13, 13, 0);     // up to 16 tokens may be after their texts' states
    scene.accept_chain(0, -1, 0);
    EXPECT_EQ(scene.replayed(), likely < 0 ? 13 : 0) << "likely row " << likely;
  }
}

TEST(StateCells, GuessesUpToALikelyOne_areNotRepeated) {
  constexpr std::int32_t kChain = 6;
  for (std::int32_t likely = 0; likely <= kChain; ++likely) {
    Scene scene(1, inputs_for(2 * kChain));
    for (int chain = 0; chain < 10; ++chain) scene.accept_chain(kChain, likely);
    EXPECT_EQ(scene.replayed(), 9 * (kChain - likely)) << "likely row " << likely;
  }
}

TEST(StateCells, ARejectedLikelyGuess_leavesTheStateOfTheText) {
  StateCells states(16, inputs_for(2));
  CellTable table(16, 2);
  BatchCells cells;
  const auto plan = [&](const std::vector<Placement>& run, std::int32_t likely) {
    table.place(run, cells);
    std::vector<std::int32_t> repeated;
    for (const StateStep& step : states.plan(table, run, cells, likely).steps) repeated.push_back(step.row);
    *states.written() = true;
    return repeated;
  };
  EXPECT_EQ(plan({{0, -1, {0, 2}}}, -1), std::vector<std::int32_t>{0});
  EXPECT_EQ(plan({{1, -1, {0, 2}}, {2, 0, {1, 2}}, {3, 1, {1, 2}}}, 2), (std::vector<std::int32_t>{0, 1, 2}));
  table.remove({1, 2}, {2, kUnbounded});
  EXPECT_EQ(plan({{2, -1, {0, 2}}}, -1), (std::vector<std::int32_t>{-1, 0})) << "token 1 is repeated after the state of token 0";
  EXPECT_EQ(plan({{3, -1, {0, 2}}}, -1), std::vector<std::int32_t>{0});
}

TEST(StateCells, AGuessFarFromTheStateOfTheText_getsNone) {
  for (const std::int32_t most : {5, 6}) {
    Scene scene(1, inputs_for(most));
    scene.accept_chain(8, -1);
    scene.accept_chain(1, 1);  // repeats 8 tokens, and ends 10 after the state of the text
    scene.accept_chain(1, 1);
    EXPECT_EQ(scene.replayed(), most == 5 ? 9 : 8) << "for " << most << " guesses";
  }
}

TEST(StateCells, ATextThatGoesOnWhereItHasNoState_isRefused) {
  StateCells states(8, 2);
  CellTable table(8, 2);
  BatchCells cells;
  const std::vector<Placement> text{{0, -1, {0, 1}}, {1, -1, {0, 1}}, {2, -1, {0, 1}}};
  table.place(text, cells);
  states.plan(table, text, cells);
  *states.written() = true;
  table.remove({0, 1}, {2, kUnbounded});  // the only state is that of the removed token
  const std::vector<Placement> next{{2, -1, {0, 1}}};
  table.place(next, cells);
  EXPECT_THROW(states.plan(table, next, cells), ClusterError);
}

TEST(StateCells, MoreGuessesThanInputs_areRefused) {
  StateCells states(8, 2);
  CellTable table(8, 2);
  BatchCells cells;
  const std::vector<Placement> guesses{{0, -1, {0, 2}}, {1, 0, {1, 2}}, {2, 1, {1, 2}}, {3, 2, {1, 2}}};
  table.place(guesses, cells);
  EXPECT_THROW(states.plan(table, guesses, cells), ClusterError);
}

TEST(StateCells, InputsOfAnEndedText_areFreeAlthoughACheckpointHoldsItsCells) {
  const TextSlots texts{1, 2, 1};
  StateCells states(16, 4, texts);
  CellTable table(16, 3);
  BatchCells cells;
  const auto run = [&](const std::vector<Placement>& placements) {
    table.place(placements, cells);
    states.plan(table, placements, cells);
    *states.written() = true;
  };
  const std::vector<Placement> guesses{{1, -1, {1, 2}}, {2, 0, {1, 2}}, {3, 1, {1, 2}}};
  run({{0, -1, {0, 2}}});
  run(guesses);
  table.copy(1, {0, 1}, {1, 4});  // they become text
  run({{4, -1, {0, 1}}});
  table.copy(0, {2, 3}, {0, 5});
  table.remove({0, 2}, {});
  run({{0, -1, {0, 2}}});
  EXPECT_NO_THROW(run(guesses));
}

TEST(StateStore, Layers_lieOneAfterAnother) {
  const StateShape shape{.heads = 4, .key_heads = 2, .dim = 16};
  const StateCounts counts{3, 2};
  const std::size_t floats = StateStore::bytes_for(shape, 1, counts) / sizeof(float);
  EXPECT_EQ(floats, 2u * 4 * 16 * 16 + (3 + 3 * 2) * (2 * 32 + 64) + 3 * (32 + 64 + 8));
  EXPECT_EQ(StateStore::bytes_for(shape, 5, counts), 5 * floats * sizeof(float));
}

}  // namespace
}  // namespace yamata
