// Guesses of prompt lookup decoding.
#include "src/speculation/prompt_lookup.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace yamata {
namespace {

using Text = std::vector<std::int32_t>;

Text continuation(const Text& text, std::size_t longest, std::size_t most) {
  const auto found = PromptLookup::continuation(text, longest, most);
  return {found.begin(), found.end()};
}

TEST(PromptLookup, Continuation_isThatOfTheFirstPassageWithTheLongestEnd) {
  // "5 6" came twice before, "4 5 6" once, "6" first of all.
  const Text text{6, 0, 5, 6, 1, 4, 5, 6, 7, 8, 9, 4, 5, 6};
  EXPECT_EQ(continuation(text, 3, 4), (Text{7, 8, 9, 4}));
  EXPECT_EQ(continuation(text, 2, 2), (Text{1, 4}));
  EXPECT_EQ(continuation(text, 1, 1), (Text{0}));
  EXPECT_EQ(continuation(text, 3, 10), (Text{7, 8, 9, 4, 5, 6})) << "to the end of the text";
}

TEST(PromptLookup, ShorterEnds_areTriedAfterLongerOnes) {
  EXPECT_EQ(continuation({2, 3, 1, 9, 3}, 3, 2), (Text{1, 9}));
  EXPECT_EQ(continuation({1, 1, 1}, 3, 4), (Text{1})) << "a passage may overlap with the end";
  EXPECT_TRUE(continuation({1, 2, 3}, 3, 4).empty());
  EXPECT_TRUE(continuation({1}, 3, 4).empty());
}

TEST(PromptLookup, Guesses_areAChainThatIsGuessedOnce) {
  const Text text{4, 5, 6, 7, 8, 4, 5};
  TokenTree tree(text.back(), static_cast<std::int32_t>(text.size()) - 1);
  PromptLookup source(0, 3);
  source.begin(1);
  ASSERT_TRUE(source.guess(tree, text, {.most = 3}));
  Text chain;
  for (NodeId id = tree.root().id; !tree.at(id).children.empty(); chain.push_back(tree.at(id).token)) {
    ASSERT_EQ(tree.at(id).children.size(), 1u);
    id = tree.at(id).children[0];
  }
  EXPECT_EQ(chain, (Text{6, 7, 8}));
  EXPECT_FALSE(source.guess(tree, text, {.most = 3}));
  EXPECT_TRUE(source.guess(tree, text, {.most = 4}));
}

}  // namespace
}  // namespace yamata
