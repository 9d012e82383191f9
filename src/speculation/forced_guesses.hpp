#pragma once
// Guesses of what a grammar leaves no choice about.
#include "src/grammar/forced_text.hpp"
#include "src/speculation/guess_source.hpp"

namespace yamata {

/// Where only one continuation is allowed, the model chooses at most how it is divided into tokens, and the tokenizer's way is likely. The
/// guesses begin at the end of the text, or of the most probable guesses of other sources. One text, whose grammar outlives this.
class ForcedGuesses final : public GuessSource {
 public:
  /// `kept`: the beginning of the text that is known already.
  ForcedGuesses(int index, TokenGrammar& grammar, std::span<const std::int32_t> kept);

  std::string name() const override { return "schema"; }
  void begin(std::uint64_t /*request*/) override {}
  /// Of the grammar, behind the kept tokens.
  TokenGrammar::State state() const { return state_; }
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override;
  void learn(const TokenTree& tree, std::int32_t next) override;

 private:
  bool add(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand);
  std::string bytes_before(std::span<const std::int32_t> text) const;

  TokenGrammar& grammar_;
  ForcedText text_;
  TokenGrammar::State state_;
};

}  // namespace yamata
