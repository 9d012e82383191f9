// Heads in simulated clusters: always right if their table is the target's, and every error in their features is detected.
#include "src/simulation/draft_heads_table.hpp"

#include <gtest/gtest.h>

#include "tests/mpi/instant_unit.hpp"
#include "tests/mpi/simulation/simulation.hpp"

namespace yamata::test {
namespace {

using simulation::DraftHeadsTable;
using simulation::TableModel;

/// Heads on rank 0 whose guesses are always right. They guess at any cost: here nothing takes time.
Scenario scenario(std::uint64_t seed) {
  Scenario s;
  s.seed = seed;
  s.stages.assign(1 + seed % 3, 1);
  s.decode.strategy = seed % 2 == 0 ? Strategy::kSpeculative : Strategy::kPipeInfer;
  s.decode.policy.draft = 4;
  s.prompt = 1 + static_cast<std::int32_t>(seed % 5);
  s.decode.generate = 40;
  s.decode.context = 60;
  s.decode.guess_cells = 20;
  s.decode.sequences = {0, 21};
  s.decode.batch = 3;
  s.decode.at_any_cost = true;
  s.draft_heads = {{.place = Scenario::DraftHeads::Place::kHead, .layers = {0, kOutputFeatures}, .disagreement = 0}};
  return s;
}

TEST(DraftHeadsTable, RightHeads_guessTheText) {
  std::uint64_t accepted = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const Outcome outcome = play(scenario(seed));
    ASSERT_EQ(outcome.fault, "") << seed;
    EXPECT_GE(outcome.counters.accepted, 25u) << seed;
    accepted += outcome.counters.accepted;
  }
  EXPECT_GE(accepted, 30u * 29) << "of 40 tokens each: nearly three guesses for each that the target adds";
}

/// A test of the tests: without the check, each of these errors would only cost guesses.
TEST(DraftHeadsTable, InjectedFaults_areFound) {
  constexpr std::size_t kRow = 2 * TableModel::kWidth;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Scenario late = scenario(seed);  // features are shifted by one position
    auto last = std::make_shared<std::vector<float>>(kRow);
    late.tamper = [last](wire::Commit& commit) {
      commit.features.insert(commit.features.begin(), last->begin(), last->end());
      last->assign(commit.features.end() - kRow, commit.features.end());
      commit.features.resize(commit.features.size() - kRow);
    };
    EXPECT_NE(play(late).fault.find("features"), std::string::npos) << seed;

    Scenario rejected = scenario(seed);  // features of a row that is not part of the text, from the second commit on
    rejected.tamper = [](wire::Commit& commit) {
      if (commit.position == 0) return;
      const auto told = simulation::hashes_of(std::span(commit.features).last(TableModel::kWidth));
      std::vector<float> other;
      for (const std::int32_t layer : {0, kOutputFeatures})
        std::ranges::copy(simulation::features_of(told.token + 1, told.prefix + 1, layer), std::back_inserter(other));
      std::copy(other.begin(), other.end(), commit.features.end() - kRow);
    };
    EXPECT_NE(play(rejected).fault.find("another token"), std::string::npos) << seed;

    Scenario mixed = scenario(seed);  // one layer's features belong to another token than the other's
    mixed.tamper = [](wire::Commit& commit) { commit.features.front() += 1; };
    EXPECT_NE(play(mixed).fault.find("several tokens"), std::string::npos) << seed;
  }
}

/// A cache that is not rolled back: a guess stays in the place of the text's token.
TEST(DraftHeadsTable, GuessInThePlaceOfText_isFound) {
  InstantUnit unit;
  simulation::TableShape shape;
  shape.cells = 16, shape.sequences = 2;
  shape.logits = [](std::uint64_t, std::span<float>) {};
  const auto features = [](std::vector<std::int32_t> text) {
    const auto last = static_cast<std::int32_t>(text.size()) - 1;
    return simulation::features_of(simulation::token_hash(text.back(), last), simulation::prefix_hash(text), kOutputFeatures);
  };
  const auto run = [](DraftHeadsTable& draft_heads, std::vector<std::int32_t> tokens, std::int32_t position, std::vector<float> with) {
    std::vector<Placement> placements;
    for (std::size_t i = 0; i < tokens.size(); ++i) placements.push_back({position + static_cast<std::int32_t>(i), -1, {0, 1}});
    draft_heads.start({.tokens = tokens,
                       .activations = {},
                       .placements = placements,
                       .logit_rows = {},
                       .feature_rows = {},
                       .features = with,
                       .feature_layers = {}},
                      nullptr);
  };
  DraftHeadsTable good(shape, {kOutputFeatures}, unit), stale(shape, {kOutputFeatures}, unit);
  for (DraftHeadsTable* draft_heads : {&good, &stale}) {
    run(*draft_heads, {5}, 1, features({4}));
    run(*draft_heads, {6}, 2, {});  // a guess, which becomes text
  }
  run(good, {6}, 2, features({4, 5}));
  run(good, {7}, 3, features({4, 5, 6}));
  EXPECT_THROW(run(stale, {7}, 3, features({4, 5, 6})), std::logic_error);
  DraftHeadsTable gap(shape, {kOutputFeatures}, unit);
  run(gap, {5}, 1, features({4}));
  EXPECT_THROW(run(gap, {7}, 3, features({4, 5, 6})), std::logic_error);
}

}  // namespace
}  // namespace yamata::test
