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

TEST(VocabularyMap, TokenThatTheTargetLacks_isNamed) {
  try {
    VocabularyMap::between({"a", "b"}, {"a", "zeta", "eta"});
    FAIL() << "taken";
  } catch (const ModelError& e) {
    EXPECT_NE(std::string(e.what()).find("token 1 'zeta'"), std::string::npos) << e.what();
  }
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
