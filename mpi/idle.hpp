#pragma once
// Waiting without burning a core.
#include <algorithm>
#include <chrono>
#include <ctime>

#include "mpi/transport.hpp"

namespace yamata {

/// How long to sleep before looking again: a share of the time waited so far, so that a short wait ends promptly and a long
/// one costs next to nothing.
class Idle {
 public:
  /// Something happened: the next wait is a new one.
  void reset() { waiting_ = rested_ = false; }
  /// Rests for a nap, or until a message wakes this rank where the transport can tell.
  void sleep(Transport& transport) {
    const auto waited = wait();
    // The look before this rest was in vain too, unless it is the first.
    const double cpu = rested_ ? rested_cpu_s_ : thread_cpu_s();
    const auto began = Clock::now();
    transport.rest(nap(waited, transport.wakes() ? kLongestWoken : kLongest));
    slept_ += Clock::now() - began;
    rested_ = true;
    rested_cpu_s_ = thread_cpu_s();
    cpu_s_ += rested_cpu_s_ - cpu;
  }
  /// Processor time spent on waiting: rests and looks in vain.
  double cpu_s() const { return cpu_s_; }
  double slept_s() const { return std::chrono::duration<double>(slept_).count(); }
  /// How long to let this rank's own computation go on before looking for messages: its end is heard of at once.
  std::chrono::microseconds next() {
    rested_ = false;
    return std::max(nap(wait()), kShortestComputing);
  }

  // A look costs 5 to 40 us: at one a millisecond that is half a percent of a core, or a few where processes change slowly.
  static constexpr std::chrono::microseconds kShortest{5}, kLongest{1000};
  /// The rule itself: how long to sleep after having waited for `waited`.
  static std::chrono::microseconds nap(std::chrono::microseconds waited, std::chrono::microseconds longest = kLongest) {
    return std::clamp(waited / 16, kShortest, std::max(kShortest, longest));
  }

 private:
  static double thread_cpu_s() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kShortestComputing{100};
  static constexpr std::chrono::microseconds kLongestWoken{5000};  // where a message ends the rest: one that slips through waits that long

  /// How long this wait has gone on; begins one.
  std::chrono::microseconds wait() {
    const auto now = Clock::now();
    if (!waiting_) {
      since_ = now;
      waiting_ = true;
    }
    return std::chrono::duration_cast<std::chrono::microseconds>(now - since_);
  }

  bool waiting_ = false, rested_ = false;
  Clock::time_point since_;
  Clock::duration slept_{};
  double cpu_s_ = 0, rested_cpu_s_ = 0;
};

}  // namespace yamata
