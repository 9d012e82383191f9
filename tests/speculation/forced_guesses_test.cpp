// How probable guesses of what a schema demands are held to be.
#include "src/speculation/forced_guesses.hpp"

#include <gtest/gtest.h>

#include "src/grammar/json_schema.hpp"
#include "src/speculation/policy.hpp"

namespace yamata {
namespace {

std::shared_ptr<const GrammarVocabulary> forced_vocabulary() {
  std::vector<GrammarToken> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({.bytes = std::string(1, static_cast<char>(byte))});
  for (const char* text : {"{\"", "name", "kind", "\":", " \"", "\n  ", "cat", "dog"}) tokens.push_back({.bytes = text});
  return std::make_shared<const GrammarVocabulary>(std::move(tokens));
}

class ForcedGuessesTest : public testing::Test {
 protected:
  ForcedGuessesTest()
      : grammar_(forced_vocabulary(), compile_json_schema(R"({"type":"object","required":["name","kind"],
                                                              "properties":{"name":{"const":"cat"},"kind":{"const":"dog"}}})")),
        source_(0, grammar_, {}),
        text_{0},
        tree_(0, 0, &grammar_, source_.state()) {
    guess();
  }
  void guess() { source_.guess(tree_, text_, {.epoch = text_.size(), .most = 8}); }
  /// The text grows by the token of these bytes.
  void commit(const std::string& bytes) {
    const std::int32_t token = grammar_.vocabulary().longest_prefix(bytes);
    ASSERT_EQ(grammar_.vocabulary().token(token).bytes, bytes);
    source_.learn(tree_, token);
    tree_.advance(token);
    text_.push_back(token);
    guess();
  }
  /// The guesses and their probabilities, each after the one before.
  std::vector<std::pair<std::string, float>> guesses() const {
    std::vector<std::pair<std::string, float>> found;
    NodeId node = tree_.root().id;
    for (auto below = ranked_children(tree_, node); !below.empty(); below = ranked_children(tree_, node)) {
      node = below.front();
      found.emplace_back(grammar_.vocabulary().token(tree_.at(node).token).bytes, tree_.at(node).probability);
    }
    return found;
  }

  TokenGrammar grammar_;
  ForcedGuesses source_;
  std::vector<std::int32_t> text_;
  TokenTree tree_;
};

TEST_F(ForcedGuessesTest, WhereALineMayBegin_theGuessIsNotSure) {
  ASSERT_EQ(guesses()[0].first, "{\"");
  EXPECT_LT(guesses()[0].second, 0.5f);
  EXPECT_GT(guesses()[1].second, 0.9f) << "what follows it is";
  commit("{");
  ASSERT_EQ(guesses()[0].first, "\"");
  EXPECT_LT(guesses()[0].second, 0.5f);
}

TEST_F(ForcedGuessesTest, WrongGuessesOfTheStyle_doNotMakeTheOthersLessProbable) {
  for (const char* bytes : {"{", "\n", " ", " ", "\""}) commit(bytes);
  ASSERT_EQ(guesses()[0].first, "name");
  EXPECT_GT(guesses()[0].second, 0.5f);
}

TEST_F(ForcedGuessesTest, WordsThatAreDividedOtherwise_doNotMakePunctuationLessProbable) {
  for (const char* bytes : {"{\"", "n", "a", "m", "e"}) commit(bytes);
  ASSERT_EQ(guesses()[0].first, "\":");
  EXPECT_GT(guesses()[0].second, 0.5f);
  for (const char* bytes : {"\":", " \"", "cat", "\""}) commit(bytes);
  ASSERT_EQ(guesses()[0].first, ",");
  EXPECT_GT(guesses()[0].second, 0.9f);
}

}  // namespace
}  // namespace yamata
