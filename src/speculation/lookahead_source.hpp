#pragma once
// Lookahead decoding: guesses from what the target said of guessed tokens, as a baseline.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/speculation/guess_source.hpp"

namespace yamata {

/// --lookahead W,N,G.
struct LookaheadOptions {
  int window = 0;   ///< W: positions that are guessed in parallel; 0: no lookahead decoding
  int ngram = 5;    ///< N: tokens of an n-gram, at least 2
  int guesses = 7;  ///< G: most n-grams that are kept, and verified, for one first token

  bool on() const { return window > 0; }
  /// The most nodes of a step, without the root: the window's and those of the n-grams to verify.
  int nodes() const { return window * (ngram - 1) - 1 + guesses * (ngram - 1); }
  /// The depth of the tree with these nodes, and the most children of one of them.
  int depth() const { return std::max(window + ngram - 3, ngram - 1); }
  int children() const { return guesses + 2; }
  static constexpr int kMost = 64;  ///< of all these
};

/// Lookahead decoding (Fu et al., arXiv 2402.02057), without a draft model. The window is a Jacobi iteration: N - 1 rows of W tokens, row
/// r, column c being a guess of the token c + r places after the text's last, which is row 0, column 0 itself. Row 0 is a chain, and below
/// each of its tokens is its column, so the window is part of the token tree. The target's most probable token after the last row of a
/// column makes it an n-gram of N tokens; then all rows move up by one. The n-grams that begin with the text's last token are verified as
/// other branches of the tree. So a step has (W + G)(N - 1) rows at most, with the last token.
class LookaheadSource final : public GuessSource {
 public:
  LookaheadSource(int index, const LookaheadOptions& options) : GuessSource(index), options_(options) {}

  std::string name() const override { return "lookahead"; }
  void begin(std::uint64_t request) override;
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override;
  bool reads_best() const override { return true; }
  void take_best(std::span<const NodeId> nodes, std::span<const std::int32_t> tokens) override;

 private:
  using Tokens = std::vector<std::int32_t>;
  void update_window(std::span<const std::int32_t> text);
  void keep(std::int32_t first, const Tokens& rest);
  bool add(TokenTree& tree, NodeId& node, std::int32_t token, float probability);
  bool add_window(TokenTree& tree);
  bool add_ngrams(TokenTree& tree);
  std::int32_t any_token(std::span<const std::int32_t> text);

  const LookaheadOptions options_;
  std::vector<Tokens> rows_;                         // [N - 1][W]
  std::vector<NodeId> last_;                         // the nodes of the last row, when it was guessed
  Tokens best_;                                      // what the target says comes after them; empty: not known
  std::map<std::int32_t, std::deque<Tokens>> pool_;  // by first token, what follows it; the latest first
  std::size_t read_ = 0;                             // tokens of the text
  std::uint64_t random_ = 0;
};

}  // namespace yamata
