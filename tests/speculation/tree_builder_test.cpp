// Trees of a fixed shape: what greedy growth gives for accuracies worked through by hand, what replaying texts exchanges.
#include "src/speculation/tree_builder.hpp"

#include <gtest/gtest.h>

#include <random>

namespace yamata {
namespace {

using Node = StaticTree::Node;
using Texts = std::vector<RankedText>;

const LevelAccuracies kAccuracies{{0.75, 0.125, 0.0625}, {0.5, 0.25}, {0.5}};

TEST(TreeBuilder, aTreeOfOneIsTheRootAndOfTwoTheFirstGuessBesideIt) {
  EXPECT_EQ(greedy_tree(kAccuracies, 1).nodes, std::vector<Node>{Node{}});
  EXPECT_EQ(expected_tokens(greedy_tree(kAccuracies, 1), kAccuracies), 1.0);
  EXPECT_EQ(greedy_tree(kAccuracies, 2).nodes, (std::vector<Node>{{}, {0, 0, 0}}));
  EXPECT_EQ(expected_tokens(greedy_tree(kAccuracies, 2), kAccuracies), 1.75) << "W = 2 gives 1 + a[0][0]";
  EXPECT_DOUBLE_EQ(expected_tokens(greedy_tree({{0.72, 0.11}}, 2), {{0.72, 0.11}}), 1.72) << "Ghidorah, table I";
}

TEST(TreeBuilder, growsByTheMostAccuratePath) {
  // 3/4; then 3/4 * 1/2 before 1/8; 3/4 * 1/4 equals 3/8 * 1/2 and was in reach first; then 1/8 and, 3/16 * 1/2.
  const StaticTree tree = greedy_tree(kAccuracies, 7);
  EXPECT_EQ(tree.nodes, (std::vector<Node>{{}, {0, 0, 0}, {1, 1, 0}, {1, 1, 1}, {2, 2, 0}, {0, 0, 1}, {3, 2, 0}}));
  EXPECT_DOUBLE_EQ(expected_tokens(tree, kAccuracies), 1 + .75 + .375 + .1875 + .1875 + .125 + .09375);
}

TEST(TreeBuilder, endsWhereNothingIsEverRight) {
  const StaticTree tree = greedy_tree({{0.5, 0.0, 0.9}, {0.5}}, 64);
  EXPECT_EQ(tree.nodes, (std::vector<Node>{{}, {0, 0, 0}, {1, 1, 0}})) << "rank 2 is in reach only behind rank 1";
  EXPECT_EQ(greedy_tree({}, 8).width(), 1);
}

TEST(TreeBuilder, greedyIsTheBestOfAllTreesWhereRanksFall) {
  // Every tree of 4 that is closed under parents and lower ranks, by brute force over additions.
  const auto best_of_all = [&](auto& self, const StaticTree& tree, int width) -> double {
    if (tree.width() == width) return expected_tokens(tree, kAccuracies);
    double best = 0;
    for (int parent = 0; parent < tree.width(); ++parent) {
      const std::int32_t level = tree.nodes[static_cast<std::size_t>(parent)].level + 1;
      for (std::int32_t rank = 0; rank < 3; ++rank) {
        if (tree.child(parent, rank) >= 0) continue;
        StaticTree more = tree;
        more.nodes.push_back({parent, level, rank});
        best = std::max(best, self(self, more, width));
      }
    }
    return best;
  };
  for (const int width : {2, 3, 4, 5})
    EXPECT_DOUBLE_EQ(expected_tokens(greedy_tree(kAccuracies, width), kAccuracies), best_of_all(best_of_all, StaticTree{}, width));
}

TEST(TreeBuilder, replayStepsOverWhatIsAccepted) {
  const StaticTree tree = greedy_tree(kAccuracies, 3);  // 0, then 0-0
  EXPECT_EQ(tree.accepted({0, 0, 0}), 2);
  EXPECT_EQ(tree.accepted({0, 1}), 1);
  EXPECT_EQ(tree.accepted({-1, 0}), 0);
  EXPECT_EQ(tree.accepted({}), 0);
  // Three tokens by the first, one by the fourth, two by the fifth: six in three runs.
  const RankedText text{{0, 0, 0}, {1}, {1}, {1, 0}, {0, 1}, {0}};
  EXPECT_DOUBLE_EQ(replay(tree, Texts{text}), 2.0);
  EXPECT_DOUBLE_EQ(replay(tree, Texts{text, RankedText{{1}, {1}, {1}}}), 9.0 / 6);
  EXPECT_DOUBLE_EQ(replay(tree, {}), 1.0);
}

TEST(TreeBuilder, refinementExchangesLeavesThatTheTextsDoNotUse) {
  // By the accuracies of the levels alone 0-1 is worth more than 1-0; in the text it is the other way about.
  const LevelAccuracies accuracies{{0.5, 0.4}, {0.5, 0.45}};
  const StaticTree greedy = greedy_tree(accuracies, 5);
  EXPECT_EQ(greedy.nodes, (std::vector<Node>{{}, {0, 0, 0}, {0, 0, 1}, {1, 1, 0}, {1, 1, 1}}));
  const RankedText text{{0, 0}, {-1}, {-1}, {1, 0}, {-1}, {-1}, {0, 0}};
  // Rank 1 has no child in the greedy tree: it is a leaf, and may go; children of rank 0 stay below it.
  const StaticTree refined = refine_tree(greedy, accuracies, Texts{text});
  EXPECT_EQ(refined.width(), greedy.width());
  EXPECT_GE(replay(refined, Texts{text}), replay(greedy, Texts{text}));
  EXPECT_GE(refined.child(0, 0), 0) << "what has children stays";

  const StaticTree two_inner{.nodes = {{}, {0, 0, 0}, {0, 0, 1}, {1, 1, 0}, {1, 1, 1}, {2, 1, 1}}};
  const StaticTree found = refine_tree(two_inner, accuracies, Texts{text});
  EXPECT_EQ(found.accepted({1, 0}), 2) << "a leaf nobody used gave way to it";
  EXPECT_EQ(found.accepted({0, 0}), 2);
  EXPECT_DOUBLE_EQ(replay(found, Texts{text}), 9.0 / 3);
}

TEST(TreeBuilder, refinementTriesNoMoreSetsThanItMay) {
  const LevelAccuracies accuracies{{0.5, 0.4, 0.3, 0.2}};
  const Texts texts{RankedText{{3}, {-1}, {3}, {-1}}};
  const StaticTree greedy = greedy_tree(accuracies, 2);
  EXPECT_EQ(refine_tree(greedy, accuracies, texts, 3), greedy) << "the fourth set is out of bounds";
  EXPECT_EQ(refine_tree(greedy, accuracies, texts, 4).nodes, (std::vector<Node>{{}, {0, 0, 3}}));
}

TEST(TreeBuilder, refinementNeverLoses) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    RankedText text;
    std::vector<std::vector<double>> hits(3, std::vector<double>(4, 0));
    for (int at = 0; at < 200; ++at) {
      TrueRanks& ranks = text.emplace_back();
      for (auto& level : hits) {
        ranks.push_back(std::uniform_int_distribution(-1, 3)(random));
        if (ranks.back() >= 0) level[static_cast<std::size_t>(ranks.back())] += 1.0 / 200;
      }
    }
    for (const int width : {2, 4, 8, 16}) {
      const StaticTree greedy = greedy_tree(hits, width), refined = refine_tree(greedy, hits, Texts{text}, 50);
      EXPECT_EQ(refined.width(), greedy.width());
      EXPECT_GE(replay(refined, Texts{text}), replay(greedy, Texts{text}));
      for (int i = 1; i < refined.width(); ++i) {
        const Node& node = refined.nodes[static_cast<std::size_t>(i)];
        ASSERT_LT(node.parent, i);
        EXPECT_EQ(node.level, refined.nodes[static_cast<std::size_t>(node.parent)].level + 1);
        EXPECT_EQ(refined.child(node.parent, node.rank), i) << "once";
      }
    }
  }
}

TEST(TreeBuilder, theWidthIsThatOfTheMostTokensPerSecond) {
  EXPECT_EQ(best_width(std::vector<WidthChoice>{{1, 1, 1}, {2, 1.72, 1.1}, {4, 2.28, 1.2}, {8, 2.59, 1.6}}), 4);
  EXPECT_EQ(best_width(std::vector<WidthChoice>{{1, 1, 1}, {2, 2, 2}}), 1);
}

}  // namespace
}  // namespace yamata
