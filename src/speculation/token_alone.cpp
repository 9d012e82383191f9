#include "src/speculation/token_alone.hpp"

#include <algorithm>
#include <vector>

#include "node/median.hpp"

namespace yamata {

void TokenAlone::step_ended(double seconds, bool alone) {
  ++steps_;
  if (!alone) return;
  last_ = steps_;
  if (steps_ < kFirst) return;
  seconds_.push_back(seconds);
  if (seconds_.size() > kKept) seconds_.pop_front();
}

bool TokenAlone::due(bool clear) const {
  if (last_ < kFirst) return steps_ + 1 >= kFirst || (last_ == 0 && !clear);
  return steps_ + 1 - last_ >= (clear ? kRarest : std::min(last_, kRarest));
}

double TokenAlone::token_s() const { return median(std::vector<double>(seconds_.begin(), seconds_.end())); }

}  // namespace yamata
