// Vocabularies with missing or wrong parts: an error that names the part, or a text that survives encoding and decoding, but never a crash.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "node/error.hpp"
#include "src/tokenizer/tokenizer.hpp"
#include "tests/model/support.hpp"
#include "tests/tokenizer/joined.hpp"

namespace yamata {
namespace {

constexpr std::uint64_t kNormal = 1, kControl = 3, kByte = 6;

/// <unk> <s> </s>, 256 byte tokens, some letters and a word.
ModelFile sentencepiece() {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::uint64_t> types{2, kControl, kControl};
  std::vector<double> scores{0, 0, 0};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    types.push_back(kByte);
    scores.push_back(0);
  }
  for (const char* text : {"\xE2\x96\x81", "a", "b", "ab",
                           "\xE2\x96\x81"
                           "ab",
                           "aa"}) {
    tokens.push_back(text);
    types.push_back(kNormal);
    scores.push_back(-static_cast<double>(tokens.size()));
  }
  ModelFile file;
  file.set("tokenizer.ggml.model", "llama");
  file.metadata["tokenizer.ggml.tokens"] = tokens;
  file.metadata["tokenizer.ggml.token_type"] = types;
  file.metadata["tokenizer.ggml.scores"] = scores;
  return file;
}

/// Three letters, a space, and two merges of the letters.
ModelFile byte_level() {
  ModelFile file;
  file.set("tokenizer.ggml.model", "gpt2");
  file.set("tokenizer.ggml.pre", "gpt-2");
  file.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>{"a", "b", "c", "\xC4\xA0", "ab", "abc", "<|endoftext|>"};
  file.metadata["tokenizer.ggml.token_type"] = std::vector<std::uint64_t>{1, 1, 1, 1, 1, 1, kControl};
  file.metadata["tokenizer.ggml.merges"] = std::vector<std::string>{"a b", "ab c"};
  file.set("tokenizer.ggml.eos_token_id", std::uint64_t{6});
  return file;
}

std::unique_ptr<Tokenizer> load(ModelFile file, const std::string& pre = "") {
  const gguf::File read = file.read();
  return Tokenizer::load(read, pre);
}

void expect_refusal(const ModelFile& file, const std::string& part, const std::string& pre = "") {
  try {
    load(file, pre);
    ADD_FAILURE() << "it was loaded; expected: " << part;
  } catch (const ModelError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "' does not say '" << part << "'";
    EXPECT_EQ(message.rfind("test.gguf: ", 0), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

using Ids = std::vector<TokenId>;

TEST(DamagedVocabulary, WithoutDamage_isLoaded) {
  EXPECT_EQ(load(sentencepiece())->encode("ab ab", true, false), (Ids{1, 263, 263}));
  EXPECT_EQ(load(byte_level())->encode("abc ab", true, false), (Ids{5, 3, 4}));
}

TEST(DamagedVocabulary, MissingArrays_areNamed) {
  for (const ModelFile& whole : {sentencepiece(), byte_level()}) {
    ModelFile file = whole;
    file.metadata.erase("tokenizer.ggml.tokens");
    expect_refusal(file, "tokenizer.ggml.tokens is missing");
    file.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>{};
    expect_refusal(file, "tokenizer.ggml.tokens is missing or empty");
    file.metadata["tokenizer.ggml.tokens"] = std::vector<std::uint64_t>{1, 2};
    expect_refusal(file, "tokenizer.ggml.tokens is not an array of strings");
    file.metadata.erase("tokenizer.ggml.model");
    expect_refusal(file, "tokenizer.ggml.model is missing");
  }
  ModelFile scoreless = sentencepiece(), mergeless = byte_level();
  scoreless.metadata.erase("tokenizer.ggml.scores");
  expect_refusal(scoreless, "tokenizer.ggml.scores has 0 entries");
  mergeless.metadata.erase("tokenizer.ggml.merges");
  expect_refusal(mergeless, "tokenizer.ggml.merges is missing");
}

TEST(DamagedVocabulary, LengthsThatDiffer_areRefused) {
  for (const std::size_t length : {1u, 264u, 266u}) {
    ModelFile file = sentencepiece();
    file.metadata["tokenizer.ggml.scores"] = std::vector<double>(length);
    expect_refusal(file, "tokenizer.ggml.scores has " + std::to_string(length) + " entries, but the vocabulary has 265 tokens");
    file = sentencepiece();
    file.metadata["tokenizer.ggml.token_type"] = std::vector<std::uint64_t>(length, 1);
    expect_refusal(file, "tokenizer.ggml.token_type has " + std::to_string(length) + " entries");
  }
}

TEST(DamagedVocabulary, ScoreThatIsNoNumber_isRefused) {
  ModelFile file = sentencepiece();
  std::get<std::vector<double>>(file.metadata["tokenizer.ggml.scores"])[260] = std::nan("");
  expect_refusal(file, "tokenizer.ggml.scores holds a value that is no number");
}

/// Every id out of range is ignored, with a warning.
TEST(DamagedVocabulary, SpecialIdsOutOfRange_areNamed) {
  const auto expect_warning = [](const ModelFile& file, const std::string& part) {
    const auto tokenizer = load(file);
    ASSERT_EQ(tokenizer->warnings().size(), 1u) << part;
    EXPECT_EQ(tokenizer->warnings()[0].rfind("test.gguf: " + part, 0), 0u) << tokenizer->warnings()[0];
    for (const TokenId id : {tokenizer->bos(), tokenizer->eos()}) EXPECT_LT(id, tokenizer->size());
  };
  for (const ModelFile& whole : {sentencepiece(), byte_level()}) {
    const auto size = std::get<std::vector<std::string>>(whole.metadata.at("tokenizer.ggml.tokens")).size();
    for (const char* name : {"bos", "eos", "unknown", "eot", "eom"}) {
      const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
      ModelFile file = whole;
      for (const std::uint64_t id : {std::uint64_t{size}, std::uint64_t{0xFFFFFFFF}, std::uint64_t{1} << 40}) {
        file.set(key, id);
        expect_warning(file, key + " is " + std::to_string(id));
      }
      file.metadata[key] = std::int64_t{-1};
      expect_warning(file, key + " is -1");
      file.set(key, std::uint64_t{size - 1});
      EXPECT_TRUE(load(file)->warnings().empty());
    }
  }
}

TEST(DamagedVocabulary, WithoutPreTokenizer_warns) {
  ModelFile file = byte_level();
  file.metadata.erase("tokenizer.ggml.pre");
  const auto tokenizer = load(file);
  ASSERT_EQ(tokenizer->warnings().size(), 1u);
  EXPECT_NE(tokenizer->warnings()[0].find("tokenizer.ggml.pre is missing"), std::string::npos) << tokenizer->warnings()[0];
  EXPECT_TRUE(load(file, "qwen2")->warnings().empty());
}

TEST(DamagedVocabulary, VocabularySmallerThanTheDefaultIds_hasNoSuchTokens) {
  ModelFile file = sentencepiece();
  file.metadata["tokenizer.ggml.tokens"] = std::vector<std::string>{"a"};
  file.metadata["tokenizer.ggml.token_type"] = std::vector<std::uint64_t>{1};
  file.metadata["tokenizer.ggml.scores"] = std::vector<double>{0};
  const auto tokenizer = load(file);
  EXPECT_EQ(tokenizer->bos(), -1);
  EXPECT_EQ(tokenizer->eos(), -1);
  for (const TokenId id : tokenizer->encode("aab \xFF", true, true)) EXPECT_EQ(id, 0);
}

TEST(DamagedVocabulary, UnknownTokenizers_areNamedWithThoseKnown) {
  ModelFile file = byte_level();
  file.set("tokenizer.ggml.pre", "nobody-knows");
  expect_refusal(file, "the pre-tokenizer 'nobody-knows' is not known (known: default, falcon");
  EXPECT_NO_THROW(load(file, "qwen2"));
  expect_refusal(byte_level(), "'other'", "other");
  expect_refusal(sentencepiece(), "has no pre-tokenizer; leave out --pre qwen2", "qwen2");
  file.set("tokenizer.ggml.model", "rwkv");
  expect_refusal(file, "the tokenizer model 'rwkv' is not known (known: llama, gpt2, gemma4)");
}

TEST(DamagedVocabulary, MergesOfUnknownTexts_fallBackToCharacters) {
  ModelFile file = byte_level();
  // "bc" and "abcabc" are not tokens; "x" and "y" are not part of any token.
  file.metadata["tokenizer.ggml.merges"] = std::vector<std::string>{"b c", "x y", "abc abc", "a bc", "q  r"};
  const auto tokenizer = load(file);
  EXPECT_EQ(tokenizer->encode("bc", false, false), (Ids{1, 2}));
  EXPECT_EQ(tokenizer->encode("abc", false, false), (Ids{5}));
  EXPECT_EQ(tokenizer->encode("abcabc", false, false), (Ids{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(tokenizer->encode("xyxy", false, false), Ids{});  // there is no token for these, not even an unknown one
  EXPECT_EQ(tokenizer->encode("axyb", false, false), (Ids{0, 1}));
}

TEST(DamagedVocabulary, MergesThatAreNoPairs_areRefused) {
  for (const char* line : {"", " ", "ab", " ab"}) {
    ModelFile file = byte_level();
    file.metadata["tokenizer.ggml.merges"] = std::vector<std::string>{"a b", line};
    expect_refusal(file, "tokenizer.ggml.merges[1] is not two texts");
  }
  for (const char* line : {"a ", "a  ", "  "}) {  // an empty text never takes part in a merge
    ModelFile file = byte_level();
    file.metadata["tokenizer.ggml.merges"] = std::vector<std::string>{line};
    EXPECT_EQ(load(file)->encode("a  a", false, false), (Ids{0, 3, 3, 0})) << "'" << line << "'";
  }
}

TEST(DamagedVocabulary, OddTokens_doNoHarm) {
  ModelFile file = sentencepiece();
  auto& tokens = std::get<std::vector<std::string>>(file.metadata["tokenizer.ggml.tokens"]);
  auto& types = std::get<std::vector<std::uint64_t>>(file.metadata["tokenizer.ggml.token_type"]);
  tokens[3 + 'x'] = "<0xZZ>";  // an invalid byte token
  tokens[3 + 'y'] = "";
  tokens[3 + 'z'] = "<0x7A";
  types[259] = 200;
  types[260] = ~std::uint64_t{0};
  tokens[1] = "";       // a control token without text
  tokens.back() = "a";  // a duplicate text
  const auto tokenizer = load(file);
  for (TokenId id = 0; id < tokenizer->size(); ++id) {
    tokenizer->piece(id, true);
    tokenizer->piece(id, false);
  }
  EXPECT_EQ(tokenizer->piece(3 + 'y'), "");
  EXPECT_EQ(tokenizer->piece(3 + 'z'), "<0x7A");
  EXPECT_EQ(test::joined(*tokenizer, tokenizer->encode("ab <s> \xE2\x82", true, true)), " ab <s> \xE2\x82");
  for (const TokenId id : tokenizer->encode("xyz", true, true)) EXPECT_LT(id, tokenizer->size());
}

TEST(DamagedVocabulary, WordsOfAMebibyte_comeBackWhole) {
  constexpr std::size_t kLength = 1 << 20;
  const auto spm = load(sentencepiece()), bpe = load(byte_level());
  for (const char* unit : {"a", "ab", " ", "ab ", " \xE2\x96\x81", "\n", "\xFF"}) {
    std::string text;
    while (text.size() < kLength) text += unit;
    const std::string from_spm = test::joined(*spm, spm->encode(text, false, false));
    if (std::string(unit).find("\xE2\x96\x81") == std::string::npos) {  // SentencePiece treats U+2581 and the space as equal
      EXPECT_TRUE(from_spm == " " + text) << "'" << unit << "': " << from_spm.size() << " bytes";
    }
    if (std::string(unit).find_first_not_of("ab ") == std::string::npos) {
      EXPECT_TRUE(test::joined(*bpe, bpe->encode(text, false, false)) == text) << "'" << unit << "'";
    } else {
      bpe->encode(text, false, false);
    }
  }
}

}  // namespace
}  // namespace yamata
