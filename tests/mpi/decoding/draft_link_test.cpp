// The head's end of the line to a drafter: what is told, what is taken, and how often it was of use.
#include "mpi/decoding/draft_link.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(VocabularyMap, SameTokensInAnotherOrder_areTranslatedBothWays) {
  const VocabularyMap map = VocabularyMap::between({"a", "b", "c", "d"}, {"c", "a"});
  EXPECT_EQ(map.target(0), 2);
  EXPECT_EQ(map.target(1), 0);
  EXPECT_EQ(map.draft(2), 0);
  EXPECT_EQ(map.draft(3), 0) << "one that the draft lacks";
  EXPECT_EQ(VocabularyMap::between({"a", "b"}, {"a", "b"}).target(1), 1);
  EXPECT_THROW(VocabularyMap::between({"a"}, {"a", "z"}), ModelError);
}

class DraftLinkTest : public testing::Test {
 protected:
  DraftLinkTest() : tree_(7, 0), text_{7}, link_(0, 1, {}, 0.25) {}

  /// The drafter's id of the text's last token is `root`; its guesses below it.
  bool take(std::uint32_t root, std::int32_t position, std::vector<wire::Guess> guesses) {
    return link_.take({0, epoch_, root, position, true, 0, std::move(guesses)}, tree_, text_);
  }
  void ask() { asked_ = link_.next_commit(++epoch_, text_, 8, 0.5f, false); }
  void commit(std::int32_t token) {
    link_.learn(tree_, token);
    tree_.advance(token);
    text_.push_back(token);
  }

  TokenTree tree_;
  Ids text_;
  DraftLink link_;
  std::uint64_t epoch_ = 0;
  std::optional<wire::Commit> asked_;
};

TEST_F(DraftLinkTest, Text_isToldOnce) {
  ask();
  ASSERT_TRUE(asked_);
  EXPECT_EQ(asked_->tokens, Ids{7});
  EXPECT_EQ(asked_->least, 0.5f);
  EXPECT_TRUE(link_.asked(1));
  EXPECT_FALSE(link_.complete(1));
  EXPECT_EQ(link_.behind(text_), 0u);
  ask();
  EXPECT_FALSE(asked_);
  EXPECT_FALSE(link_.asked(2));
  commit(3);
  EXPECT_EQ(link_.behind(text_), 1u);
}

TEST_F(DraftLinkTest, GuessesBelowWhatBecameText_areKept_othersDropped) {
  ask();
  commit(3);
  // Of the text before 3: its guess 3, which came true, and 4, which did not.
  EXPECT_FALSE(take(10, 0, {{11, 10, 3, 0.9f}, {12, 10, 4, 0.1f}}));
  EXPECT_TRUE(link_.complete(1));
  EXPECT_TRUE(take(10, 0, {{13, 11, 5, 0.8f}, {14, 12, 6, 0.8f}}));
  EXPECT_NE(tree_.child(tree_.root().id, 5), kNoNode);
  EXPECT_EQ(tree_.guesses(), 1u);
}

TEST_F(DraftLinkTest, AnotherRequest_isToldFromItsBeginning_andGuessesOfTheOneBeforeAreIgnored) {
  ask();
  commit(3);
  ask();
  link_.begin(9);
  EXPECT_FALSE(link_.asked(2));
  EXPECT_EQ(link_.behind(text_), 2u);
  EXPECT_FALSE(take(10, 1, {{11, 10, 4, 0.9f}})) << "they are of request 0";
  EXPECT_FALSE(link_.complete(epoch_));
  epoch_ = 0;
  ask();
  ASSERT_TRUE(asked_);
  EXPECT_EQ(asked_->request, 9u);
  EXPECT_EQ(asked_->position, 0);
  EXPECT_EQ(asked_->tokens, (Ids{7, 3}));
  EXPECT_TRUE(link_.take({9, 1, 10, 1, true, 0, {{11, 10, 4, 0.9f}}}, tree_, text_));
}

TEST_F(DraftLinkTest, DraftThatDoesNotAnswer_isToldNoMore) {
  int told = 0;
  for (int i = 0; i < 100; ++i) {
    ask();
    told += asked_.has_value();
    commit(i);
  }
  EXPECT_GT(told, 8);
  EXPECT_LT(told, 30);
}

TEST_F(DraftLinkTest, HitRate_countsOnlyGuessesThatWereSentAndNobodyElseHad) {
  const auto rate_after = [&](bool sent, bool alone) {
    DraftLink link(0, 1, {}, 0);
    TokenTree tree(7, 0);
    Ids text{7};
    for (std::uint64_t epoch = 2; epoch < 40; ++epoch) {
      link.next_commit(epoch, text, 8, 0, false);
      link.take({0,
                 epoch,
                 static_cast<std::uint32_t>(2 * epoch),
                 static_cast<std::int32_t>(text.size()) - 1,
                 true,
                 0,
                 {{static_cast<std::uint32_t>(2 * epoch + 1), static_cast<std::uint32_t>(2 * epoch), 3, 0.9f}}},
                tree, text);
      const NodeId child = tree.child(tree.root().id, 3);
      tree.at(child).sent = sent;
      if (!alone) tree.add(tree.root().id, 3, 0.5f, {1, 0.5f});
      link.learn(tree, 3);
      tree.advance(3);
      text.push_back(3);
    }
    return link.expected_hit_rate();
  };
  EXPECT_GT(rate_after(true, true), 0.9);
  EXPECT_LT(rate_after(false, true), 0.2);
  EXPECT_LT(rate_after(true, false), 0.2);
}

TEST_F(DraftLinkTest, EvaluationsTime_isEstimatedFromTheModelsSizesUntilItIsMeasured) {
  EXPECT_DOUBLE_EQ(link_.evaluation_s(0.4), 0.1);
  link_.take({0, 1, 1, 0, true, 0.02, {}}, tree_, text_);
  EXPECT_DOUBLE_EQ(link_.evaluation_s(0.4), 0.02);
}

}  // namespace
}  // namespace yamata
