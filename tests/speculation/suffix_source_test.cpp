// What earlier passages say of how the text goes on, and what is remembered of earlier texts.
#include "src/speculation/suffix_source.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "src/speculation/suffix_store.hpp"

namespace yamata {
namespace {

using Text = std::vector<std::int32_t>;

/// Down the first branch.
Text first_branch(const TokenTree& tree) {
  Text tokens;
  for (NodeId id = tree.root().id; !tree.at(id).children.empty(); tokens.push_back(tree.at(id).token)) id = tree.at(id).children.at(0);
  return tokens;
}

TokenTree tree_after(const Text& text) { return TokenTree(text.back(), static_cast<std::int32_t>(text.size()) - 1); }

/// A source that has begun on a text.
SuffixSource reader(std::shared_ptr<SuffixMemory> memory = std::make_shared<SuffixMemory>()) {
  SuffixSource source(0, std::move(memory));
  source.begin(1);
  return source;
}

TEST(SuffixSource, Guesses_areWhatFollowedTheEndOfTheText) {
  // "4 5 6" came once before, "5 6" twice, "6" three times.
  const Text text{4, 5, 6, 7, 8, 2, 5, 6, 1, 3, 9, 6, 0, 4, 5, 6};
  TokenTree tree = tree_after(text);
  SuffixSource source = reader();
  ASSERT_TRUE(source.guess(tree, text, {}));
  const Text guesses = first_branch(tree);
  ASSERT_GE(guesses.size(), 4u);
  EXPECT_EQ(Text(guesses.begin(), guesses.begin() + 4), (Text{7, 8, 2, 5}));
  EXPECT_FALSE(source.guess(tree, text, {})) << "nothing new to say";
}

TEST(SuffixSource, SeveralWaysToGoOn_areBranchesByHowOftenTheyCame) {
  const Text text{1, 2, 1, 2, 1, 3, 1};
  TokenTree tree = tree_after(text);
  SuffixSource source = reader();
  ASSERT_TRUE(source.guess(tree, text, {}));
  const auto& children = tree.root().children;
  ASSERT_EQ(children.size(), 2u);
  EXPECT_EQ(tree.at(children[0]).token, 2);
  EXPECT_EQ(tree.at(children[1]).token, 3);
  const float one = 1.f / 3;  // a passage of one token, beside two rejections
  EXPECT_FLOAT_EQ(*tree.at(children[0]).draft_probability(0), one * 2 / 3);
  EXPECT_FLOAT_EQ(*tree.at(children[1]).draft_probability(0), one / 3);
}

TEST(SuffixSource, PassageThatIsSureOfMuch_goesBeforeALongerOneThatIsNot) {
  // After "7 8" came four different tokens; after "8" alone mostly "5 5 5 5".
  Text text;
  for (const std::int32_t token : {1, 2, 3, 4}) text.insert(text.end(), {7, 8, token, 0});
  for (int i = 0; i < 40; ++i) text.insert(text.end(), {8, 5, 5, 5, 5});
  text.insert(text.end(), {7, 8});
  TokenTree tree = tree_after(text);
  ASSERT_TRUE(reader().guess(tree, text, {}));
  const Text guesses = first_branch(tree);
  ASSERT_GE(guesses.size(), 4u);
  EXPECT_EQ(Text(guesses.begin(), guesses.begin() + 4), (Text{5, 5, 5, 5}));
}

TEST(SuffixSource, Repetition_isGuessedToGoOn) {
  Text text;
  for (std::int32_t i = 0; i < 30; ++i) text.push_back(i % 3 + 1);
  TokenTree tree = tree_after(text);
  ASSERT_TRUE(reader().guess(tree, text, {}));
  const Text guesses = first_branch(tree);
  ASSERT_GT(guesses.size(), 6u);
  for (std::size_t i = 0; i < guesses.size(); ++i) EXPECT_EQ(guesses[i], static_cast<std::int32_t>(i % 3 + 1)) << i;
}

TEST(SuffixSource, TokenThatNeverCameBefore_givesNoGuess) {
  const Text text{1, 2, 3, 4};
  TokenTree tree = tree_after(text);
  EXPECT_FALSE(reader().guess(tree, text, {}));
  EXPECT_EQ(tree.guesses(), 0u);
}

TEST(SuffixSource, GuessesThatAreNeverAccepted_sinkBelowAnyUse) {
  Text text{0};
  TokenTree tree(0, 0);
  SuffixSource source = reader();
  float first = 0, last = 0;
  for (std::int32_t next = 1; next < 30; ++next) {  // 0 1 0 2 0 3 ...: after 0 nothing comes twice
    for (const std::int32_t token : {next, 0}) {
      source.learn(tree, token);
      tree.advance(token);
      text.push_back(token);
      source.guess(tree, text, {});
    }
    ASSERT_FALSE(tree.root().children.empty());
    last = tree.at(tree.root().children.at(0)).path_probability;
    if (next == 1) first = last;
  }
  EXPECT_GT(first, 0.2f);
  EXPECT_LT(last, 0.05f);
}

/// Writes `output` after `prompt`, one token after the other.
void write(SuffixSource& source, std::uint64_t request, const Text& prompt, const Text& output) {
  source.begin(request);
  TokenTree tree = tree_after(prompt);
  Text text = prompt;
  source.guess(tree, text, {});
  for (const std::int32_t token : output) {
    source.learn(tree, token);
    tree.advance(token);
    text.push_back(token);
    source.guess(tree, text, {});
  }
}

TEST(SuffixSource, OutputOfAnEarlierRequest_isGuessedAgain_itsPromptIsNot) {
  SuffixSource source(0);
  write(source, 1, {1, 2, 3, 4}, {5, 6, 7, 8});
  source.begin(2);
  const Text text{9, 5, 6};
  TokenTree tree = tree_after(text);
  ASSERT_TRUE(source.guess(tree, text, {}));
  EXPECT_EQ(first_branch(tree), (Text{7, 8}));
  source.begin(3);
  const Text prompt{9, 1, 2};
  TokenTree other = tree_after(prompt);
  EXPECT_FALSE(source.guess(other, prompt, {}));
}

TEST(SuffixSource, OtherTextsThatEndMeanwhile_areRemembered) {
  const auto memory = std::make_shared<SuffixMemory>(24);
  memory->add(Text{1, 2, 3, 4, 5, 6});
  SuffixSource source = reader(memory), other = reader(memory);
  Text text{9, 1, 2};
  TokenTree tree = tree_after(text);
  ASSERT_TRUE(source.guess(tree, text, {}));
  EXPECT_EQ(first_branch(tree), (Text{3, 4, 5, 6}));
  // The passage that it has found splits, and then its text is pushed out.
  TokenTree others(7, 0);
  for (const std::int32_t token : {8, 1, 2, 3, 0, 0, 8, 1, 2, 3, 0, 0, 8, 1, 2, 3, 0, 0, 8, 0}) {
    other.learn(others, token);
    others.advance(token);
  }
  EXPECT_EQ(memory->trie().texts(), 1u) << "not before it has ended";
  other.end();
  EXPECT_EQ(memory->trie().texts(), 1u);
  EXPECT_EQ(memory->own_texts().size(), 1u);
  text.push_back(3);
  tree = tree_after(text);
  ASSERT_TRUE(source.guess(tree, text, {}));
  EXPECT_EQ(tree.at(tree.root().children.at(0)).token, 0);
}

TEST(SuffixMemory, TooManyTokens_pushTheOldestTextsOut) {
  SuffixMemory memory(10);
  memory.add(Text{1, 1, 1, 1});
  memory.add(Text{2, 2, 2, 2});
  memory.add_own(Text{3, 3, 3});
  ASSERT_EQ(memory.trie().texts(), 2u);
  EXPECT_EQ(memory.trie().text(0), (Text{2, 2, 2, 2}));
  EXPECT_EQ(memory.own_texts(), (std::vector<Text>{{3, 3, 3}}));
  Text longest(12, 4);
  longest[1] = 5;
  memory.add(longest);
  ASSERT_EQ(memory.trie().texts(), 1u);
  EXPECT_EQ(memory.trie().text(0), Text(10, 4)) << "of what is too long, the end";
}

TEST(SuffixStore, DecodeOfEncode_isTheSame) {
  const SuffixStore store{0x123456789abcdef0u, {{1, 2, 3}, {}, {4095, 0}}};
  const auto again = decode_suffix_store(encode(store), 4096);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->vocabulary, store.vocabulary);
  EXPECT_EQ(again->texts, store.texts);
  EXPECT_TRUE(decode_suffix_store("", 4096)->texts.empty());
}

TEST(SuffixStore, EveryDamagedByteAndEveryCut_isFound) {
  const std::string whole = encode({7, {{1, 2, 3}, {9}}});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    EXPECT_EQ(at == 0, decode_suffix_store(std::string_view(whole).substr(0, at), 4096).has_value()) << "cut at " << at;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_FALSE(decode_suffix_store(damaged, 4096)) << "bit " << bit << " of byte " << at;
    }
  }
  EXPECT_FALSE(decode_suffix_store(whole + '\0', 4096));
}

TEST(SuffixStore, TokensThatTheVocabularyHasNot_areRefused) {
  EXPECT_TRUE(decode_suffix_store(encode({7, {{9}}}), 10));
  EXPECT_FALSE(decode_suffix_store(encode({7, {{10}}}), 10));
  EXPECT_FALSE(decode_suffix_store(encode({7, {{-1}}}), 10));
}

TEST(SuffixStore, VocabulariesOfOtherTexts_haveAnotherHash) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(hash_vocabulary(Texts{"a", "bc"}), hash_vocabulary(Texts{"a", "bc"}));
  EXPECT_NE(hash_vocabulary(Texts{"a", "bc"}), hash_vocabulary(Texts{"ab", "c"}));
  EXPECT_NE(hash_vocabulary(Texts{"a", "bc"}), hash_vocabulary(Texts{"bc", "a"}));
}

}  // namespace
}  // namespace yamata
