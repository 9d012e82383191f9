#pragma once
// How fast the text and the guesses have come of late.
#include "node/clock.hpp"

namespace yamata {

class Tempo {
 public:
  /// A result of the target became so many tokens of the text.
  void text_came(int tokens);
  /// Tokens of text per second; 0 before there are two results. The first waits for the prompt and does not count.
  double rate() const { return seconds_ > 0 ? tokens_ / seconds_ : 0; }

 private:
  int results_ = 0;
  double tokens_ = 0, seconds_ = 0;
  Clock::time_point last_text_;
};

/// How long one drafter's guesses let wait. The first after new text take a message's way there and back besides the drafter's time.
class DraftTempo {
 public:
  /// Another text begins.
  void begin();
  /// The text has grown.
  void text_came();
  /// Guesses came that the tree had not.
  void guesses_came();
  /// Seconds from what came last, text or guesses, to the next guesses, and from guesses to guesses; 0: not known.
  double answer_s() const { return answer_s_; }
  double wait_s() const { return answers() ? answer_s_ : next_s_; }
  double next_s() const { return next_s_ > 0 ? next_s_ : answer_s_; }
  /// Guesses have taken so many times as long as they use to that the drafter may be dead, which shows only later; until some come.
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
