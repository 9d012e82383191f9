#pragma once
#include <chrono>

#include "node/compute_unit.hpp"

namespace yamata {

/// Waits until the unit has finished. Meanwhile reads its progress, like a stage's heartbeat, so that the thread sanitizer checks whether
/// that is allowed at any time.
inline void finish(ComputeUnit& unit) {
  while (!unit.wait_for(std::chrono::microseconds(100))) static_cast<void>(unit.progress());
}

}  // namespace yamata
