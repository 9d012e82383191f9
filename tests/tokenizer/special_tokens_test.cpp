#include "src/tokenizer/special_tokens.hpp"

#include <gtest/gtest.h>

#include "node/error.hpp"
#include "src/tokenizer/tokenizer.hpp"
#include "tests/gguf/support.hpp"

namespace yamata {
namespace {

using gguf_test::Writer;

/// A byte-level BPE vocabulary of these tokens, and additional metadata.
std::string vocabulary(const std::vector<std::string>& texts, const std::vector<std::int32_t>& kinds, const char* key = nullptr,
                       std::uint32_t id = 0) {
  Writer writer;
  writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2").strings("tokenizer.ggml.tokens", texts);
  writer.strings("tokenizer.ggml.merges", {"a b"}).array<std::int32_t>("tokenizer.ggml.token_type", gguf_test::kI32, kinds);
  if (key) writer.scalar<std::uint32_t>(key, gguf_test::kU32, id);
  return writer.finish();
}

std::unique_ptr<Tokenizer> load(const std::string& bytes) { return Tokenizer::load(gguf::File::parse(gguf_test::as_span(bytes), "test")); }

TEST(SpecialTokens, FimTokens_areFoundByTheirTexts) {
  for (const auto& [prefix, suffix, middle] :
       {std::array{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, std::array{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
        std::array{"<\xef\xbd\x9c"
                   "fim\xe2\x96\x81"
                   "begin\xef\xbd\x9c>",
                   "<\xef\xbd\x9c"
                   "fim\xe2\x96\x81hole\xef\xbd\x9c>",
                   "<\xef\xbd\x9c"
                   "fim\xe2\x96\x81"
                   "end\xef\xbd\x9c>"}}) {
    const std::string bytes = vocabulary({"a", "b", middle, prefix, suffix, "<|file_sep|>"}, {1, 1, 3, 3, 3, 3});
    const auto tokenizer = load(bytes);
    EXPECT_EQ(tokenizer->fim(FimToken::kPrefix), 3) << prefix;
    EXPECT_EQ(tokenizer->fim(FimToken::kSuffix), 4) << prefix;
    EXPECT_EQ(tokenizer->fim(FimToken::kMiddle), 2) << prefix;
    EXPECT_EQ(tokenizer->fim(FimToken::kPad), -1) << prefix;
    EXPECT_TRUE(tokenizer->ends_generation(5)) << "what comes between files";
    for (const TokenId id : {0, 2, 3, 4}) EXPECT_FALSE(tokenizer->ends_generation(id)) << prefix << ' ' << id;
  }
}

TEST(SpecialTokens, FimTokens_thatMetadataNameComeFirst) {
  const std::string named = vocabulary({"a", "<|fim_prefix|>", "b"}, {1, 3, 1}, "tokenizer.ggml.fim_pre_token_id", 2);
  EXPECT_EQ(load(named)->fim(FimToken::kPrefix), 2);
  const std::string beyond = vocabulary({"a", "b"}, {1, 1}, "tokenizer.ggml.fim_sep_token_id", 2);
  EXPECT_THROW(load(beyond), ModelError);
}

TEST(SpecialTokens, AllThatEndATurn_doSo) {
  const std::string bytes =
      vocabulary({"a", "<|im_end|>", "<|endoftext|>", "</s>", "<EOT>", "<|eom_id|>", "<|flush|>"}, {1, 1, 1, 1, 3, 3, 4});
  const auto tokenizer = load(bytes);
  std::vector<TokenId> ends;
  for (TokenId id = 0; id < tokenizer->size(); ++id) {
    if (tokenizer->ends_generation(id)) ends.push_back(id);
  }
  EXPECT_EQ(ends, (std::vector<TokenId>{1, 2, 4, 5, 6})) << "an ordinary </s> does not";
}

TEST(SpecialTokens, EndOfAPart_endsNoTurnWhereThereIsAnEndOfTurn) {
  const std::string harmony = vocabulary({"a", "<|end|>", "<|return|>", "<|call|>"}, {1, 3, 3, 3}),
                    phi = vocabulary({"a", "<|end|>"}, {1, 3});
  EXPECT_FALSE(load(harmony)->ends_generation(1));
  for (const TokenId id : {2, 3}) EXPECT_TRUE(load(harmony)->ends_generation(id));
  EXPECT_TRUE(load(phi)->ends_generation(1));
}

}  // namespace
}  // namespace yamata
