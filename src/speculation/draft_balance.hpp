#pragma once
// What a draft that the text waits for has saved or cost, and what may be spent on finding out again.
#include <cstddef>
#include <optional>
#include <span>

#include "node/clock.hpp"

namespace yamata {

/// What a draft has saved of late, or cost: steps of the text with it against what their tokens take without. What is expected of it may
/// be wrong, such as where it needs several rows for one that is accepted.
class DraftBalance {
 public:
  /// A step with the draft took `seconds` and gave so many tokens, which take `token_s` each without it.
  void step(int tokens, double seconds, double token_s);
  /// A step without it, as it was another one's turn: what is known of it counts a little less.
  void rest();
  bool negative() const { return tokens_ - times_ < -kCredit; }
  /// Enough is known of it to be compared with others.
  bool tried() const { return times_ >= kTrial; }
  /// Tokens per time of a token without it; 0: not known.
  double speed() const { return times_ > 0 ? tokens_ / times_ : 0; }

 private:
  static constexpr double kForget = 0.95, kRest = 0.998;  // weights that a step keeps with each later one with and without the draft
  static constexpr double kCredit = 2;                    // tokens: rejections in a row of a good draft are not yet a bad one
  static constexpr double kTrial = 6;                     // some five steps
  double tokens_ = 0, times_ = 0;                         // that its steps gave, and took
};

/// Of drafts that take turns on one unit, which guesses next: one alone, as what several guess is mostly the same, and each must be paid.
/// The fastest of late; before that, in their order, those of which little is known or what is known is old. One that has cost more than
/// it saved only where all have. `balances` is not empty.
std::size_t whose_turn(std::span<const DraftBalance* const> balances);

/// A draft that does not pay is asked again now and then, since the text may have become easier: for a hundredth of the time.
class ProbeBudget {
 public:
  /// Takes what a probe costs, if as much has been saved since the first call.
  bool afford(double seconds);

 private:
  std::optional<Clock::time_point> since_;
  double spent_s_ = 0;
};

}  // namespace yamata
