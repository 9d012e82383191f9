#pragma once
// Threads that the program can do without.
#include <system_error>
#include <thread>
#include <utility>

namespace yamata {

/// Runs `work` in a thread of its own, for which nobody waits. Where no thread can be started, the work is not done.
template <class Work>
void try_detached(Work work) {
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::system_error&) {  // a limit; where threads are needed, this is reported
  }
}

}  // namespace yamata
