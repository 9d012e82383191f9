#pragma once
// Waiting without burning a core.
#include <algorithm>
#include <chrono>
#include <ctime>

#include "mpi/transport.hpp"

namespace yamata {

/// How long to rest before looking again. Where the transport wakes: until then, for a nap costs some 40 us on a virtual machine,
/// whatever its length. Else a share of the time waited so far, so that a short wait ends promptly and a long one costs little.
class Idle {
 public:
  /// Something happened: the next wait is a new one.
  void reset() { waiting_ = rested_ = false; }
  /// Rests for want of anything to do.
  void sleep(Transport& transport) {
    // The look before this rest was in vain too, unless it is the first.
    const double cpu = rested_ ? rested_cpu_s_ : thread_cpu_s();
    const auto began = Clock::now();
    transport.rest(transport.wakes() ? kLongestWoken : nap(wait()));
    slept_ += Clock::now() - began;
    rested_ = true;
    rested_cpu_s_ = thread_cpu_s();
    cpu_s_ += rested_cpu_s_ - cpu;
  }
  /// Rests while this rank's threads compute: their end wakes too.
  void rest_computing(Transport& transport) {
    rested_ = false;
    transport.rest(transport.wakes() ? kLongestWoken : std::max(nap(wait()), kShortestComputing));
  }
  /// Processor time spent on waiting: rests and looks in vain.
  double cpu_s() const { return cpu_s_; }
  double slept_s() const { return std::chrono::duration<double>(slept_).count(); }

  static constexpr std::chrono::microseconds kShortest{5}, kLongest{1000};
  /// The rule itself: how long to sleep after having waited for `waited`.
  static std::chrono::microseconds nap(std::chrono::microseconds waited) { return std::clamp(waited / 16, kShortest, kLongest); }

 private:
  static double thread_cpu_s() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kShortestComputing{100};
  static constexpr std::chrono::microseconds kLongestWoken{20'000};  // a message that slips through waits that long

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
