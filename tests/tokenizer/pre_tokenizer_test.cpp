// Pre-tokenizers without a vocabulary in this repository, tested with the definitions of their patterns.
#include "src/tokenizer/pre_tokenizer.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace yamata
