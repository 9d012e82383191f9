// Guesses from a corpus that stays as it is.
#include "src/speculation/datastore_source.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace yamata {
namespace {

using Text = std::vector<std::int32_t>;

std::shared_ptr<SuffixMemory> corpus_of(const std::vector<Text>& texts) {
  auto corpus = std::make_shared<SuffixMemory>();
  for (const Text& text : texts) corpus->add(text);
  return corpus;
}

TokenTree tree_at_the_end_of(const Text& text) { return TokenTree(text.back(), static_cast<std::int32_t>(text.size()) - 1); }

/// What a source guesses after a text, as children of each node by tokens.
TokenTree guessed(const std::shared_ptr<SuffixMemory>& corpus, const Text& text, std::int32_t most) {
  DatastoreSource source(0, corpus);
  source.begin(1);
  TokenTree tree = tree_at_the_end_of(text);
  const bool grown = source.guess(tree, text, {.most = most});
  EXPECT_EQ(grown, tree.guesses() > 0);
  EXPECT_FALSE(source.guess(tree, text, {.most = most})) << "nothing new to say";
  return tree;
}

TEST(Datastore, LongestPassage_isTakenAndItsContinuationsBranch) {
  // "2 3" is followed by 4 5 twice and by 6 once, "3" mostly by 7.
  const auto corpus = corpus_of({{1, 2, 3, 4, 5}, {2, 3, 4, 5}, {9, 2, 3, 6}, {3, 7, 3, 7, 3, 7, 3, 7}});
  const TokenTree tree = guessed(corpus, {8, 2, 3}, 3);
  EXPECT_EQ(tree.guesses(), 3u);
  const auto& children = tree.root().children;
  ASSERT_EQ(children.size(), 2u);
  EXPECT_EQ(tree.at(children[0]).token, 4);
  EXPECT_FLOAT_EQ(*tree.at(children[0]).draft_probability(0), 2.f / 3);
  EXPECT_NE(tree.child(children[0], 5), kNoNode);
  EXPECT_EQ(tree.at(children[1]).token, 6);
  EXPECT_EQ(guessed(corpus, {2, 3}, 1).guesses(), 1u);
}

TEST(Datastore, PassageAtTheEndOfATextAlone_givesWayToAShorterOne) {
  const auto corpus = corpus_of({{3, 4}, {1, 2, 3}});
  EXPECT_NE(guessed(corpus, {1, 2, 3}, 4).child(TokenTree(3, 2).root().id, 4), kNoNode);
}

/// It is no suffix decoding: neither this text nor earlier ones are looked at.
TEST(Datastore, TextItself_isNotGuessedFrom) {
  const auto corpus = corpus_of({{1, 2}});
  EXPECT_EQ(guessed(corpus, {5, 6, 7, 5, 6}, 8).guesses(), 0u);
  DatastoreSource source(0, corpus);
  for (int request = 1; request < 3; ++request) {
    source.begin(static_cast<std::uint64_t>(request));
    const Text text{5, 6};
    TokenTree tree = tree_at_the_end_of(text);
    EXPECT_FALSE(source.guess(tree, text, {.most = 8}));
    source.learn(tree, 5);
  }
  EXPECT_EQ(corpus->trie().texts(), 1u);
  EXPECT_TRUE(corpus->own_texts().empty());
}

TEST(Datastore, TextThatGrows_isReadOn) {
  const auto corpus = corpus_of({{1, 2, 3, 4, 5, 6}});
  DatastoreSource source(0, corpus);
  source.begin(1);
  Text text{1, 2};
  TokenTree tree = tree_at_the_end_of(text);
  ASSERT_TRUE(source.guess(tree, text, {.most = 2}));
  source.learn(tree, 3);
  tree.advance(3);
  text.push_back(3);
  ASSERT_TRUE(source.guess(tree, text, {.most = 3}));
  EXPECT_EQ(tree.guesses(), 3u) << "4, known before, then 5 and 6";
}

}  // namespace
}  // namespace yamata
