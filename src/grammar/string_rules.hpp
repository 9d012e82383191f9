#pragma once
// Rules for strings: of any characters, of a pattern, of given lengths, and keys of objects.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/grammar/byte_automaton.hpp"
#include "src/grammar/pattern.hpp"

namespace yamata {

/// Lengths in characters.
struct StringLimits {
  std::uint64_t least = 0;
  std::optional<std::uint64_t> most{};
};

/// Reads the rest of a string after its opening quote, with the closing one, which leads to `to`.
void add_string_rest(ByteAutomaton& automaton, NodeIndex from, const StringLimits& limits, NodeIndex to);
/// The same with strings that the pattern accepts.
void add_pattern_rest(ByteAutomaton& automaton, NodeIndex from, const CharacterAutomaton& pattern, const StringLimits& limits,
                      NodeIndex to);
/// Reads a key with its quotes that is none of `others` (UTF-8), written without escapes.
void add_other_key(ByteAutomaton& automaton, NodeIndex from, const std::vector<std::string>& others, NodeIndex to);

}  // namespace yamata
