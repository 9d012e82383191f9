#pragma once
// A text that nobody wrote, with a drafter that knows it as well as it is told to.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata::simulation {

struct TextOptions {
  std::uint64_t seed = 0;
  double top1 = 0.65;            ///< share of the tokens that are the drafter's first choice
  double top4 = 0.85;            ///< share that is among its first four
  double over_confidence = 0;    ///< 0: its probabilities are right; they are raised to the power of 1 + this; below 0: too unsure
  std::int32_t vocabulary = 64;  ///< fewer tokens than a language has, for speed: that the text is random makes up for it
};

/// Every next token is a hash of the whole prefix. A drafter's list after a prefix holds it at a rank that is drawn for that
/// prefix, from one of two distributions: an easy position's or a hard one's. The drafter can tell them apart, as real ones can.
class SyntheticText {
 public:
  explicit SyntheticText(const TextOptions& options);
  virtual ~SyntheticText() = default;

  std::int32_t vocabulary() const { return options_.vocabulary; }
  /// The mean of what a drafter states for its first choice.
  double mean_first_probability() const;
  virtual std::int32_t next(std::uint64_t prefix) const;
  /// Logits [vocabulary] of drafter `drafter`: of several, each draws for itself.
  virtual void draft_logits(std::uint64_t drafter, std::uint64_t prefix, std::span<float> logits) const;
  virtual std::vector<std::int32_t> prompt(std::int32_t tokens) const;
  /// Logits [vocabulary] of the target after a prefix.
  void target_logits(std::uint64_t prefix, std::span<float> logits) const;
  /// `tokens` tokens after a text.
  std::vector<std::int32_t> continuation(std::vector<std::int32_t> text, std::int32_t tokens) const;

 protected:
  /// What draws are for: no two purposes' depend on each other.
  enum class Draw : std::uint64_t { kToken = 1, kEasy, kRank, kOrder, kPrompt, kPlace };
  /// What this drafter draws for this prefix.
  std::uint64_t draw(std::uint64_t drafter, std::uint64_t prefix, Draw purpose) const;
  /// Logits [vocabulary] by the rank in the drafter's list, put where the tokens are: the next one is at rank `truth`, the others are
  /// drawn.
  void spread(std::uint64_t drafter, std::uint64_t prefix, std::size_t truth, std::span<const float> by_rank,
              std::span<float> logits) const;

 private:
  struct Kind {
    std::vector<double> at_most;  // probability that the rank is this or a lower one
    std::vector<float> logits;    // by rank, as the drafter states them
  };
  Kind make_kind(double top1, double among_next_three) const;

  TextOptions options_;
  double easy_share_ = 0;
  Kind easy_, hard_;
};

/// The over-confidence with which a draft of `options` states so much for its first choices, in the mean; as near as there is one.
double over_confidence_of(TextOptions options, double mean_first_probability);

}  // namespace yamata::simulation
