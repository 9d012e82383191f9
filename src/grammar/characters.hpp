#pragma once
// Sets of characters, and how JSON writes them.
#include <cstdint>
#include <vector>

#include "src/grammar/byte_automaton.hpp"

namespace yamata {

/// Code points low to high.
struct CharacterRange {
  char32_t low, high;
  bool operator==(const CharacterRange&) const = default;
};
/// Ascending, neither overlapping nor adjacent.
using Characters = std::vector<CharacterRange>;

inline constexpr char32_t kLastCharacter = 0x10FFFF;

/// Sorts ranges and joins those that touch.
Characters normalized(Characters ranges);
/// All characters but these.
Characters complement(const Characters& characters);
Characters intersection(const Characters& a, const Characters& b);
bool contains(const Characters& characters, char32_t character);

/// Reads one of the characters as UTF-8. Surrogates are no characters.
void add_utf8(ByteAutomaton& automaton, NodeIndex from, const Characters& characters, NodeIndex to);
/// Reads one of the characters as it is written within a JSON string: itself where that is allowed, else its shortest escape.
void add_in_string(ByteAutomaton& automaton, NodeIndex from, const Characters& characters, NodeIndex to);
/// Reads any character of a JSON string, in any of its ways.
void add_any_in_string(ByteAutomaton& automaton, NodeIndex from, NodeIndex to);

}  // namespace yamata
