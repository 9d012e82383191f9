#pragma once
// What a draft that the text waits for has saved or cost, and what may be spent on finding out again.
#include <optional>

#include "node/clock.hpp"

namespace yamata {

/// What a draft has saved of late, or cost: steps of the text with it against what their tokens take without. What is expected of it may
/// be wrong, such as where it needs several rows for one that is accepted.
class DraftBalance {
 public:
  /// A step with the draft took `seconds` and gave so many tokens, which take `token_s` each without it.
  void step(int tokens, double seconds, double token_s) { balance_ = kForget * balance_ + tokens - seconds / token_s; }
  bool negative() const { return balance_ < -kCredit; }

 private:
  static constexpr double kForget = 0.95;
  static constexpr double kCredit = 2;  // tokens: rejections in a row of a good draft are not yet a bad one
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
