#include "src/tokenizer/tokenizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "node/error.hpp"
#include "tests/paths.hpp"
#include "tests/tokenizer/joined.hpp"

namespace yamata {
namespace {

std::filesystem::path shared() {
  const char* folder = std::getenv("YAMATA_SHARED");
  return folder != nullptr ? std::filesystem::path(folder) : std::filesystem::path(test::source_path("/../shared"));
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> split(const std::string& text, const std::string& at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(at, begin)) != std::string::npos; begin = end + at.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

class Vocabulary : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = shared() / "tokenizers" / (std::string("ggml-vocab-") + GetParam() + ".gguf");
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << path_ << " is not there";
    tokenizer_ = Tokenizer::load(gguf::File::open(path_));
  }
  std::filesystem::path path_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(Vocabulary, ReferenceTexts_giveReferenceIds) {
  const std::vector<std::string> texts = split(read(path_.string() + ".inp"), "\n__ggml_vocab_test__\n");
  const std::vector<std::string> lines = split(read(path_.string() + ".out"), "\n");
  ASSERT_GT(texts.size(), 40u);
  ASSERT_GE(lines.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::istringstream line(lines[i]);
    const std::vector<TokenId> expected{std::istream_iterator<TokenId>(line), {}};
    EXPECT_EQ(tokenizer_->encode(texts[i], false, false), expected) << "text " << i << ": '" << texts[i] << "'";
  }
}

TEST_P(Vocabulary, AnyBytes_comeBack) {
  const std::string name = GetParam();
  std::vector<std::string> texts = {"caf\xC3\xA9 \xF0\x9F\x98\x80!\n\n  x", "\x9F\xA0 broken \xE2\x82 end\xC3", "\xED\xA0\x80 12345 "};
  // Bytes that never occur in UTF-8: Falcon has no tokens for them, and DeepSeek also uses their tokens for the Latin-1 characters.
  if (name != "falcon" && name != "deepseek-llm") texts.push_back("\xC0\x80 \xF8 a \xFF");
  for (const std::string& text : texts) {
    EXPECT_EQ(test::joined(*tokenizer_, tokenizer_->encode(text, false, false)), (name == "llama-spm" ? " " : "") + text);
  }
}

TEST_P(Vocabulary, Stream_neverGivesHalfACharacter) {
  const std::string text = "a \xF0\x9F\xA6\x99\xE2\x9A\xA1 b";
  StreamDecoder decoder(*tokenizer_);
  std::string all;
  for (const TokenId id : tokenizer_->encode(text, false, false)) {
    const std::string part = decoder.push(id);
    if (!part.empty()) {
      EXPECT_NE(static_cast<unsigned char>(part.front()) & 0xC0, 0x80);
    }
    all += part;
  }
  all += decoder.finish();
  EXPECT_TRUE(all == text || all == " " + text) << all;
}

TEST_P(Vocabulary, FewestTokens_areNoMoreThanTheTextHas) {
  std::string all;
  for (TokenId id = 0; id < tokenizer_->size(); ++id) {
    const std::string text = tokenizer_->piece(id, true);
    EXPECT_LE(tokenizer_->fewest_tokens(text.size()), std::max<std::size_t>(1, tokenizer_->encode(text, false, true).size())) << text;
    all += text;
  }
  EXPECT_LE(tokenizer_->fewest_tokens(all.size()), tokenizer_->encode(all, false, true).size());
  const bool lacks_bytes = std::string(GetParam()) == "falcon";
  EXPECT_EQ(tokenizer_->fewest_tokens(1 << 20) > 1000, !lacks_bytes);
}

TEST_P(Vocabulary, WatchOfALongText_mayEndIt) {
  struct GaveUp {};
  int calls = 0;
  const auto watch = [&] {
    if (++calls == 300) throw GaveUp{};
  };
  EXPECT_THROW(tokenizer_->encode(std::string(2 << 20, '-'), false, false, watch), GaveUp);
  EXPECT_EQ(tokenizer_->encode("a b", false, false, [] {}), tokenizer_->encode("a b", false, false));
}

INSTANTIATE_TEST_SUITE_P(Shared, Vocabulary, testing::Values("llama-spm", "llama-bpe", "qwen2", "falcon", "gpt-2", "deepseek-llm"));

class Tales : public testing::Test {
 protected:
  gguf::File file_ = gguf::File::open(test::source_path("/models/tales-target-q8_0.gguf"));
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(file_);
};

TEST_F(Tales, Prompt_beginsWithBos) {
  const std::vector<TokenId> expected = {1, 1955, 674, 261, 519, 445, 310, 261, 556, 401, 346, 753, 1965, 4031};
  EXPECT_EQ(tokenizer_->encode("Once upon a time there was a king who had three sons.", true, true), expected);
}

TEST_F(Tales, EndOfText_endsGeneration) {
  EXPECT_TRUE(tokenizer_->ends_generation(tokenizer_->eos()));
  EXPECT_FALSE(tokenizer_->ends_generation(tokenizer_->bos()));
}

TEST_F(Tales, ControlText_isOneTokenOnlyWhenParsed) {
  const std::string text = "a" + tokenizer_->text(tokenizer_->eos()) + "b";
  const auto ids = tokenizer_->encode(text, false, true);
  EXPECT_NE(std::find(ids.begin(), ids.end(), tokenizer_->eos()), ids.end());
  EXPECT_EQ(test::joined(*tokenizer_, tokenizer_->encode(text, false, false)), " " + text);
}

TEST_F(Tales, HalfACharacter_isKeptUntilFinish) {
  StreamDecoder decoder(*tokenizer_);
  std::string given;
  for (const TokenId id : tokenizer_->encode("\xF0\x9F\x98", false, false)) given += decoder.push(id);
  EXPECT_EQ(given, " ");
  EXPECT_EQ(decoder.finish(), "\xF0\x9F\x98");
}

TEST(Tokenizer, UnknownPreTokenizer_namesTheRemedy) {
  const auto path = shared() / "tokenizers/ggml-vocab-gpt-2.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  try {
    Tokenizer::load(gguf::File::open(path), "nonsense");
    FAIL() << "was accepted";
  } catch (const ModelError& error) {
    const std::string message = error.what();
    for (const char* part : {"nonsense", "llama-bpe", "--pre"}) EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace yamata
