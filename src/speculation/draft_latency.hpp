#pragma once
// The latency of a drafter's guesses.
#include "node/clock.hpp"

namespace yamata {

/// Two separate measurements: the first guesses after new text, whose latency includes a message in each direction, and guesses that follow
/// other guesses.
class DraftLatency {
 public:
  /// Another text begins; the measurements are kept.
  void begin();
  /// The text has grown.
  void text_came();
  /// Guesses arrived that were new to the tree.
  void guesses_came();
  /// Seconds from the text to the first guesses; 0: not known.
  double answer_s() const { return answer_s_; }
  /// Seconds from the last text or guesses to the next guesses; 0: not known.
  double wait_s() const { return next_answers_text() ? answer_s_ : next_s_; }
  /// Seconds from guesses to guesses.
  double next_s() const { return next_s_ > 0 ? next_s_ : answer_s_; }
  /// Whether the next guesses take so much longer than usual that the drafter may be dead; false again when guesses arrive.
  bool overdue();

 private:
  /// The next guesses are the first after the text.
  bool next_answers_text() const { return last_text_ >= last_guesses_; }

  int texts_ = 0;  // the guesses after the first had waited for the prompt
  double answer_s_ = 0, next_s_ = 0;
  Clock::time_point last_text_, last_guesses_;
  bool overdue_ = false;
};

}  // namespace yamata
