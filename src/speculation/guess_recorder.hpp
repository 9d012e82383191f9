#pragma once
// Which guesses the sources had, at every position of some texts, and which of them were right.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/speculation/guess_source.hpp"
#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// How often a source's guesses at one distance were right, at positions where all its nearer guesses were right.
struct LevelRates {
  static constexpr std::size_t kChoices = 8;

  std::uint64_t reached = 0;           ///< positions where its guesses were right up to the previous distance
  std::uint64_t guessed = 0;           ///< of these, positions where it guessed at this distance, too
  std::uint64_t right[kChoices] = {};  ///< of these, positions where its first, second ... choice was the token
  double promised = 0;                 ///< sum of the calibrated probabilities of its first choices

  /// Of the positions where it guessed, the share where its first choice was right; and the same by its calibrated probabilities.
  double true_rate() const { return guessed > 0 ? static_cast<double>(right[0]) / static_cast<double>(guessed) : 0; }
  double calibrated_rate() const { return guessed > 0 ? promised / static_cast<double>(guessed) : 0; }
};

/// Of one source, or of all together.
struct SourceRates {
  std::string name;
  std::vector<LevelRates> levels;  ///< [0]: one token ahead
  std::vector<RankedText> texts;   ///< the ranks of the true tokens

  /// [level][choice]: the share of the positions reached where that choice was right.
  LevelAccuracies accuracies() const;
};

/// A source that guesses nothing. Added last, it sees the guesses of the others when a token is committed. These guesses must have been
/// made at that position, so reuse_tree must be off, and the policy must wait for all sources.
class GuessRecorder final : public GuessSource {
 public:
  /// `levels`: the greatest distance, in tokens.
  GuessRecorder(int index, std::size_t levels) : GuessSource(index), levels_(levels) {}

  std::string name() const override { return "recorder"; }
  void begin(std::uint64_t request) override;
  bool guess(TokenTree&, std::span<const std::int32_t>, const GuessDemand&) override { return false; }
  void learn(const TokenTree& tree, std::int32_t next) override;

  /// Of each of `sources`, by index, and last of all together, named "all".
  std::vector<SourceRates> rates(std::span<const GuessSource* const> sources) const;

 private:
  struct Guess {
    std::int32_t parent;  // among those of the position; -1: its token
    std::int32_t token;
    float probability;  // as the policies see it
    std::vector<DraftProbability> of;
  };
  struct Position {
    std::vector<Guess> guesses;  // parents first
    std::int32_t next;           // the true token
  };
  using Text = std::vector<Position>;
  void count(const Text& text, std::size_t at, const GuessSource* source, SourceRates& rates) const;

  std::size_t levels_;
  std::vector<Text> texts_;
};

}  // namespace yamata
