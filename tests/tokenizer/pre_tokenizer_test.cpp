// Pre-tokenizers without a vocabulary in this repository, tested with the definitions of their patterns, and with made-up vocabularies.
#include "src/tokenizer/pre_tokenizer.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "src/tokenizer/tokenizer.hpp"
#include "tests/gguf/support.hpp"
#include "tests/paths.hpp"
#include "tests/tokenizer/made_up_vocabulary.hpp"

namespace yamata {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces split(const char* name, std::string_view text) {
  const auto found = PreTokenizer::find(name);
  EXPECT_NE(found, nullptr) << name;
  return found ? found->split(text) : Pieces{};
}

/// tokenizer.json of StarCoder and of Granite's code models: single digits, then GPT-2's pattern.
TEST(PreTokenizer, Starcoder_takesDigitsOneByOne) {
  for (const char* name : {"starcoder", "refact", "command-r"})
    EXPECT_EQ(split(name, "It's 1234 x"), (Pieces{"It", "'s", " ", "1", "2", "3", "4", " x"})) << name;
}

/// tokenizer.json of GLM-4 and DBRX: Llama 3's pattern, digits in groups of three.
TEST(PreTokenizer, Glm4_takesDigitsByThrees) {
  for (const char* name : {"glm4", "chatglm-bpe", "dbrx"})
    EXPECT_EQ(split(name, "It's 1234\n\n x"), (Pieces{"It", "'s", " ", "123", "4", "\n\n", " x"})) << name;
}

TEST(PreTokenizer, Stablelm2_isQwen2s) { EXPECT_EQ(split("stablelm2", "a 123"), split("qwen2", "a 123")); }

TEST(PreTokenizer, Olmo_isGpt2s) { EXPECT_EQ(split("olmo", "It's 123"), (Pieces{"It", "'s", " 123"})); }

/// tiktoken's o200k_base: a word begins with capitals and includes its ending.
TEST(PreTokenizer, Gpt4o_cutsWordsAtCapitals) {
  EXPECT_EQ(split("gpt-4o", "It's HTTPServer, 1234/\n"), (Pieces{"It's", " HTTPServer", ",", " ", "123", "4", "/\n"}));
  EXPECT_EQ(split("gpt-4o", "camelCase CAN'T"), (Pieces{"camel", "Case", " CAN'T"}));
}

std::string from_hex(const std::string& line) {
  std::string text;
  for (std::size_t i = 0; i + 1 < line.size(); i += 2) text += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
  return text;
}

/// Of expected/pre_tokenizers.txt, which ask_llama_cpp.py writes.
struct Expected {
  std::vector<std::string> names;
  std::vector<std::vector<TokenId>> ids;  ///< of each text
};

std::vector<Expected> read_expected(std::vector<std::string>& texts) {
  std::vector<Expected> all;
  std::ifstream file(test::source_path("/tests/tokenizer/expected/pre_tokenizers.txt"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, hex;
    words >> kind;
    if (kind == "text" && words >> hex) texts.push_back(from_hex(hex));
    if (kind == "names") all.push_back({{std::istream_iterator<std::string>(words), {}}, {}});
    if (kind == "ids") all.back().ids.push_back({std::istream_iterator<TokenId>(words), {}});
  }
  return all;
}

/// The ids show where each is split. They are llama.cpp's, or for those that llama.cpp approximates the ones of the publisher's pattern.
TEST(PreTokenizer, MadeUpVocabularies_giveExpectedIds) {
  std::vector<std::string> texts;
  const std::vector<Expected> all = read_expected(texts);
  ASSERT_EQ(all.size(), pre_tokenizer_table().size());
  ASSERT_GT(texts.size(), 10u);
  for (std::size_t row = 0; row < all.size(); ++row) {
    const PreTokenizerRow& known = pre_tokenizer_table()[row];
    EXPECT_EQ(all[row].names, std::vector<std::string>(known.names.begin(), known.names.end()));
    ASSERT_EQ(all[row].ids.size(), texts.size());
    const std::string bytes = tokenizer_test::made_up_model(all[row].names.front(), known.raw);
    const auto tokenizer = Tokenizer::load(gguf::File::parse(gguf_test::as_span(bytes), "test"));
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(tokenizer->encode(texts[i], false, false), all[row].ids[i]) << all[row].names.front() << ": " << texts[i];
  }
}

/// A group is repeated in these patterns, and the compiled form's stack is small.
TEST(PreTokenizer, LongWords_areWhole) {
  const std::string text = std::string(300000, 'a') + "!";
  for (const char* name : {"kimi-k2", "exaone-moe", "gpt-4o", "llama-bpe"}) EXPECT_EQ(split(name, text).size(), 2u) << name;
}

TEST(PreTokenizer, LongNumbers_areSplitByThreesFromTheRight) {
  const std::string number(100001, '7');
  for (const char* name : {"superbpe", "afmoe", "tiny_aya"}) {
    const Pieces pieces = split(name, number);
    ASSERT_EQ(pieces.size(), 33334u) << name;
    EXPECT_EQ(pieces.front(), "77") << name;
  }
}

/// Vocabularies of characters: what they lack is written in byte tokens, and comes back.
TEST(PreTokenizer, Gemma4_isRawText) {
  const std::string bytes = tokenizer_test::made_up_model("gemma4", true);
  const auto tokenizer = Tokenizer::load(gguf::File::parse(gguf_test::as_span(bytes), "test"));
  EXPECT_TRUE(tokenizer->adds_bos()) << "whatever the file says";
  const std::string text = " a  \xE0\xA4\xB9\n\n\nb\x01 \xF0\x9F\x98\x80";
  std::string back;
  for (const TokenId id : tokenizer->encode(text, false, false)) back += tokenizer->piece(id);
  EXPECT_EQ(back, text);
}

}  // namespace
}  // namespace yamata
