#pragma once
// How fast the text has grown of late.
#include "node/clock.hpp"

namespace yamata {

/// Tokens of text per second: a mean over the results, the late ones weighing more.
class TextRate {
 public:
  /// A result of the target became so many tokens of the text.
  void text_came(int tokens);
  /// 0 before there are two results. The first waits for the prompt and does not count.
  double per_s() const { return seconds_ > 0 ? tokens_ / seconds_ : 0; }

 private:
  int results_ = 0;
  double tokens_ = 0, seconds_ = 0;
  Clock::time_point last_text_;
};

}  // namespace yamata
