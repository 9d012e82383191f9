#include "src/grammar/string_rules.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "node/error.hpp"
#include "src/tokenizer/utf8.hpp"

namespace yamata {
namespace {

const Characters kPlain = complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});

void require_possible(const StringLimits& limits) {
  if (std::max(limits.least, limits.most.value_or(0)) >= ByteAutomaton::kMostNodes)
    throw UsageError("the schema is too large: 'minLength' or 'maxLength' is; lower it");
}

/// The characters of valid UTF-8.
std::vector<char32_t> characters_of(const std::string& text) {
  std::vector<char32_t> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text, at));
    const auto lead = static_cast<std::uint8_t>(text[at]);
    char32_t c = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) c = c << 6 | (static_cast<std::uint8_t>(text[at + i]) & 0x3Fu);
    characters.push_back(c);
    at += length;
  }
  return characters;
}

/// Keys by their first characters.
struct KeyTree {
  std::map<char32_t, KeyTree> children;
  bool key = false;

  void add(const std::string& text) {
    KeyTree* at = this;
    for (const char32_t c : characters_of(text)) at = &at->children[c];
    at->key = true;
  }
};

}  // namespace

void add_string_rest(ByteAutomaton& automaton, NodeIndex from, const StringLimits& limits, NodeIndex to) {
  require_possible(limits);
  NodeIndex node = from;
  for (std::uint64_t length = 0;; ++length) {
    if (length >= limits.least) automaton.add_byte(node, '"', to);
    if (!limits.most && length >= limits.least) return add_any_in_string(automaton, node, node);
    if (limits.most && length >= *limits.most) return;
    const NodeIndex next = automaton.add_node();
    add_any_in_string(automaton, node, next);
    node = next;
  }
}

void add_pattern_rest(ByteAutomaton& automaton, NodeIndex from, const CharacterAutomaton& pattern, const StringLimits& limits,
                      NodeIndex to) {
  require_possible(limits);
  using Place = std::pair<std::uint32_t, std::uint64_t>;  // a state, and the characters before it as far as limits matter
  std::map<Place, NodeIndex> nodes{{{0, 0}, from}};
  std::vector<Place> open{{0, 0}};
  const std::uint64_t counted = limits.most ? *limits.most + 1 : limits.least;
  while (!open.empty()) {
    const auto [state, length] = open.back();
    const NodeIndex node = nodes.at(open.back());
    open.pop_back();
    if (pattern.states[state].accepting && length >= limits.least) automaton.add_byte(node, '"', to);
    if (limits.most && length >= *limits.most) continue;
    for (const auto& step : pattern.states[state].steps) {
      const Place next{step.to, std::min(length + 1, counted)};
      const auto [found, added] = nodes.try_emplace(next, 0);
      if (added) {
        found->second = automaton.add_node();
        open.push_back(next);
      }
      add_in_string(automaton, node, step.characters, found->second);
    }
  }
}

void add_other_key(ByteAutomaton& automaton, NodeIndex from, const std::vector<std::string>& others, NodeIndex to) {
  KeyTree keys;
  for (const std::string& other : others) keys.add(other);
  const NodeIndex first = automaton.add_node(), other = automaton.add_node();
  automaton.add_byte(from, '"', first);
  automaton.add_byte(other, '"', to);
  add_utf8(automaton, other, kPlain, other);
  std::vector<std::pair<const KeyTree*, NodeIndex>> open{{&keys, first}};
  while (!open.empty()) {
    const auto [tree, node] = open.back();
    open.pop_back();
    if (!tree->key) automaton.add_byte(node, '"', to);
    Characters known;
    for (const auto& [c, child] : tree->children) {
      known.push_back({c, c});
      const NodeIndex next = automaton.add_node();
      add_utf8(automaton, node, intersection({{c, c}}, kPlain), next);
      open.emplace_back(&child, next);
    }
    add_utf8(automaton, node, intersection(kPlain, complement(normalized(known))), other);
  }
}

}  // namespace yamata
