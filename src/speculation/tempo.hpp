#pragma once
// How fast the text and the guesses have come of late.
#include "node/clock.hpp"

namespace yamata {

class Tempo {
 public:
  /// A result of the target became so many tokens of the text.
  void text_came(int tokens);
  /// Guesses came that the tree had not.
  void guesses_came();
  /// Tokens of text per second; 0 before there are two results. The first waits for the prompt and does not count.
  double rate() const { return seconds_ > 0 ? tokens_ / seconds_ : 0; }
  /// How long guesses let wait, after others or after the text they continue; 0: not known.
  double draft_s() const { return draft_s_; }
  /// Guesses have taken so many times as long as they use to that their drafter may be dead, which shows only later; until some come.
  bool overdue();

 private:
  int results_ = 0;
  double tokens_ = 0, seconds_ = 0, draft_s_ = 0;
  Clock::time_point last_text_, last_guesses_;
  bool overdue_ = false;
};

}  // namespace yamata
