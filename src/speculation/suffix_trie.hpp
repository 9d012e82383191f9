#pragma once
// Counts of each passage of some texts, and of what followed it.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace yamata {

/// The suffix trie of SuffixDecoding (arXiv 2411.04975): every passage of up to `depth` tokens in all its texts, with the number of its
/// occurrences. Path-compressed: an edge holds all tokens with the same count. Texts are appended token by token, in time O(depth) each,
/// and removed oldest first. An edge's tokens are read from the latest text that contains them, which is removed last.
class SuffixTrie {
 public:
  static constexpr std::size_t kDepth = 64;

  /// A passage: all edges above a node, then `taken` tokens of the node's edge. {}: the empty passage.
  struct Place {
    std::uint32_t node = 0, taken = 0;
    bool operator==(const Place&) const = default;
  };
  /// One token of a continuation, in a list with parents before children.
  struct Continuation {
    std::int32_t parent;  ///< index in the list; -1: the requested place
    std::int32_t token;
    float probability;       ///< of this token after its parent: its share of all tokens that followed
    float path_probability;  ///< the product along the path
  };

  explicit SuffixTrie(std::size_t depth = kDepth);

  /// The next token begins another text.
  void begin_text();
  /// Appends a token to the latest text.
  void append(std::int32_t token);
  /// Removes the oldest text. It must not be the latest one, unless nothing more is appended to that.
  void forget_oldest();

  std::size_t texts() const { return texts_.size(); }
  /// The n-th oldest.
  const std::vector<std::int32_t>& text(std::size_t n) const { return texts_[n]; }
  /// Total number of tokens of all texts.
  std::size_t tokens() const { return tokens_; }

  /// The place of the last `length` tokens of the latest text. 1 <= length <= open().
  Place end(std::size_t length) const;
  /// Length of the longest passage at the end of the latest text that is in the trie.
  std::size_t open() const { return open_.size(); }

  /// Advances `place` by a token; false, without a change, if that token never followed.
  bool step(Place& place, std::int32_t token) const;
  /// Number of occurrences of the passage.
  std::uint32_t count(Place place) const { return nodes_[place.node].count; }
  /// How often any token followed it.
  std::uint32_t followed(Place place) const;
  /// The probability of its most probable next token; 0: there is none.
  float likeliest(Place place) const;
  /// Up to `most` continuation tokens after a passage with path probabilities of at least `least`: the most probable first, then the
  /// shorter. Among children with the same count, the most recent one comes first.
  std::vector<Continuation> continue_from(Place place, std::size_t most, float least = 0) const;

 private:
  struct Node {
    std::uint32_t count = 0;                        // of the passage that ends here; of what ends within the edge, too
    std::uint32_t ended = 0;                        // of these, how many are at the end of a text, or at the greatest depth
    std::uint32_t text = 0, begin = 0, length = 0;  // the edge's tokens
    std::uint32_t parent = 0, place = 0;            // place: among the parent's children
    std::vector<std::uint32_t> children;            // by count, descending
  };
  static constexpr std::uint32_t kRoot = 0, kNone = 0xffffffff;

  std::int32_t token_at(const Node& node, std::uint32_t i) const { return texts_[node.text - first_text_][node.begin + i]; }
  std::uint32_t child(std::uint32_t node, std::int32_t token) const;
  void set_child(std::uint32_t node, std::int32_t token, std::uint32_t child) { edges_[key(node, token)] = child; }
  static std::uint64_t key(std::uint32_t node, std::int32_t token) {
    return (std::uint64_t{node} << 32) | static_cast<std::uint32_t>(token);
  }
  std::uint32_t new_node();
  void release(std::uint32_t node);
  void read_here(Node& node) const;
  void reorder(std::uint32_t node, std::uint32_t count);
  std::uint32_t move(std::uint32_t from, std::int32_t token);
  std::uint32_t add_leaf(std::uint32_t parent, std::int32_t token);
  std::uint32_t enter(std::uint32_t parent, std::uint32_t child, std::int32_t token);
  std::uint32_t lengthen(std::uint32_t node, std::uint32_t child, std::int32_t token);
  void forget_suffix(std::span<const std::int32_t> suffix);

  struct Hash {
    std::size_t operator()(std::uint64_t k) const { return static_cast<std::size_t>((k ^ (k >> 29)) * 0x9e3779b97f4a7c15u); }
  };
  std::size_t depth_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<std::uint64_t, std::uint32_t, Hash> edges_;  // (node, first token) to child
  std::deque<std::vector<std::int32_t>> texts_;
  std::uint32_t first_text_ = 0;  // the oldest one's number
  std::size_t tokens_ = 0;
  std::deque<std::uint32_t> open_;  // the nodes at which the suffixes of the latest text end, the longest first
};

}  // namespace yamata
