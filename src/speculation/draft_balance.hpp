#pragma once
// The time that a draft for which the text waits has saved or cost, and the time that may be spent on trying it again.
#include <cstddef>
#include <optional>
#include <span>

#include "node/clock.hpp"

namespace yamata {

/// A result that became text, in a step with a draft.
struct DraftStep {
  int tokens = 0;      ///< of text
  int own = 0;         ///< of these, tokens that only this draft had guessed
  double seconds = 0;  ///< since the result before
  double cost_s = 0;   ///< of these, time that the draft took: the text waited for it, and its guesses lengthened runs
  double token_s = 0;  ///< time of a token without any guesses
};

/// The recent savings or costs of a draft: the tokens that only it had guessed, compared with those that would have come in its time
/// without it. The expected savings may be wrong, for example if it needs several rows for one accepted guess.
class DraftBalance {
 public:
  void step(const DraftStep& step);
  /// Records a step without it, because another draft had its turn: older results fade a little.
  void rest();
  bool negative() const;
  /// Whether enough is known to compare it with others.
  bool tried() const { return times_ >= kTrial; }
  /// Tokens, relative to those without any guesses in the same time; 0: not known.
  double speed() const { return times_ > 0 ? tokens_ / times_ : 0; }

 private:
  static constexpr double kForget = 0.95,
                          kRest = 0.998;  // factors by which a step's weight falls with each later step, with and without the draft
  static constexpr double kCredit = 2;    // tokens: a few consecutive rejections do not yet mean a bad draft
  static constexpr double kTrial = 6;     // some five steps
  double tokens_ = 0, own_ = 0;           // of its steps
  double times_ = 0, costs_ = 0;          // seconds and cost_s of its steps, in tokens without any guesses
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
