// Maps token ids of a draft to those of its target.
#include "mpi/decoding/vocabulary_map.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"

namespace yamata {
namespace {

TEST(VocabularyMap, SameVocabulary_needsNoTable) {
  const VocabularyMap map = VocabularyMap::between({"a", "b"}, {"a", "b"});
  EXPECT_TRUE(map.to_target.empty() && map.to_draft.empty());
  EXPECT_EQ(map.target(1), 1);
  EXPECT_EQ(map.draft(7), 7);
}

TEST(VocabularyMap, SameTokensInAnotherOrder_areTranslatedBothWays) {
  const VocabularyMap map = VocabularyMap::between({"a", "b", "c", "d"}, {"c", "a"});
  EXPECT_EQ(map.target(0), 2);
  EXPECT_EQ(map.target(1), 0);
  EXPECT_EQ(map.draft(2), 0);
  EXPECT_EQ(map.draft(0), 1);
  EXPECT_EQ(map.draft(3), 0) << "one that the draft lacks";
}

TEST(VocabularyMap, TokensThatTheTargetLacks_areNoGuesses) {
  const VocabularyMap map = VocabularyMap::between({"a", "b"}, {"zeta", "a", "b", "pad"});
  EXPECT_EQ(map.target(0), -1);
  EXPECT_EQ(map.target(2), 1);
  EXPECT_EQ(map.target(3), -1);
  EXPECT_EQ(map.draft(0), 1);
  EXPECT_EQ(map.draft_tokens, 4);
}

std::vector<std::string> with_padding(int tokens) {
  std::vector<std::string> all{"a"};
  for (int i = 0; i < tokens; ++i) all.push_back("pad" + std::to_string(i));
  return all;
}

TEST(VocabularyMap, MoreThan128TokensThatTheTargetLacks_areAnotherVocabulary) {
  EXPECT_EQ(VocabularyMap::between({"a", "b"}, with_padding(128)).target(128), -1);
  try {
    VocabularyMap::between({"a", "b"}, with_padding(129));
    FAIL() << "taken";
  } catch (const ModelError& e) {
    EXPECT_NE(std::string(e.what()).find("129 of its tokens, first 1 'pad0'"), std::string::npos) << e.what();
  }
  EXPECT_THROW(VocabularyMap::between({"a", "b"}, {"c", "d"}), ModelError);
}

TEST(VocabularyMap, TextThatTwoTokensOfTheTargetHave_isTheFirst) {
  const VocabularyMap map = VocabularyMap::between({"a", "b", "a"}, {"b", "a"});
  EXPECT_EQ(map.target(1), 0);
}

TEST(VocabularyMap, IdBeyondTheVocabulary_throws) {
  const VocabularyMap map = VocabularyMap::between({"a", "b"}, {"b", "a"});
  EXPECT_THROW(map.target(2), std::out_of_range);
  EXPECT_THROW(map.draft(-1), std::out_of_range);
}

}  // namespace
}  // namespace yamata
