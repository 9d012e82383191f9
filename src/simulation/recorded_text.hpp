#pragma once
// The text of a real run, with what its drafter said of it.
#include <optional>
#include <unordered_map>

#include "src/simulation/synthetic_text.hpp"

namespace yamata::simulation {

struct Recording {
  /// What the drafter had said of one token.
  struct Choices {
    std::vector<float> draft_probabilities;  ///< probabilities of its choices, the highest first; empty: it had said nothing in time
    std::optional<std::size_t> accepted;     ///< which of them is the text's token, if any
  };
  std::vector<std::int32_t> prompt, tokens;
  std::vector<Choices> choices;  ///< per token, or none
};

/// Goes as recorded, so that passages which repeat themselves do so here. Off the recorded path, and after its end, the text is
/// synthetic, and the drafter says what it has said somewhere else.
class RecordedText final : public SyntheticText {
 public:
  /// Of the options, the vocabulary is the recording's own.
  RecordedText(Recording recording, TextOptions options);

  std::int32_t next(std::uint64_t prefix) const override;
  void draft_logits(std::uint64_t drafter, std::uint64_t prefix, std::span<float> logits) const override;
  /// The recorded one, whatever its length.
  std::vector<std::int32_t> prompt(std::int32_t tokens) const override;

 private:
  const Recording::Choices& choices(std::uint64_t drafter, std::uint64_t prefix) const;

  Recording recording_;                                  // its tokens numbered anew, from 0
  std::unordered_map<std::uint64_t, std::size_t> next_;  // prefix -> place in recording_.tokens
  std::vector<std::size_t> told_;                        // where the drafter had said something
};

}  // namespace yamata::simulation
