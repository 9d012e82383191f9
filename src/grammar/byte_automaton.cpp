#include "src/grammar/byte_automaton.hpp"

#include "node/error.hpp"

namespace yamata {

ByteAutomaton::ByteAutomaton() : nodes_(1), edges_(1) {}

NodeIndex ByteAutomaton::add_node() {
  if (nodes_.size() >= kMostNodes)
    throw UsageError("the schema is too large: its lengths, numbers of items, patterns and alternatives need too many states; lower them");
  nodes_.emplace_back();
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

RuleIndex ByteAutomaton::add_rule(std::uint8_t opens) {
  const auto index = static_cast<RuleIndex>(rules_.size());
  rules_.push_back({opens, add_node(), add_node()});
  nodes_[rules_.back().end].ends = index;
  return index;
}

void ByteAutomaton::add_edge(NodeIndex from, Edge edge) {
  if (edges_.size() >= 4 * kMostNodes) throw UsageError("the schema is too large; lower maxLength or maxItems, or leave out alternatives");
  edge.next = nodes_[from].first;
  nodes_[from].first = static_cast<std::uint32_t>(edges_.size());
  edges_.push_back(edge);
}

void ByteAutomaton::add_bytes(NodeIndex from, std::uint8_t low, std::uint8_t high, NodeIndex to) {
  add_edge(from, {Kind::kBytes, low, high, kNoRule, to, 0});
}

void ByteAutomaton::add_byte(NodeIndex from, char byte, NodeIndex to) {
  add_bytes(from, static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), to);
}

void ByteAutomaton::add_empty(NodeIndex from, NodeIndex to) { add_edge(from, {Kind::kEmpty, 0, 0, kNoRule, to, 0}); }

void ByteAutomaton::add_call(NodeIndex from, RuleIndex rule, NodeIndex to) { add_edge(from, {Kind::kCall, 0, 0, rule, to, 0}); }

void ByteAutomaton::add_text(NodeIndex from, std::string_view text, NodeIndex to) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const NodeIndex next = i + 1 == text.size() ? to : add_node();
    add_byte(from, text[i], next);
    from = next;
  }
}

void ByteAutomaton::mark_free(NodeIndex node) { nodes_[node].free = true; }

void ByteAutomaton::accept(NodeIndex node) { nodes_[node].accepting = true; }

/// Nodes from which an end can be reached. A call counts once its rule can be read to the end.
std::vector<bool> ByteAutomaton::productive() const {
  struct Arrival {
    NodeIndex from;
    std::uint32_t edge;
  };
  std::vector<std::vector<Arrival>> arrivals(nodes_.size()), calls(nodes_.size());  // by target; by the start of the called rule
  std::vector<bool> good(nodes_.size());
  std::vector<NodeIndex> work;
  const auto mark = [&](NodeIndex node) {
    if (good[node]) return;
    good[node] = true;
    work.push_back(node);
  };
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    for (std::uint32_t e = nodes_[node].first; e != 0; e = edges_[e].next) {
      arrivals[edges_[e].to].push_back({node, e});
      if (edges_[e].kind == Kind::kCall) calls[rules_[edges_[e].rule].start].push_back({node, e});
    }
    if (nodes_[node].accepting || nodes_[node].ends != kNoRule) mark(node);
  }
  while (!work.empty()) {
    const NodeIndex node = work.back();
    work.pop_back();
    for (const auto* list : {&arrivals[node], &calls[node]}) {
      for (const Arrival& arrival : *list) {
        if (passable(edges_[arrival.edge], good)) mark(arrival.from);
      }
    }
  }
  return good;
}

/// Whether an end can be reached through the edge.
bool ByteAutomaton::passable(const Edge& edge, const std::vector<bool>& good) const {
  return good[edge.to] && (edge.kind != Kind::kCall || good[rules_[edge.rule].start]);
}

bool ByteAutomaton::trim(NodeIndex from) {
  const std::vector<bool> good = productive();
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    std::uint32_t* link = &nodes_[node].first;
    while (*link != 0) {
      Edge& edge = edges_[*link];
      if (passable(edge, good))
        link = &edge.next;
      else
        *link = edge.next;
    }
  }
  return good[from];
}

}  // namespace yamata
