// The trees of yamata profile --tree-from: their sizes, and which is the best.
#include "launch/commands/tree_choice.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "launch/program/output/output_file.hpp"
#include "node/error.hpp"
#include "tests/temporary_folder.hpp"

namespace yamata::test {
namespace {

/// Texts in which each level's rank is geometric, up to `most` ranks.
TreeRates random_rates(std::int32_t most) {
  std::mt19937 random(7);
  std::geometric_distribution<std::int32_t> rank(0.5);
  TreeRates rates;
  for (int i = 0; i < 4; ++i) {
    RankedText& text = rates.texts.emplace_back();
    for (int at = 0; at < 200; ++at) {
      TrueRanks& ranks = text.emplace_back(4, -1);
      for (std::int32_t& of : ranks) {
        const std::int32_t drawn = rank(random);
        if (drawn >= most) break;
        of = drawn;
      }
    }
  }
  rates.accuracies = accuracies_of(rates.texts);
  return rates;
}

std::vector<int> widths_of(const std::vector<TreeChoice>& choices) {
  std::vector<int> widths;
  for (const TreeChoice& choice : choices) widths.push_back(choice.tree.width());
  return widths;
}

void do_nothing() {}

TEST(TreeChoice, TreesOfAllWidths_areRefined) {
  const std::vector<TreeChoice> choices = build_trees(random_rates(8), do_nothing);
  EXPECT_EQ(widths_of(choices), (std::vector<int>{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(choices[0].tokens, 1);
  bool refined = false;
  for (std::size_t i = 1; i < choices.size(); ++i) {
    EXPECT_GT(choices[i].tokens, choices[i - 1].tokens);
    EXPECT_GE(choices[i].tokens, choices[i].greedy_tokens);
    refined |= choices[i].tokens > choices[i].greedy_tokens;
  }
  EXPECT_TRUE(refined) << "some leaf is worth more in the texts than by its estimate";
}

TEST(TreeChoice, NoTreeIsLargerThanTheGuessesThatWereRight) {
  EXPECT_EQ(widths_of(build_trees(random_rates(1), do_nothing)), (std::vector<int>{1, 2, 4, 5})) << "first choices, four levels";
}

/// Tokens and milliseconds per step.
TreeChoice choice(int width, double tokens, double target_ms, double heads_ms) {
  TreeChoice made{.tree = {}, .greedy_tokens = tokens, .tokens = tokens, .target_s = target_ms / 1e3, .heads_s = heads_ms / 1e3};
  for (int i = 1; i < width; ++i) made.tree.nodes.push_back({0, 0, i - 1});
  return made;
}

TEST(TreeChoice, TheBest_hasTheMostTokensPerSecond) {
  const TreeReport report{.rates_file = "rates.json",
                          .tree_file = "tree.json",
                          .units = "cpu:0+cpu:1",
                          .context = 256,
                          .choices = {choice(1, 1, 1, 0), choice(2, 1.6, 2, 1), choice(4, 2, 2, 1), choice(8, 2.4, 3, 1)}};
  EXPECT_EQ(best_tree(report.choices).tree.width(), 4) << "the first has no guesses, and is faster";
  const std::string table = to_table(report);
  EXPECT_NE(table.find("no tree has more than 8 rows"), std::string::npos) << table;
  EXPECT_NE(table.find("fastest tree: 4 rows, 0.67 of the speed without guesses"), std::string::npos) << table;
  const TemporaryFolder folder;
  write_file(folder / "tree.json", to_json(report));
  EXPECT_EQ(read_tree(folder / "tree.json", 15), best_tree(report.choices).tree) << "as --tree reads it";
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["width"], 4);
  ASSERT_EQ(json["choices"].size(), 4u);
  EXPECT_NEAR(json["choices"][3]["tokens_per_s"].get<double>(), 600, 1e-6);
  EXPECT_EQ(json["choices"][3]["tree"].size(), 7u);
}

TEST(TreeChoice, RoundsThatDisagree_areALine) {
  EXPECT_EQ(disagreement({8, 8, 16}, 8), "");
  EXPECT_EQ(disagreement({8, 4}, 8), "");
  EXPECT_EQ(disagreement({16}, 16), "");
  const std::string line = disagreement({8, 4, 16, 16, 8}, 8);
  EXPECT_TRUE(line.starts_with("only 2 of 5 rounds found the tree of 8 rows to be the fastest; others found 4, 16 rows:")) << line;
  EXPECT_NE(line.find("-r 20"), std::string::npos) << line;
  TreeReport report;
  report.choices = {choice(1, 1, 1, 0), choice(2, 1.6, 2, 1), choice(4, 2, 2, 1)};
  report.best_widths = {2, 4, 2};
  EXPECT_NE(to_table(report).find("\nonly 1 of 3 rounds found the tree of 4 rows"), std::string::npos) << to_table(report);
  report.best_widths = {4, 4, 2};
  EXPECT_EQ(to_table(report).find("rounds found"), std::string::npos);
}

TEST(TreeChoice, TheContext_leavesRoomForTheWidestTree) {
  Hyperparameters h;
  h.context = 2048;
  EXPECT_EQ(usual_context(h), 256);
  ProfileOptions options;
  options.contexts = {1920}, options.contexts_given = true;
  EXPECT_NO_THROW(require_room_for_trees(options, h));
  options.contexts = {1921};
  EXPECT_THROW(require_room_for_trees(options, h), UsageError);
  options.contexts = {16, 32};
  EXPECT_THROW(require_room_for_trees(options, h), UsageError);
  options.contexts_given = false;
  EXPECT_NO_THROW(require_room_for_trees(options, h)) << "the default of other measurements";
  h.context = 200;
  EXPECT_EQ(usual_context(h), 72);
}

}  // namespace
}  // namespace yamata::test
