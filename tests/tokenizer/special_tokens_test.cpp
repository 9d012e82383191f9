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
  EXPECT_EQ(load(beyond)->fim(FimToken::kSeparator), -1);
  EXPECT_EQ(load(beyond)->warnings().size(), 1u);
  const std::string older = vocabulary({"a", "<|fim_prefix|>", "b"}, {1, 3, 1}, "tokenizer.ggml.prefix_token_id", 2);
  EXPECT_EQ(load(older)->fim(FimToken::kPrefix), 2);
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

TEST(SpecialTokens, HtmlTag_endsNoTurnOfGemma4) {
  const auto tokenizer = load(vocabulary({"a", "</s>", "<turn|>", "<|tool_response>"}, {1, 3, 3, 3}));
  EXPECT_FALSE(tokenizer->ends_generation(1));
  EXPECT_EQ(tokenizer->piece(1), "</s>");
  for (const TokenId id : {2, 3}) EXPECT_TRUE(tokenizer->ends_generation(id));
}

/// A byte-level vocabulary of a model with this name, or with this pre-tokenizer.
std::unique_ptr<Tokenizer> named(const char* name, const char* pre, const std::vector<std::string>& texts,
                                 const std::vector<std::int32_t>& kinds) {
  Writer writer;
  writer.string("general.name", name).string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", pre);
  writer.strings("tokenizer.ggml.tokens", texts).strings("tokenizer.ggml.merges", {"a b"});
  writer.array<std::int32_t>("tokenizer.ggml.token_type", gguf_test::kI32, kinds);
  return load(writer.finish());
}

using Ids = std::vector<TokenId>;

/// GGUF does not store which special tokens drop white space. llama.cpp 2026.10 gives the same ids.
TEST(SpecialTokens, WhiteSpaceAfterThemIsDropped_inPhi3) {
  const std::vector<std::string> texts = {"a", "\xC4\xA0", "\xC4\x8A", "<|user|>", "<|endoftext|>", "<s>", "<tag>"};
  const std::vector<std::int32_t> kinds = {1, 1, 1, 3, 3, 3, 4};
  for (const char* name : {"Phi-3 Mini", "my phi3"}) {
    const auto tokenizer = named(name, "gpt-2", texts, kinds);
    EXPECT_EQ(tokenizer->encode(" <|user|> \n a <tag> a<|user|>\n", false, true), (Ids{1, 3, 0, 1, 6, 0, 3})) << name;
    EXPECT_EQ(tokenizer->encode("<|endoftext|> <s> a", false, true), (Ids{4, 1, 5, 1, 0})) << name;
    EXPECT_EQ(tokenizer->encode("<tag> a", false, false), (Ids{6, 0})) << "user-defined tokens are always special";
  }
  EXPECT_EQ(named("Phi-4", "gpt-2", texts, kinds)->encode("<|user|> a", false, true), (Ids{3, 1, 0}));
}

TEST(SpecialTokens, WhiteSpaceBeforeAMaskIsDropped_inEncoders) {
  const std::vector<std::string> texts = {"a", "\xC4\xA0", "<mask>", "[MASK]"};
  const std::vector<std::int32_t> kinds = {1, 1, 3, 3};
  EXPECT_EQ(named("Jina", "jina-v2-code", texts, kinds)->encode("a  <mask> [MASK]", false, true), (Ids{0, 2, 1, 3}));
  EXPECT_EQ(named("modern-bert", "modern-bert", texts, kinds)->encode("a <mask>  [MASK] a", false, true), (Ids{0, 1, 2, 3, 1, 0}));
}

}  // namespace
}  // namespace yamata
