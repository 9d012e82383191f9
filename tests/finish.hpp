#pragma once
#include <chrono>

#include "node/compute_unit.hpp"

namespace yamata {

/// Waits until the unit has computed what it was started with. Asks for its progress meanwhile, as a stage's heartbeat does: the thread
/// sanitizer sees whether that may be asked at any time.
inline void finish(ComputeUnit& unit) {
  while (!unit.wait_for(std::chrono::microseconds(100))) static_cast<void>(unit.progress());
}

}  // namespace yamata
