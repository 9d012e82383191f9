#pragma once
// Prompt lookup decoding: the plain form of guessing from the text itself, as a baseline.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/speculation/guess_source.hpp"

namespace yamata {

/// Prompt lookup decoding (Saxena, 2023): searches prompt and text for the first passage that equals the last n tokens, n = longest,
/// ..., 1. What followed it is guessed, as a chain. SuffixSource is better: it knows all passages, how often each continuation came, and
/// earlier texts.
class PromptLookup final : public GuessSource {
 public:
  /// `longest`: tokens of the longest passage that is searched for, at least 1.
  PromptLookup(int index, int longest) : GuessSource(index), longest_(static_cast<std::size_t>(longest)) {}

  std::string name() const override { return "prompt lookup"; }
  void begin(std::uint64_t /*request*/) override {}
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override;

  /// What followed the first earlier passage that equals the end of the text, at most `most` tokens; empty: there is none.
  static std::span<const std::int32_t> continuation(std::span<const std::int32_t> text, std::size_t longest, std::size_t most);

 private:
  const std::size_t longest_;
};

}  // namespace yamata
