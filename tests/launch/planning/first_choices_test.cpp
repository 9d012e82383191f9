// The acceptance of a draft that is learnt from a text.
#include "launch/program/planning/first_choices.hpp"

#include <gtest/gtest.h>

namespace yamata {
namespace {

TEST(FirstChoices, AreTheMostProbableGuesses) {
  const std::vector<std::vector<Choice>> choices{{{0.25f, 7}, {0.5f, 9}}, {{0.75f, 3}}};
  const FirstChoices both = first_choices(choices, std::vector<std::int32_t>{9, 3}, 0.5);
  EXPECT_DOUBLE_EQ(both.right, 1);
  EXPECT_DOUBLE_EQ(both.probability, 0.625);
  EXPECT_DOUBLE_EQ(first_choices(choices, std::vector<std::int32_t>{7, 3}, 0.5).right, 0.5) << "7 was its second";
}

TEST(FirstChoices, OfTokensForWhichTheDraftWasNotAsked_areAssumed) {
  const FirstChoices some = first_choices({{{0.5f, 1}}, {}, {}, {{0.5f, 1}}}, std::vector<std::int32_t>{1, 1, 1, 2}, 0.75);
  EXPECT_DOUBLE_EQ(some.right, 0.625);
  EXPECT_DOUBLE_EQ(some.probability, 0.5) << "of those that it had";
  EXPECT_DOUBLE_EQ(first_choices({{{0.5f, 1}}, {}}, std::vector<std::int32_t>{1, 1}, 0.25).right, 0.625);
  EXPECT_EQ(first_choices({{}, {}}, std::vector<std::int32_t>{1, 2}, 0.5).probability, 0) << "nothing is known";
}

}  // namespace
}  // namespace yamata
