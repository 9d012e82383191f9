#pragma once
// Guesses without a model: what followed when the text last read as it does now.
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "src/speculation/guess_source.hpp"

namespace yamata {

/// Prompt lookup decoding (Saxena 2023; beyond the papers). Names, code and lists come again word for word, and greedy text of small
/// models does so soon; where nothing comes again its calibration finds that out as it does with a draft that knows nothing.
class PromptLookup final : public GuessSource {
 public:
  using GuessSource::GuessSource;

  void begin(std::uint64_t request) override;
  /// Puts below the tree's root what followed the longest earlier passage that equals the end of `text`; `text` is the one of the last
  /// call, or that with more at its end.
  bool guess(TokenTree& tree, std::span<const std::int32_t> text, const GuessDemand& demand) override;

 private:
  struct Passage {
    std::size_t end = 0;     // where the text went on after it
    std::size_t length = 0;  // tokens of it; 0: there is none
  };
  Passage find(std::span<const std::int32_t> text) const;

  std::unordered_map<std::int32_t, std::vector<std::size_t>> after_;  // where the text goes on after each token, ascending
  std::size_t indexed_ = 0;
};

}  // namespace yamata
