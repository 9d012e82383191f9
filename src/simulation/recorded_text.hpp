#pragma once
// The text of a real run, with its drafter's choices.
#include <optional>
#include <unordered_map>

#include "src/simulation/synthetic_text.hpp"

namespace yamata::simulation {

struct Recording {
  /// The drafter's choices for one token.
  struct Choices {
    std::vector<float> draft_probabilities;  ///< probabilities of its choices, the highest first; empty: none arrived in time
    std::optional<std::size_t> accepted;     ///< which of them is the text's token, if any
  };
  std::vector<std::int32_t> prompt, tokens;
  std::vector<Choices> choices;  ///< per token, or none
};

/// Follows the recording, so that repeated passages are repeated here, too. Off the recorded path, and after its end, the text is
/// synthetic, and the drafter uses its choices of another position.
class RecordedText final : public SyntheticText {
 public:
  /// The vocabulary is that of the recording, not that of the options.
  RecordedText(Recording recording, TextOptions options);

  std::int32_t next(std::uint64_t prefix) const override;
  void draft_logits(std::uint64_t drafter, std::uint64_t prefix, std::span<float> logits) const override;
  /// The first is the recorded one, whatever its length; others are random.
  std::vector<std::int32_t> prompt(std::int32_t tokens, std::uint64_t number = 0) const override;

 private:
  const Recording::Choices& choices(std::uint64_t drafter, std::uint64_t prefix) const;

  Recording recording_;                                  // its tokens renumbered from 0
  std::unordered_map<std::uint64_t, std::size_t> next_;  // prefix -> place in recording_.tokens
  std::vector<std::size_t> told_;                        // positions with choices of the drafter
};

}  // namespace yamata::simulation
