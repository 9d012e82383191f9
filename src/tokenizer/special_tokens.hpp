#pragma once
// Special tokens: those that end a turn, and those for fill-in-the-middle (FIM).
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/gguf/gguf.hpp"

namespace yamata {

/// Prefix, suffix and middle of FIM; then those between files, which end generation.
enum class FimToken { kPrefix, kSuffix, kMiddle, kPad, kRepository, kSeparator };
inline constexpr std::size_t kFimTokens = 6;

/// Whether a token with this text ends a turn in every vocabulary that has it, whatever its type in the file is.
bool text_ends_turn(std::string_view text);
/// The same if it is a control token; it may also be an ordinary one.
bool control_text_ends_turn(std::string_view text);

/// The id of each, from the metadata or the tokens' texts; -1: there is none. Throws ModelError for an id beyond the vocabulary.
std::array<std::int32_t, kFimTokens> find_fim_tokens(const gguf::File& file, std::span<const std::string> texts);

/// The token under this metadata key, or `absent`. Throws ModelError for an id beyond the vocabulary.
std::int32_t token_of_key(const gguf::File& file, const std::string& key, std::size_t vocabulary, std::int32_t absent);

}  // namespace yamata
