#pragma once
// An automaton over bytes whose rules call each other: a schema after compilation.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace yamata {

using NodeIndex = std::uint32_t;
using RuleIndex = std::uint32_t;

/// A recursive transition network. A rule begins with one opening byte, which only a call reads, and ends with a closing byte, which leads
/// to its end. Whether a byte opens, closes or does neither depends on the bytes before it alone, not on the path (a visibly pushdown
/// automaton), so that sets of nodes, one for each open rule, are all that a reader has to know.
class ByteAutomaton {
 public:
  static constexpr std::size_t kMostNodes = 1 << 19;
  enum class Kind : std::uint8_t { kBytes, kEmpty, kCall };
  struct Edge {
    Kind kind;
    std::uint8_t low, high;  // kBytes: of the range
    RuleIndex rule;          // kCall
    NodeIndex to;
    std::uint32_t next;  // edge of the same node; 0: none
  };
  struct Rule {
    std::uint8_t opens;
    NodeIndex start, end;  // after the opening and after the closing byte
  };
  static constexpr RuleIndex kNoRule = ~RuleIndex{0};

  ByteAutomaton();

  /// Throws UsageError if there are too many.
  NodeIndex add_node();
  /// A rule whose paths from start to end are added afterwards.
  RuleIndex add_rule(std::uint8_t opens);
  void add_bytes(NodeIndex from, std::uint8_t low, std::uint8_t high, NodeIndex to);
  void add_byte(NodeIndex from, char byte, NodeIndex to);
  void add_empty(NodeIndex from, NodeIndex to);
  /// Reads the rule, with its first and last byte.
  void add_call(NodeIndex from, RuleIndex rule, NodeIndex to);
  /// Reads these bytes, at least one.
  void add_text(NodeIndex from, std::string_view text, NodeIndex to);
  /// From this node on any bytes may follow, and control tokens too.
  void mark_free(NodeIndex node);
  /// The text may end at this node.
  void accept(NodeIndex node);
  /// Removes edges from which no end can be reached. False if none can be reached from this node.
  bool trim(NodeIndex node);

  NodeIndex start() const { return 0; }
  const Rule& rule(RuleIndex rule) const { return rules_[rule]; }
  std::size_t nodes() const { return nodes_.size(); }
  /// Calls `visit(edge)` for every edge of a node.
  template <class Visit>
  void each_edge(NodeIndex node, Visit visit) const {
    for (std::uint32_t e = nodes_[node].first; e != 0; e = edges_[e].next) visit(edges_[e]);
  }
  /// The rule that ends at this node, or kNoRule.
  RuleIndex ends(NodeIndex node) const { return nodes_[node].ends; }
  bool accepting(NodeIndex node) const { return nodes_[node].accepting; }
  bool free(NodeIndex node) const { return nodes_[node].free; }

 private:
  struct Node {
    std::uint32_t first = 0;  // edge
    RuleIndex ends = kNoRule;
    bool accepting = false, free = false;
  };
  void add_edge(NodeIndex from, Edge edge);
  std::vector<bool> productive() const;
  bool passable(const Edge& edge, const std::vector<bool>& good) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<Rule> rules_;
};

}  // namespace yamata
