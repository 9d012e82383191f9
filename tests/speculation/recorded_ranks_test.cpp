// Accuracies of recorded ranks.
#include "src/speculation/recorded_ranks.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

TEST(RecordedRanks, accuraciesAreOfThePositionsWhereAllNearerRanksAreKnown) {
  // Level 0: 0, 2, none, 0. Level 1: 1, 0; the third text position has no nearer rank, the fourth no text behind it.
  const std::vector<RankedText> texts{{{0, 1}, {2, 0}, {-1, -1}, {0, -1}}};
  EXPECT_EQ(accuracies_of(texts), (LevelAccuracies{{0.5, 0, 0.25}, {0.5, 0.5}}));
  EXPECT_EQ(accuracies_of(texts, 2), (LevelAccuracies{{0.5}, {0.5, 0.5}})) << "of ranks that a tree may have";
  EXPECT_EQ(accuracies_of({}), LevelAccuracies{});
}

}  // namespace
}  // namespace yamata
