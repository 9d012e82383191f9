#pragma once
// Vocabularies whose ids show where a pre-tokenizer splits a text.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace yamata::tokenizer_test {

/// GPT-2's printable character for each byte.
std::array<std::string, 256> byte_texts();

/// The pairs of bytes that are merged, in the order of their ranks. The id of pair i is 256 + i; no token but the last is longer.
const std::vector<std::pair<std::uint8_t, std::uint8_t>>& merged_pairs();

/// A small llama model as a GGUF file that llama.cpp, too, loads, with a made-up vocabulary. A raw one has characters instead of bytes, and
/// the tokenizer model `gemma4` if `pre` is that.
std::string made_up_model(const std::string& pre, bool raw);

}  // namespace yamata::tokenizer_test
