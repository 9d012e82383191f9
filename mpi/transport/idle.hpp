#pragma once
// Waiting without burning a core.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "mpi/transport/transport.hpp"

namespace yamata {

/// How a rank waits. At first by naps: a share of the time waited so far, so that a short wait ends promptly. But a nap costs some
/// 40 us on a virtual machine, whatever its length: where waits are long, and messages end a sleep, it sleeps until one comes.
class Idle {
 public:
  /// Something happened: the next wait is a new one.
  void reset() {
    if (waiting_) typical_ += (waited() - typical_) / 8;
    waiting_ = rested_ = false;
  }
  /// Rests for want of anything to do.
  void rest(Transport& transport) {
    // The look before this rest was in vain too, unless it is the first.
    const double cpu = rested_ ? rested_cpu_s_ : thread_cpu_s();
    const auto began = Clock::now();
    rest(transport, kShortest);
    slept_ += Clock::now() - began;
    rested_ = true;
    rested_cpu_s_ = thread_cpu_s();
    cpu_s_ += rested_cpu_s_ - cpu;
  }
  /// Rests while this rank's threads compute: their end wakes too.
  void rest_computing(Transport& transport) {
    rested_ = false;
    rest(transport, kShortestComputing);
  }
  /// Rests while they compute together with those of other ranks.
  void rest_in_group(Transport& transport) {
    rested_ = false;
    transport.stand_back(kInGroup);
  }
  /// Processor time spent on waiting: rests and looks in vain.
  double cpu_s() const { return cpu_s_; }
  double slept_s() const { return std::chrono::duration<double>(slept_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::microseconds;
  static constexpr Time kShortest{5}, kShortestComputing{100}, kLongest{1000};
  static constexpr Time kInGroup{2000};         // what a cancellation may wait
  static constexpr Time kLongWait{2000};        // the naps of a wait of this length cost as much as two sleeps
  static constexpr Time kLongestSleep{20'000};  // a message that slips through waits that long

  static double thread_cpu_s() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  /// How long this wait has gone on.
  Time waited() const { return std::chrono::duration_cast<Time>(Clock::now() - since_); }

  void rest(Transport& transport, Time shortest) {
    if (!std::exchange(waiting_, true)) since_ = Clock::now();
    const Time waited = this->waited();
    if (transport.wakes() && std::max(waited, typical_) > kLongWait) return transport.sleep(kLongestSleep);
    transport.nap(std::clamp(waited / 16, shortest, kLongest));
  }

  bool waiting_ = false, rested_ = false;
  Clock::time_point since_;
  Clock::duration slept_{};
  Time typical_{0};  // length of a wait, of late
  double cpu_s_ = 0, rested_cpu_s_ = 0;
};

}  // namespace yamata
