#pragma once
// Processor time of the calling thread.
#include <ctime>

namespace yamata {

/// Seconds since the thread began.
inline double thread_cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace yamata
