#pragma once
// How long a drafter's guesses take to come.
#include "node/clock.hpp"

namespace yamata {

/// Measured apart: the first guesses after new text, which take a message's way there and back besides the drafter's time, and those that
/// follow guesses.
class DraftLatency {
 public:
  /// Another text begins; what is known of the drafter stays.
  void begin();
  /// The text has grown.
  void text_came();
  /// Guesses came that the tree had not.
  void guesses_came();
  /// Seconds from the text to the first guesses; 0: not known.
  double answer_s() const { return answer_s_; }
  /// Seconds from what came last, text or guesses, to the next guesses; 0: not known.
  double wait_s() const { return answers() ? answer_s_ : next_s_; }
  /// Seconds from guesses to guesses.
  double next_s() const { return next_s_ > 0 ? next_s_ : answer_s_; }
  /// The next guesses take so much longer than usual that the drafter may be dead, which shows only later; until some come.
  bool overdue();

 private:
  /// The next guesses are the first after the text.
  bool answers() const { return last_text_ >= last_guesses_; }

  int texts_ = 0;  // the guesses after the first had waited for the prompt
  double answer_s_ = 0, next_s_ = 0;
  Clock::time_point last_text_, last_guesses_;
  bool overdue_ = false;
};

}  // namespace yamata
