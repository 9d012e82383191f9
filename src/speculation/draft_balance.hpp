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
  /// Tokens that the draft saved; negative: it cost more. Compared with no guesses at all, and with the other sources alone: these may have
  /// guessed most tokens, so the draft's time is worth the tokens that came in the rest of the time.
  double saved() const;
};

/// The recent savings or costs of a draft: the tokens that only it had guessed, compared with those that would have come in its time
/// without it. The expected savings may be wrong, for example if it needs several rows for one accepted guess. A text begins with the
/// average of the texts before it, so a draft that loses a little in each is left alone from the beginning.
class DraftBalance {
 public:
  /// Another text begins.
  void begin();
  void step(const DraftStep& step);
  /// Records a step without it, because another draft had its turn: older results fade a little.
  void rest();
  /// It had its turn, but was not asked.
  void pass() { fresh_ = kForgetTrial * fresh_ + 1; }
  bool negative() const { return recent_.saved() + credit_ < 0; }
  /// Whether enough is known to compare it with others.
  bool tried() const { return fresh_ >= kTrial; }
  /// Tokens, relative to those without any guesses in the same time; 0: not known.
  double speed() const;
  /// What all texts have shown so far, to be kept for other jobs.
  const DraftSums& experience() const { return usual_; }
  /// Begins with that of earlier jobs. It counts for some steps only: the machine may have been busy, or the texts others.
  void begin_with(const DraftSums& experience);

 private:
  /// Factors by which a step's weight falls with each later one: in this text, in all texts, for trials; and with each step without it.
  static constexpr double kForget = 0.98, kForgetUsual = 0.998, kForgetTrial = 0.95, kRest = 0.998;
  static constexpr double kCredit = 2;            // tokens: a few consecutive rejections do not yet mean a bad draft
  static constexpr double kFew = 20;              // steps for which the average of all texts counts
  static constexpr double kPrior = 60;            // steps that kCredit counts for: one text alone says little about others
  static constexpr double kMaxFromEarlier = 150;  // steps that earlier jobs count for
  static constexpr double kTrial = 6;             // some five steps
  DraftSums recent_, usual_;                      // of this text, of all
  double credit_ = kCredit;                       // what it may lose in this text before it is left alone
  double fresh_ = 0;                              // time of recent steps, as for DraftSums
};

/// Which of the drafts that take turns on one unit guesses next. Only one does, because most of their guesses are the same, but each
/// evaluation costs time. Drafts with few or old results come first, in their order; then the fastest recently. Of those that were tried, a
/// draft that has cost more than it saved is chosen only if all have. `balances` is not empty.
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
