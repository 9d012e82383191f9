// Which tokens may follow, and what must.
#include "src/grammar/token_grammar.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "src/grammar/forced_text.hpp"
#include "src/grammar/json_schema.hpp"
#include "src/sampling/sampler.hpp"
#include "tests/grammar/random_document.hpp"

namespace yamata {
namespace {

const std::string kPerson =
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},"age":{"type":"integer","minimum":0,"maximum":150},
  "tags":{"type":"array","items":{"enum":["red","green"]},"maxItems":3},"note":{"anyOf":[{"type":"null"},{"$ref":"#"}]}},
  "required":["name","age"]})";

/// Every byte, some longer tokens, a control token, and one that ends the text.
std::shared_ptr<const GrammarVocabulary> vocabulary() {
  std::vector<GrammarToken> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({.bytes = std::string(1, static_cast<char>(byte))});
  for (const char* text :
       {"{\"", "\":", " \"",  "\"}",  "\",",      ", \"",     "\": ", "name", "age",   "na",   "me\"", "12", "}}",        "null",  "true",
        "red", "re",  "tags", "\n  ", "\xc3\xa9", "\xf0\x9f", "[\"",  "\"]",  "hello", "\"\n", "{",    "",   "green\"]}", "\": \""})
    tokens.push_back({.bytes = text});
  tokens.push_back({.bytes = "<|mark|>", .control = true});
  tokens.push_back({.bytes = "<|end|>", .control = true, .ends = true});
  return std::make_shared<const GrammarVocabulary>(std::move(tokens));
}

TokenGrammar grammar_of(const std::string& schema, const SchemaOptions& options = {}) {
  return {vocabulary(), compile_json_schema(schema, options)};
}

std::int32_t token_of(const GrammarVocabulary& vocabulary, const std::string& bytes) {
  for (std::int32_t id = static_cast<std::int32_t>(vocabulary.size()) - 1; id >= 0; --id) {
    if (vocabulary.token(id).bytes == bytes) return id;
  }
  return -1;
}

bool in_mask(TokenGrammar& grammar, TokenGrammar::State state, std::int32_t token) {
  return (grammar.mask(state)[static_cast<std::size_t>(token) / 64] >> (token % 64) & 1) != 0;
}

class RandomLogits {
 public:
  explicit RandomLogits(unsigned seed) : random_(seed) {}
  /// Those that end a value are more probable, so that texts end.
  std::vector<float> row(const GrammarVocabulary& vocabulary) {
    std::vector<float> logits;
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      const std::string& bytes = vocabulary.token(static_cast<std::int32_t>(i)).bytes;
      logits.push_back(normal_(random_) + (bytes.find_first_of("\"}]") != std::string::npos ? 1.5f : 0.0f));
    }
    return logits;
  }
  std::size_t below(std::size_t end) { return random_() % end; }

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_{0, 2};
};

struct Text {
  std::string bytes;
  bool ended = false;
};

/// The text that a random model writes.
Text write(TokenGrammar& grammar, RandomLogits& model, const SamplingParams& sampling, int most = 400) {
  Text text;
  Sampler sampler(sampling);
  TokenGrammar::State state = grammar.start();
  std::vector<std::int32_t> history;
  while (static_cast<int>(history.size()) < most && !grammar.complete(state)) {
    std::vector<float> logits = model.row(grammar.vocabulary()), whole = logits;
    grammar.restrict(state, logits, logits_read(sampling, 0));
    grammar.restrict(state, whole, 0);
    const auto at = static_cast<std::int64_t>(history.size());
    const std::int32_t token = sampler.sample(logits, history, at);
    EXPECT_EQ(token, sampler.sample(whole, history, at)) << "only the best are read";
    state = grammar.after(state, token);
    EXPECT_NE(state, TokenGrammar::kForbidden);
    history.push_back(token);
    if (!grammar.vocabulary().token(token).ends) text.bytes += grammar.vocabulary().token(token).bytes;
  }
  text.ended = grammar.complete(state);
  return text;
}

TEST(TokenGrammar, textsOfRandomModels_areValid) {
  int ended = 0;
  for (const std::string& schema : {kPerson, std::string("{}"), std::string(R"({"type":"array","items":{"type":"number"},"minItems":2})"),
                                    std::string(R"({"type":"string","pattern":"^(ab|é)+$"})")}) {
    TokenGrammar grammar = grammar_of(schema);
    GrammarReader reader(compile_json_schema(schema));
    RandomLogits model(3);
    for (unsigned seed = 0; seed < 40; ++seed) {
      SamplingParams sampling{.temperature = seed % 2 == 0 ? 0.0f : 1.5f, .top_k = seed % 3 == 0 ? 0 : 5, .seed = seed};
      if (seed % 5 == 0) sampling.repeat_penalty = 1.3f;
      const Text text = write(grammar, model, sampling);
      if (!text.ended) continue;
      ++ended;
      EXPECT_TRUE(accepts(reader, text.bytes)) << text.bytes;
      EXPECT_TRUE(nlohmann::json::accept(text.bytes)) << text.bytes;
    }
  }
  EXPECT_GT(ended, 80);
}

TEST(TokenGrammar, mask_hasTheTokensThatMayFollow) {
  for (const SchemaOptions& options :
       {SchemaOptions{}, SchemaOptions{.trigger = "<|mark|>"}, SchemaOptions{.trigger = "xy", .trigger_required = false}}) {
    TokenGrammar grammar = grammar_of(kPerson, options);
    RandomLogits model(11);
    TokenGrammar::State state = grammar.start();
    for (int i = 0; i < 200; ++i) {
      std::vector<std::int32_t> allowed;
      for (std::int32_t token = 0; token < static_cast<std::int32_t>(grammar.vocabulary().size()); ++token) {
        EXPECT_EQ(in_mask(grammar, state, token), grammar.allows(state, token)) << grammar.vocabulary().token(token).bytes;
        EXPECT_EQ(grammar.allows(state, token), grammar.after(state, token) != TokenGrammar::kForbidden);
        if (grammar.allows(state, token)) allowed.push_back(token);
      }
      if (allowed.empty()) state = grammar.start();
      if (!allowed.empty()) state = grammar.after(state, allowed[model.below(allowed.size())]);
    }
  }
}

TEST(TokenGrammar, tokensThatEndTheText_mayFollowOnlyACompleteValue) {
  TokenGrammar grammar = grammar_of(R"({"type":"integer","maximum":99})");
  const std::int32_t end = token_of(grammar.vocabulary(), "<|end|>"), mark = token_of(grammar.vocabulary(), "<|mark|>");
  EXPECT_FALSE(grammar.allows(grammar.start(), end));
  const auto one = grammar.after(grammar.start(), token_of(grammar.vocabulary(), "1"));
  EXPECT_TRUE(grammar.allows(one, end));
  EXPECT_FALSE(grammar.allows(one, mark));
  EXPECT_FALSE(grammar.complete(one));
  EXPECT_TRUE(TokenGrammar::ended(grammar.after(one, end)));
  EXPECT_TRUE(grammar.complete(grammar.after(one, end)));
  const auto twelve = grammar.after(grammar.start(), token_of(grammar.vocabulary(), "12"));
  EXPECT_TRUE(grammar.complete(twelve));
  EXPECT_FALSE(grammar.allows(grammar.start(), token_of(grammar.vocabulary(), "")));
  EXPECT_FALSE(grammar.allows(grammar.start(), -1));
  EXPECT_FALSE(grammar.allows(grammar.start(), 100000));
}

TEST(TokenGrammar, controlTokens_areFreeTextOnly) {
  TokenGrammar grammar = grammar_of(R"({"const":"<|mark|>"})", {.trigger = "<|mark|>"});
  const std::int32_t mark = token_of(grammar.vocabulary(), "<|mark|>"), end = token_of(grammar.vocabulary(), "<|end|>");
  const auto x = grammar.after(grammar.start(), token_of(grammar.vocabulary(), "hello"));
  EXPECT_FALSE(grammar.allows(x, end));
  const auto inside = grammar.after(x, mark);
  ASSERT_NE(inside, TokenGrammar::kForbidden);
  const auto quote = grammar.after(inside, token_of(grammar.vocabulary(), "\""));
  ASSERT_NE(quote, TokenGrammar::kForbidden);
  EXPECT_FALSE(grammar.allows(quote, mark));
}

std::string continued(TokenGrammar& grammar, const std::string& text) {
  ForcedText forced(grammar);
  TokenGrammar::State state = grammar.start();
  for (const char byte : text) {
    forced.read(state, {&byte, 1});
    state = grammar.after(state, static_cast<std::uint8_t>(byte));
    EXPECT_NE(state, TokenGrammar::kForbidden) << text;
  }
  return forced.continuation(state, 64);
}

TEST(ForcedText, continuation_isWhatLeavesNoChoice) {
  TokenGrammar grammar = grammar_of(R"({"type":"object","properties":{"name":{"type":"string"},"kind":{"const":"cat"},"n":{"type":"object",
    "properties":{"x":{"type":"null"},"y":{"type":"null"}},"required":["x","y"]}},"required":["name","kind","n"]})");
  EXPECT_EQ(continued(grammar, ""), "{\"name\": \"");
  EXPECT_EQ(continued(grammar, "{\"na"), "me\": \"");
  EXPECT_EQ(continued(grammar, "{\"name\": \"a"), "");
  EXPECT_EQ(continued(grammar, "{\"name\": \"a\""), ", \"kind\": \"cat\", \"n\": {\"x\": null, \"y\": null}}");
  EXPECT_EQ(continued(grammar, "{\"name\":\"a\","), " \"kind\":\"cat\", \"n\":{\"x\":null, \"y\":null}}");
  EXPECT_EQ(continued(grammar, "{\n  \"name\": \"a\",\n  \"kind\""), ": \"cat\",\n  \"n\": {\n    \"x\": null,\n    \"y\": null\n  }\n}");
  EXPECT_EQ(continued(grammar, "{\n  \"name\": \"a\""), ",\n  \"kind\": \"cat\",\n  \"n\": {\n    \"x\": null,\n    \"y\": null\n  }\n}")
      << "lines as after the opening bracket";
  EXPECT_EQ(continued(grammar, "{\"name\":\"a\",\"kind\":\"cat\",\"n\":{\"x\":null,\"y\":null}}"), "");
}

TEST(ForcedText, tokens_areThoseOfTheTokenizer) {
  std::vector<GrammarToken> tokens(4);
  tokens[0].bytes = "a";
  tokens[1].bytes = "b";
  tokens[2].bytes = "ab";
  tokens[3].bytes = "ba";
  const GrammarVocabulary plain(tokens);
  EXPECT_EQ(tokens_of_forced(plain, "x", "abba"), (std::vector<std::int32_t>{2, 3}));
  const GrammarVocabulary own(tokens, [](std::string_view text) {
    return text == "aab" ? std::vector<std::int32_t>{0, 0, 1} : std::vector<std::int32_t>{2, 0};
  });
  EXPECT_EQ(tokens_of_forced(own, "a", "ab"), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(tokens_of_forced(own, "a", "ba"), (std::vector<std::int32_t>{3})) << "the tokenizer joins them";
}

}  // namespace
}  // namespace yamata
