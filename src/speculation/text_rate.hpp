#pragma once
// The recent speed of the text.
#include "node/clock.hpp"

namespace yamata {

/// Tokens of text per second: a mean over the results, with more weight for recent ones.
class TextRate {
 public:
  /// Records a result of the target that became this many tokens of text.
  void text_came(int tokens);
  /// 0 before there are two results. The first one includes the prompt and does not count.
  double per_s() const { return seconds_ > 0 ? tokens_ / seconds_ : 0; }

 private:
  int results_ = 0;
  double tokens_ = 0, seconds_ = 0;
  Clock::time_point last_text_;
};

}  // namespace yamata
