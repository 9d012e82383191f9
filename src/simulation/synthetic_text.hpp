#pragma once
// A text that nobody wrote, with a drafter that knows it as well as it is told to.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace yamata::simulation {

struct TextOptions {
  std::uint64_t seed = 0;
  double top1 = 0.65;          ///< share of the tokens that are the drafter's first choice
  double top4 = 0.85;          ///< share that is among its first four
  double over_confidence = 0;  ///< 0: its probabilities are right; its odds are raised to the power of 1 + this
};

/// Every next token is a hash of the whole prefix. A drafter's list after a prefix holds it at a rank that is drawn for that
/// prefix, from one of two distributions: an easy position's or a hard one's. The drafter can tell them apart, as real ones can.
class SyntheticText {
 public:
  /// Tokens there are; fewer than a language has, for speed: that the text is random makes up for it.
  static constexpr std::int32_t kVocabulary = 64;

  explicit SyntheticText(const TextOptions& options);

  std::int32_t next(std::uint64_t prefix) const;
  /// Logits [kVocabulary] of the target after a prefix.
  void target_logits(std::uint64_t prefix, std::span<float> logits) const;
  /// Logits [kVocabulary] of drafter `drafter`: of several, each draws for itself.
  void draft_logits(std::uint64_t drafter, std::uint64_t prefix, std::span<float> logits) const;
  /// The next token's rank in that drafter's list, from 0.
  std::int32_t rank(std::uint64_t drafter, std::uint64_t prefix) const;
  std::vector<std::int32_t> prompt(std::int32_t tokens) const;
  /// `tokens` tokens after a text.
  std::vector<std::int32_t> continuation(std::vector<std::int32_t> text, std::int32_t tokens) const;

 private:
  struct Kind {
    std::array<double, kVocabulary> at_most;  // probability that the rank is this or a lower one
    std::array<float, kVocabulary> logits;    // by rank, as the drafter states them
  };
  Kind make_kind(double top1, double among_next_three) const;
  const Kind& kind(std::uint64_t drafter, std::uint64_t prefix) const;

  TextOptions options_;
  double easy_share_ = 0;
  Kind easy_, hard_;
};

}  // namespace yamata::simulation
