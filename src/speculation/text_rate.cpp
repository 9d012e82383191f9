#include "src/speculation/text_rate.hpp"

namespace yamata {

void TextRate::text_came(int tokens) {
  constexpr double kForget = 0.95;  // weight that a result's tokens and time keep with each later one: those of the last 20 count
  if (results_ > 0) {
    tokens_ = kForget * tokens_ + tokens;
    seconds_ = kForget * seconds_ + Clock::seconds_since(last_text_);
  }
  ++results_;
  last_text_ = Clock::now();
}

}  // namespace yamata
