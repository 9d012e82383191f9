#pragma once
// Which guesses the sources had, at every position of some texts, and which of them were right.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/speculation/guess_source.hpp"
#include "src/speculation/tree_builder.hpp"

namespace yamata {

/// How often a source's guesses so many tokens ahead were right, where all its guesses on the way there were.
struct LevelRates {
  static constexpr std::size_t kChoices = 8;

  std::uint64_t reached = 0;           ///< positions where its guesses lead as far as the token before
  std::uint64_t guessed = 0;           ///< where it guessed this one, too
  std::uint64_t right[kChoices] = {};  ///< where its first, second ... choice was the token
  double promised = 0;                 ///< calibrated probabilities of its first choices, all together

  /// Of those it guessed, the share that was its first choice; what its calibrated probabilities say of that.
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

/// Added as the last source it guesses nothing, and sees what the others have guessed when a token is committed. For what each would
/// guess from there on its own the guesses must have been made at that position: continue_tip off, and a policy that waits for all.
class GuessRecorder final : public GuessSource {
 public:
  /// `levels`: tokens ahead that are looked at.
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
