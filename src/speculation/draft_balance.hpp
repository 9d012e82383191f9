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

/// Sums over steps with a draft. Times are in tokens without any guesses.
struct DraftSums {
  double steps = 0, tokens = 0, own = 0, times = 0, costs = 0;

  void add(const DraftStep& step, double forget);
  void fade(double factor);
  /// Tokens that the draft saved; negative: it cost more. The lesser of two: compared with no guesses at all, and with the other sources
  /// alone. For the latter, the draft's time counts as the tokens that came in the same time without it.
  double saved() const;
};

/// The recent savings or costs of a draft, as measured: the tokens that only it had guessed, compared with those that would have come in
/// its time without it. The expected savings may differ from these, for example if the draft needs several rows for one accepted guess. A
/// text begins with the average of all texts before it.
class DraftBalance {
 public:
  /// Another text begins.
  void begin();
  void step(const DraftStep& step);
  /// Records a step in which another draft had its turn. The weight of older results falls.
  void step_of_another();
  /// Records a step in which it had its turn, but was not asked for guesses.
  void step_not_asked() { fresh_ = kForgetTrial * fresh_ + 1; }
  /// Whether it has cost more than it saved, by more than its credit.
  bool costs_more() const { return recent_.saved() + credit_ < 0; }
  /// Whether enough steps are recent to compare it with others.
  bool is_tried() const { return fresh_ >= kTrial; }
  /// Tokens, relative to those without any guesses in the same time; 0: not known.
  double speed() const;
  /// The sums over all texts so far, to be kept for other jobs.
  const DraftSums& experience() const { return usual_; }
  /// Begins with the sums of earlier jobs. They count for at most kMaxFromEarlier steps, because the load of the machine or the texts may
  /// have been different.
  void begin_with(const DraftSums& experience);

 private:
  /// Factors by which a step's weight falls with each later one: in this text, in all texts, for trials; and with each step without it.
  static constexpr double kForget = 0.98, kForgetUsual = 0.998, kForgetTrial = 0.95, kRest = 0.998;
  static constexpr double kCredit = 2;            // tokens that a draft may cost at the beginning, for a few rejections
  static constexpr double kFew = 20;              // steps for which the average of all texts counts
  static constexpr double kPrior = 60;            // weight of kCredit against the average of all texts, in steps
  static constexpr double kMaxFromEarlier = 150;  // steps that earlier jobs count for
  static constexpr double kTrial = 6;             // some five steps
  DraftSums recent_, usual_;                      // of this text, of all
  double credit_ = kCredit;                       // tokens that it may cost in this text before costs_more
  double fresh_ = 0;                              // time of recent steps, as for DraftSums
};

/// Which of the drafts that take turns on one unit guesses next. Only one does, because most of their guesses are the same, but each
/// evaluation costs time. Drafts with few or old results come first, in their order; then the fastest recently. Of those that were tried, a
/// draft that has cost more than it saved is chosen only if all have. `balances` is not empty.
std::size_t whose_turn(std::span<const DraftBalance* const> balances);

/// A draft that costs more than it saves is tried again for a hundredth of the time, because the text may have become easier.
class ProbeBudget {
 public:
  /// Takes the time of a trial from the budget, which grows from the first call on; false: there is not enough.
  bool spend(double seconds);

 private:
  std::optional<Clock::time_point> since_;
  double spent_s_ = 0;
};

}  // namespace yamata
