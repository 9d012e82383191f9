#pragma once
// Whether a draft is worth the time that the text waits for it.
#include <optional>

#include "node/clock.hpp"

namespace yamata {

/// What a draft takes, and what it may save, in seconds.
struct DraftTimes {
  double first_s = 0;  ///< until its first guess is there
  double next_s = 0;   ///< from guess to guess
  double row_s = 0;    ///< by which a guess lengthens the run that verifies it
  double token_s = 0;  ///< what a token of the text takes without it
};

/// What a chain of up to `most` guesses saves at best, less what it takes, where each is right with probability `hit`; 0: nothing.
double most_saved_s(const DraftTimes& times, double hit, int most);

/// Least path probability of a node for which one more evaluation of the draft, to guess what follows it, is worth its time.
double least_worth_drafting(const DraftTimes& times, double hit);

/// What a draft has saved of late, or cost: steps of the text with it against what their tokens take without. What is expected of it may
/// be wrong, such as where it needs several rows for one that is right.
class DraftBalance {
 public:
  /// A step with the draft took `seconds` and gave so many tokens, which take `token_s` each without it.
  void step(int tokens, double seconds, double token_s) { balance_ = kForget * balance_ + tokens - seconds / token_s; }
  bool negative() const { return balance_ < -kCredit; }

 private:
  static constexpr double kForget = 0.95;
  static constexpr double kCredit = 2;  // tokens: misses in a row of a good draft are not yet a bad one
  double balance_ = 0;                  // tokens saved
};

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
