#pragma once
// The time that a draft for which the text waits has saved or cost, and the time that may be spent on trying it again.
#include <cstddef>
#include <optional>
#include <span>

#include "node/clock.hpp"

namespace yamata {

/// The recent savings or costs of a draft: the times of steps with it, compared with the times of their tokens without it. The expected
/// savings may be wrong, for example if it needs several rows for one accepted guess.
class DraftBalance {
 public:
  /// Records a step with the draft: it took `seconds` and gave `tokens` tokens, which take `token_s` each without it.
  void step(int tokens, double seconds, double token_s);
  /// Records a step without it, because another draft had its turn: older results fade a little.
  void rest();
  bool negative() const { return tokens_ - times_ < -kCredit; }
  /// Whether enough is known to compare it with others.
  bool tried() const { return times_ >= kTrial; }
  /// Tokens, relative to those without it in the same time; 0: not known.
  double speed() const { return times_ > 0 ? tokens_ / times_ : 0; }

 private:
  static constexpr double kForget = 0.95,
                          kRest = 0.998;  // factors by which a step's weight falls with each later step, with and without the draft
  static constexpr double kCredit = 2;    // tokens: a few consecutive rejections do not yet mean a bad draft
  static constexpr double kTrial = 6;     // some five steps
  double tokens_ = 0, times_ = 0;         // tokens of its steps, and their times in tokens
};

/// Which of the drafts that take turns on one unit guesses next. Only one does, because most of their guesses are the same, but each
/// evaluation costs time. Drafts with few or old results come first, in their order; then the fastest recently. A draft that has cost more
/// than it saved is chosen only if all have. `balances` is not empty.
std::size_t whose_turn(std::span<const DraftBalance* const> balances);

/// A draft that costs more than it saves is tried again for a hundredth of the time, because the text may have become easier.
class ProbeBudget {
 public:
  /// Spends the time of a trial, if enough has accumulated since the first call; false: not enough.
  bool afford(double seconds);

 private:
  std::optional<Clock::time_point> since_;
  double spent_s_ = 0;
};

}  // namespace yamata
