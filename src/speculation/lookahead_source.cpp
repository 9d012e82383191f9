#include "src/speculation/lookahead_source.hpp"

#include <algorithm>

namespace yamata {
namespace {

constexpr float kOfNgrams = 0.5f;    // draft probability of a token of an n-gram, before calibration
constexpr float kOfWindow = 0.001f;  // and of the window, whose tokens are sent to learn what follows them

}  // namespace

void LookaheadSource::begin(std::uint64_t /*request*/) {
  rows_.clear();
  last_.clear();
  best_.clear();
  pool_.clear();
  read_ = 0;
  random_ = 0;
}

/// Any token of the text, the same in every run: what the window begins with.
std::int32_t LookaheadSource::any_token(std::span<const std::int32_t> text) {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return text[(random_ >> 33) % text.size()];
}

/// Adds an n-gram to the pool, where the latest are kept.
void LookaheadSource::keep(std::int32_t first, const Tokens& rest) {
  std::deque<Tokens>& kept = pool_[first];
  std::erase(kept, rest);
  kept.push_front(rest);
  if (kept.size() > static_cast<std::size_t>(options_.guesses)) kept.pop_back();
}

/// The text has grown. If the target has computed the whole window, its columns are n-grams, and its rows move up.
void LookaheadSource::update_window(std::span<const std::int32_t> text) {
  const auto columns = static_cast<std::size_t>(options_.window);
  std::size_t grown = text.size() - read_;
  const bool moves = best_.size() == columns;
  if (moves) {
    for (std::size_t c = 0; c < columns; ++c) {
      Tokens rest;
      for (std::size_t r = 1; r < rows_.size(); ++r) rest.push_back(rows_[r][c]);
      rest.push_back(best_[c]);
      keep(rows_[0][c], rest);
    }
    rows_.erase(rows_.begin());
    rows_.push_back(best_);
    --grown;  // a row further up is a position further on
  }
  best_.clear();
  rows_.resize(static_cast<std::size_t>(options_.ngram - 1));
  for (Tokens& row : rows_) {
    row.erase(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(std::min(grown, row.size())));
    while (row.size() < columns) row.push_back(any_token(text));
  }
  rows_[0][0] = text.back();
}

/// Adds a guess below `node`, which becomes that guess; true if the tree has grown.
bool LookaheadSource::add(TokenTree& tree, NodeId& node, std::int32_t token, float probability) {
  const NodeId parent = node;
  node = tree.child(parent, token);
  if (node != kNoNode && calibration_.guessed(tree, node)) return false;
  node = calibration_.add(tree, parent, token, probability);
  return true;
}

bool LookaheadSource::add_ngrams(TokenTree& tree) {
  const auto kept = pool_.find(tree.root().token);
  if (kept == pool_.end()) return false;
  bool grown = false;
  for (const Tokens& rest : kept->second) {
    NodeId node = tree.root().id;
    for (const std::int32_t token : rest) grown |= add(tree, node, token, kOfNgrams);
  }
  return grown;
}

bool LookaheadSource::add_window(TokenTree& tree) {
  bool grown = false;
  last_.clear();
  NodeId above = tree.root().id;  // in row 0
  for (std::size_t c = 0; c < rows_[0].size(); ++c) {
    if (c > 0) grown |= add(tree, above, rows_[0][c], kOfWindow);
    NodeId node = above;
    for (std::size_t r = 1; r < rows_.size(); ++r) grown |= add(tree, node, rows_[r][c], kOfWindow);
    last_.push_back(node);
  }
  return grown;
}

bool LookaheadSource::guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& /*demand*/) {
  if (text.size() > read_) update_window(text);
  read_ = text.size();
  const bool ngrams = add_ngrams(tree), window = add_window(tree);  // in this order: what both have is an n-gram
  return ngrams || window;
}

void LookaheadSource::take_best(std::span<const NodeId> nodes, std::span<const std::int32_t> tokens) {
  Tokens best;
  for (const NodeId id : last_) {
    const auto found = std::ranges::find(nodes, id);
    if (found == nodes.end()) return;
    best.push_back(tokens[static_cast<std::size_t>(found - nodes.begin())]);
  }
  best_ = std::move(best);
}

}  // namespace yamata
