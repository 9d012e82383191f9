#pragma once
// Special tokens: those that end a turn, those for fill-in-the-middle (FIM), and those that drop white space beside them.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/gguf/gguf.hpp"

namespace yamata {

/// Prefix, suffix and middle of FIM; then those between files, which end generation.
enum class FimToken { kPrefix, kSuffix, kMiddle, kPad, kRepository, kSeparator };
inline constexpr std::size_t kFimTokens = 6;

/// Whether a token with this text ends a turn in every vocabulary that has it, whatever its type in the file is.
bool text_ends_turn(std::string_view text);
/// The same if it is a control token; it may also be an ordinary one.
bool control_text_ends_turn(std::string_view text);

/// The id of each, from the metadata or the tokens' texts; -1: there is none. `warnings`: as for token_of_key.
std::array<std::int32_t, kFimTokens> find_fim_tokens(const gguf::File& file, std::span<const std::string> texts,
                                                     std::vector<std::string>& warnings);

/// The token under this metadata key; `absent` without the key, or with an id beyond the vocabulary, for which a line is added to
/// `warnings`.
std::int32_t token_of_key(const gguf::File& file, const std::string& key, std::size_t vocabulary, std::int32_t absent,
                          std::vector<std::string>& warnings);

/// White space beside a special token that is dropped.
struct SwallowedSpaces {
  bool before = false, after = false;
};

/// What the special token with this text drops. GGUF files do not store it: like llama.cpp, it is inferred from the model's name, its
/// family and its pre-tokenizer.
SwallowedSpaces swallowed_spaces(const gguf::File& file, std::string_view text);

}  // namespace yamata
