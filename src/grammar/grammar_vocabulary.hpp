#pragma once
// The bytes of a vocabulary's tokens, as a trie.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace yamata {

/// What a grammar has to know of a token.
struct GrammarToken {
  std::string bytes;     ///< of its text; empty: none
  bool control = false;  ///< only in free text, where `bytes` are its name
  bool ends = false;     ///< ends the text
};

class GrammarVocabulary {
 public:
  /// A node of the trie, in the order of a walk: its subtree follows it.
  struct Node {
    std::uint8_t byte;
    std::uint16_t depth;  // number of bytes up to this node
    std::uint32_t end;    // the first node that is not below this one
    std::uint32_t first;  // of the tokens that end here: up to those of the next node
  };

  /// The tokens of a text, without special ones.
  using Encode = std::function<std::vector<std::int32_t>(std::string_view text)>;

  /// `tokens`: by id. Without `encode`, texts are divided into the longest tokens.
  explicit GrammarVocabulary(std::vector<GrammarToken> tokens, Encode encode = {});

  std::size_t size() const { return tokens_.size(); }
  const GrammarToken& token(std::int32_t id) const { return tokens_[static_cast<std::size_t>(id)]; }
  bool contains(std::int32_t id) const { return id >= 0 && static_cast<std::size_t>(id) < tokens_.size(); }
  const std::vector<std::int32_t>& ends() const { return ends_; }
  const std::vector<std::int32_t>& controls() const { return controls_; }

  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  /// Ids of the tokens that end at node i.
  std::span<const std::int32_t> tokens_at(std::size_t i) const {
    return std::span(order_).subspan(nodes_[i].first, nodes_[i + 1].first - nodes_[i].first);
  }
  std::size_t deepest() const { return deepest_; }
  std::vector<std::int32_t> encode(std::string_view text) const { return encode_ ? encode_(text) : std::vector<std::int32_t>{}; }
  /// The longest token that the text begins with; -1: none.
  std::int32_t longest_prefix(std::string_view text) const;

 private:
  std::vector<GrammarToken> tokens_;
  std::vector<std::int32_t> ends_, controls_, order_;
  std::vector<Node> nodes_;  // and one after the last
  std::size_t deepest_ = 0;
  Encode encode_;
};

}  // namespace yamata
