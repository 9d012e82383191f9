// Lookahead decoding: the window's Jacobi iteration, its n-grams, and the text.
#include "src/speculation/lookahead_source.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace yamata {
namespace {

using Text = std::vector<std::int32_t>;

/// A target and the text that it writes with a source's guesses, step by step.
class Writer {
 public:
  using Next = std::function<std::int32_t(const Text&)>;
  Writer(const LookaheadOptions& options, Text prompt, Next next)
      : source_(0, options), next_(std::move(next)), text_(std::move(prompt)), tree_(text_.back(), position()) {
    source_.begin(1);
  }
  /// Computes all nodes of the tree, and adds the tokens that this gives to the text. Returns how many.
  int step() {
    source_.guess(tree_, text_, {.most = 64});
    const std::vector<NodeId> nodes = tree_.ids();
    Text best;
    for (const NodeId id : nodes) best.push_back(next_(path_to(id)));
    source_.take_best(nodes, best);
    most_nodes = std::max(most_nodes, tree_.guesses());
    int grown = 0;
    for (bool guessed = true; guessed; ++grown) {
      const std::int32_t token = next_(text_);
      guessed = tree_.child(tree_.root().id, token) != kNoNode;
      source_.learn(tree_, token);
      tree_.advance(token);
      text_.push_back(token);
    }
    tree_.prune();
    return grown;
  }
  const Text& text() const { return text_; }
  /// The tokens below the root along the first children, as many as there are.
  TokenTree& guessed() {
    source_.guess(tree_, text_, {.most = 64});
    return tree_;
  }
  std::size_t most_nodes = 0;

 private:
  std::int32_t position() const { return static_cast<std::int32_t>(text_.size()) - 1; }
  Text path_to(NodeId id) const {
    Text below;
    for (; id != tree_.root().id; id = tree_.at(id).parent) below.insert(below.begin(), tree_.at(id).token);
    Text all = text_;
    all.insert(all.end(), below.begin(), below.end());
    return all;
  }

  LookaheadSource source_;
  Next next_;
  Text text_;
  TokenTree tree_;
};

std::int32_t count_on(const Text& text) { return (text.back() + 1) % 50; }

TEST(Lookahead, Window_isAChainWithAColumnBelowEachToken) {
  Writer writer({.window = 3, .ngram = 4, .guesses = 2}, {7}, count_on);
  const TokenTree& tree = writer.guessed();
  // The prompt has one token, so all of the window is this token: a chain to the end of the last column.
  EXPECT_EQ(tree.guesses(), 4u);
  NodeId id = tree.root().id;
  for (int depth = 0; depth < 4; ++depth) {
    id = tree.child(id, 7);
    ASSERT_NE(id, kNoNode) << depth;
  }
  EXPECT_TRUE(tree.at(id).children.empty());
}

TEST(Lookahead, StepsOfATextThatCountsOn_becomeLonger_andTheTextIsThatOfTheTarget) {
  const LookaheadOptions options{.window = 5, .ngram = 4, .guesses = 3};
  Writer writer(options, {3, 11, 42, 8, 27, 19, 33}, count_on);
  int tokens = 0, steps = 0;
  for (; tokens < 120; ++steps) tokens += writer.step();
  for (std::size_t i = 7; i < writer.text().size(); ++i) EXPECT_EQ(writer.text()[i], (34 + static_cast<std::int32_t>(i) - 7) % 50);
  EXPECT_LE(writer.most_nodes, static_cast<std::size_t>(options.nodes()));
  EXPECT_LT(steps, 60) << "n-grams are accepted";
}

/// What follows a token is what the target said of the window's guesses, never what is in the text.
TEST(Lookahead, Ngrams_areTheColumnsOfTheWindow) {
  Writer writer({.window = 1, .ngram = 2, .guesses = 2}, {5}, [](const Text& text) { return text.size() < 3 ? 5 : 6; });
  EXPECT_EQ(writer.guessed().guesses(), 0u) << "the window is the last token alone";
  EXPECT_EQ(writer.step(), 1);
  EXPECT_NE(writer.guessed().child(writer.guessed().root().id, 5), kNoNode) << "5 came after 5";
  EXPECT_EQ(writer.step(), 2);
  EXPECT_EQ(writer.text(), (Text{5, 5, 5, 6}));
}

TEST(Lookahead, MostNgrams_areKeptForAToken_theLatestFirst) {
  std::int32_t next = 0;
  LookaheadSource source(0, {.window = 1, .ngram = 2, .guesses = 2});
  source.begin(1);
  TokenTree tree(5, 0);
  Text text{5};
  source.guess(tree, text, {.most = 8});
  for (next = 10; next < 14; ++next) {
    const std::vector<NodeId> nodes{tree.root().id};
    source.take_best(nodes, Text{next});
    text.push_back(5);  // as if sampled
    tree.advance(5);
    tree.prune();
    source.guess(tree, text, {.most = 8});
  }
  ASSERT_EQ(tree.guesses(), 2u);
  EXPECT_EQ(tree.at(tree.root().children[0]).token, 13);
  EXPECT_EQ(tree.at(tree.root().children[1]).token, 12);
}

/// A run that was sent without the window says nothing of it: then its rows stay, and only their columns move.
TEST(Lookahead, WindowThatWasNotComputed_movesByTheGrowthOfTheText) {
  LookaheadSource source(0, {.window = 4, .ngram = 2, .guesses = 2});
  source.begin(1);
  Text text{1, 2, 3};
  TokenTree tree(3, 2);
  source.guess(tree, text, {.most = 8});
  Text before, after;
  for (NodeId id = tree.root().id; !tree.at(id).children.empty();) id = tree.at(id).children[0], before.push_back(tree.at(id).token);
  ASSERT_EQ(before.size(), 3u);
  source.take_best(std::vector<NodeId>{tree.root().id}, Text{9});  // the root alone
  text.push_back(9);
  tree.advance(9);
  tree.prune();
  source.guess(tree, text, {.most = 8});
  for (NodeId id = tree.root().id; !tree.at(id).children.empty();) id = tree.at(id).children[0], after.push_back(tree.at(id).token);
  ASSERT_EQ(after.size(), 3u);
  EXPECT_EQ(after[0], before[1]);
  EXPECT_EQ(after[1], before[2]);
}

}  // namespace
}  // namespace yamata
