// Byte-level BPE against its definition, with vocabularies and texts by chance.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "src/tokenizer/tokenizer.hpp"
#include "tests/gguf/support.hpp"

namespace yamata {
namespace {

using Pair = std::pair<std::string, std::string>;

/// Tokens of a few letters, and the merges that make them.
struct Merges {
  explicit Merges(std::mt19937& random) {
    const auto any = [&] { return tokens[random() % tokens.size()]; };
    for (int i = 0; i < 40; ++i) {
      const Pair pair{any(), any()};
      if (pair.first.size() + pair.second.size() > 6 || ranks.contains(pair)) continue;
      ranks.emplace(pair, static_cast<int>(lines.size()));
      lines.push_back(pair.first + " " + pair.second);
      if (std::ranges::find(tokens, pair.first + pair.second) == tokens.end()) tokens.push_back(pair.first + pair.second);
    }
  }

  std::unique_ptr<Tokenizer> tokenizer() const {
    gguf_test::Writer writer;
    writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "gpt-2").strings("tokenizer.ggml.tokens", tokens);
    writer.strings("tokenizer.ggml.merges", lines);
    writer.array<std::int32_t>("tokenizer.ggml.token_type", gguf_test::kI32, std::vector<std::int32_t>(tokens.size(), 1));
    const std::string bytes = writer.finish();
    return Tokenizer::load(gguf::File::parse(gguf_test::as_span(bytes), "test"));
  }

  /// While two neighbours can be merged, those with the lowest rank are, the leftmost of these first.
  std::vector<TokenId> encode(const std::string& word) const {
    std::vector<std::string> pieces;
    for (const char letter : word) pieces.emplace_back(1, letter);
    while (true) {
      std::size_t best = pieces.size();
      for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
        if (rank(pieces, i) < (best == pieces.size() ? kNone : rank(pieces, best))) best = i;
      }
      if (best == pieces.size()) break;
      pieces[best] += pieces[best + 1];
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    std::vector<TokenId> ids;
    for (const std::string& piece : pieces) ids.push_back(static_cast<TokenId>(std::ranges::find(tokens, piece) - tokens.begin()));
    return ids;
  }
  static constexpr int kNone = 1 << 20;
  int rank(const std::vector<std::string>& pieces, std::size_t at) const {
    const auto found = ranks.find({pieces[at], pieces[at + 1]});
    return found == ranks.end() ? kNone : found->second;
  }

  std::vector<std::string> tokens{"a", "b", "c"}, lines;
  std::map<Pair, int> ranks;
};

TEST(RandomMerges, Words_areMergedByRank) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const Merges merges(random);
    const auto tokenizer = merges.tokenizer();
    for (int i = 0; i < 20; ++i) {
      std::string word;
      const bool is_long = seed % 50 == 0 && i == 0;  // merges of long words are in lists of their own (merge_queue.hpp)
      for (std::size_t length = is_long ? 1100 : 1 + random() % 30; word.size() < length;) word += merges.tokens[random() % 3];
      EXPECT_EQ(tokenizer->encode(word, false, false), merges.encode(word)) << "seed " << seed << ", " << word;
    }
  }
}

}  // namespace
}  // namespace yamata
