#pragma once
// Texts that a grammar allows.
#include <random>
#include <string>

#include "src/grammar/grammar_reader.hpp"

namespace yamata {

/// Whether the text is one of those that the automaton allows.
bool accepts(GrammarReader& reader, std::string_view text);
/// Any text that it allows, byte by byte; empty if it has no end after many bytes.
std::string random_document(GrammarReader& reader, std::mt19937& random);

}  // namespace yamata
