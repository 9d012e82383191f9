#pragma once
// Tokens that vocabularies have for a purpose: what ends a turn, and what marks the parts of a text with a gap (FIM, fill in the middle).
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/gguf/gguf.hpp"

namespace yamata {

/// Before the gap, after it, and where it is to be filled; then those that come between files, which end generation.
enum class FimToken { kPrefix, kSuffix, kMiddle, kPad, kRepository, kSeparator };
inline constexpr std::size_t kFimTokens = 6;

/// Whether a token of this text ends a turn in every vocabulary that has it, whatever kind the file says it is.
bool text_ends_turn(std::string_view text);
/// The same where it is a control token: it may be an ordinary one.
bool control_text_ends_turn(std::string_view text);

/// The id of each, as metadata or the tokens' texts say; -1: there is none. Throws ModelError for an id beyond the vocabulary.
std::array<std::int32_t, kFimTokens> find_fim_tokens(const gguf::File& file, std::span<const std::string> texts);

/// The token that metadata name with this key, or `absent`. Throws ModelError for an id beyond the vocabulary.
std::int32_t token_of_key(const gguf::File& file, const std::string& key, std::size_t vocabulary, std::int32_t absent);

}  // namespace yamata
