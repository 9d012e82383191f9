#pragma once
// A grammar of few tokens, some of which are two letters of others.
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/grammar/token_grammar.hpp"

namespace yamata::test {

/// It never ends, and often leaves no choice. The first half of the tokens, at least one, are letters.
inline std::shared_ptr<TokenGrammar> random_grammar(std::uint64_t seed, std::int32_t vocabulary) {
  std::mt19937_64 random(seed * 31 + 5);
  const auto below = [&](std::size_t end) { return random() % end; };
  const auto letters = static_cast<std::size_t>(vocabulary + 1) / 2;
  const auto letter = [](std::size_t i) { return static_cast<char>('a' + i); };
  std::vector<GrammarToken> tokens(static_cast<std::size_t>(vocabulary));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i].bytes = i < letters ? std::string(1, letter(i)) : std::string{letter(below(letters)), letter(below(letters))};
  ByteAutomaton automaton;
  const std::size_t nodes = 1 + below(5);
  while (automaton.nodes() < nodes) automaton.add_node();
  for (NodeIndex node = 0; node < nodes; ++node) {
    const std::size_t ways = below(3) > 0 ? 1 : 1 + below(letters);
    for (std::size_t i = 0; i < ways; ++i) automaton.add_byte(node, letter(below(letters)), static_cast<NodeIndex>(below(nodes)));
  }
  return std::make_shared<TokenGrammar>(std::make_shared<const GrammarVocabulary>(std::move(tokens)), std::move(automaton));
}

}  // namespace yamata::test
