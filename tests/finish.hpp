#pragma once
#include <chrono>

#include "node/compute_unit.hpp"

namespace yamata {

/// Waits until the unit has computed what it was started with.
inline void finish(ComputeUnit& unit) {
  while (!unit.wait_for(std::chrono::seconds(1))) {
  }
}

}  // namespace yamata
