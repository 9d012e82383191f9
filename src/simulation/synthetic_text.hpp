#pragma once
// A random text, with a drafter of a given accuracy.
#include <cstdint>
#include <span>
#include <vector>

namespace yamata::simulation {

struct TextOptions {
  std::uint64_t seed = 0;
  double top1 = 0.65;  ///< probability that the next token is the drafter's first choice
  double top4 = 0.85;  ///< probability that it is among the drafter's first four
  /// 0: the draft probabilities are calibrated; else they are raised to the power of 1 + this; below 0: under-confident
  double over_confidence = 0;
  std::int32_t vocabulary = 64;  ///< smaller than a language's, for speed; the random text makes up for it
};

/// The next token is a hash of the whole prefix. In a drafter's list of guesses after a prefix, this token is at a random rank, drawn for
/// that prefix from one of two distributions: of an easy or of a hard position. The drafter can tell them apart, like real drafters.
class SyntheticText {
 public:
  explicit SyntheticText(const TextOptions& options);
  virtual ~SyntheticText() = default;

  std::int32_t vocabulary() const { return options_.vocabulary; }
  /// Mean of the draft probabilities of a drafter's first choices.
  double mean_first_probability() const;
  virtual std::int32_t next(std::uint64_t prefix) const;
  /// Logits [vocabulary] of drafter number `drafter`; drafters are independent of each other.
  virtual void draft_logits(std::uint64_t drafter, std::uint64_t prefix, std::span<float> logits) const;
  /// A prompt; of number `number`, if there are several.
  virtual std::vector<std::int32_t> prompt(std::int32_t tokens, std::uint64_t number = 0) const;
  /// Logits [vocabulary] of the target after a prefix.
  void target_logits(std::uint64_t prefix, std::span<float> logits) const;
  /// The `tokens` tokens that follow a text.
  std::vector<std::int32_t> continuation(std::vector<std::int32_t> text, std::int32_t tokens) const;

 protected:
  /// The purposes of random draws; draws for different purposes are independent.
  enum class Draw : std::uint64_t { kToken = 1, kEasy, kRank, kOrder, kPrompt, kPlace };
  /// A random number of this drafter for this prefix and purpose.
  std::uint64_t draw(std::uint64_t drafter, std::uint64_t prefix, Draw purpose) const;
  /// Writes logits [vocabulary] from logits by rank in the drafter's list: the next token is at rank `truth`; the other tokens are placed
  /// at random.
  void spread(std::uint64_t drafter, std::uint64_t prefix, std::size_t truth, std::span<const float> by_rank,
              std::span<float> logits) const;

 private:
  struct Kind {
    std::vector<double> at_most;  // probability that the rank is this one or lower
    std::vector<float> logits;    // by rank, of the drafter
  };
  Kind make_kind(double top1, double among_next_three) const;

  TextOptions options_;
  double easy_share_ = 0;
  Kind easy_, hard_;
};

/// The over-confidence at which the mean of the first choices' draft probabilities is `mean_first_probability`, or as close as possible.
double over_confidence_of(TextOptions options, double mean_first_probability);

}  // namespace yamata::simulation
