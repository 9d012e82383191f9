#pragma once
// The time of a token of the text without any guesses.
#include <deque>

namespace yamata {

/// Guesses are compared with this time, so it is measured again and again: in steps without guesses, which are due ever more rarely, since
/// each costs the tokens that its guesses would have saved. The first steps of a text do not count, because caches are still being filled.
class TokenAlone {
 public:
  /// Records a step of the text: its time, and whether it had no guesses and waited for none.
  void step_ended(double seconds, bool alone);
  /// Whether the next step should have no guesses: the 1st, 8th, 16th, 32nd, and so on, then one in 128, if there are none between. If it
  /// is clear that guesses save time: the 8th, and then one in 128.
  bool due(bool clear) const;
  /// The median of the latest measurements; 0: not known.
  double token_s() const;

 private:
  static constexpr int kFirst = 8, kRarest = 128, kKept = 5;
  int steps_ = 0, last_ = 0;  // last_: the latest without guesses
  std::deque<double> seconds_;
};

}  // namespace yamata
