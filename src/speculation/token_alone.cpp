#include "src/speculation/token_alone.hpp"

#include <algorithm>
#include <vector>

#include "node/median.hpp"

namespace yamata {

void TokenAlone::step_ended(double seconds, bool alone) {
  ++steps_;
  if (!alone) return;
  due_ = std::max(kFirst, std::min(2 * steps_, steps_ + kRarest));
  if (steps_ < kFirst) return;
  seconds_.push_back(seconds);
  if (seconds_.size() > kKept) seconds_.pop_front();
}

double TokenAlone::token_s() const { return median(std::vector<double>(seconds_.begin(), seconds_.end())); }

}  // namespace yamata
