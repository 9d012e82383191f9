#pragma once
// The time of a part of the work.
#include "node/clock.hpp"

namespace yamata {

/// Adds the time of its life to a sum of seconds.
class Lap {
 public:
  explicit Lap(double& sum) : sum_(sum), began_(Clock::now()) {}
  ~Lap() { sum_ += Clock::seconds_since(began_); }
  Lap(const Lap&) = delete;
  Lap& operator=(const Lap&) = delete;

 private:
  double& sum_;
  const Clock::time_point began_;
};

}  // namespace yamata
