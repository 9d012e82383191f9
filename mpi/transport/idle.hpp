#pragma once
// Waiting without burning a core.
#include <algorithm>
#include <chrono>
#include <utility>

#include "mpi/transport/transport.hpp"
#include "node/thread_time.hpp"

namespace yamata {

/// How a rank waits. At first it takes short sleeps, each a share of the time waited so far, so that a short wait ends promptly. But a
/// sleep costs about 40 us on a virtual machine, whatever its length. So if waits are long, and messages can end a sleep, it sleeps until
/// one arrives. A single rank only waits for its own threads: it sleeps until they wake it, since each nap would take a core from them.
class Idle {
 public:
  /// Something happened, so the next wait is a new one.
  void reset() {
    if (waiting_) typical_ += (waited() - typical_) / 8;
    waiting_ = rested_ = false;
  }
  /// Rests because there is nothing to do.
  void rest(Transport& transport) {
    // The check before this rest was also unsuccessful, unless it is the first.
    const double cpu = rested_ ? rested_cpu_s_ : thread_cpu_s();
    const auto began = Clock::now();
    rest(transport, kShortest);
    slept_ += Clock::now() - began;
    rested_ = true;
    rested_cpu_s_ = thread_cpu_s();
    cpu_s_ += rested_cpu_s_ - cpu;
  }
  /// Rests while this rank's threads compute; their end also wakes it.
  void rest_computing(Transport& transport) {
    rested_ = false;
    rest(transport, kShortestComputing);
  }
  /// Rests while they compute together with those of other ranks.
  void rest_in_group(Transport& transport) {
    rested_ = false;
    transport.stand_back(kInGroup);
  }
  /// Processor time of waiting: rests and unsuccessful checks.
  double cpu_s() const { return cpu_s_; }
  double slept_s() const { return std::chrono::duration<double>(slept_).count(); }

  using Time = std::chrono::microseconds;
  /// How long a rank sleeps at most that has waited so long; a message that wakes nobody waits as long. A rank without work, such as those
  /// of a server at night, wakes rarely: 50 times a second take .3 % of a core.
  static constexpr Time longest_sleep(Time waited) { return waited < std::chrono::seconds(1) ? Time{20'000} : Time{60'000}; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Time kShortest{5}, kShortestComputing{100}, kLongest{1000};
  static constexpr Time kInGroup{2000};   // how long a cancellation may wait
  static constexpr Time kLongWait{2000};  // the short sleeps of a wait of this length cost as much as two long ones

  /// The length of the current wait.
  Time waited() const { return std::chrono::duration_cast<Time>(Clock::now() - since_); }

  void rest(Transport& transport, Time shortest) {
    if (!std::exchange(waiting_, true)) since_ = Clock::now();
    const Time waited = this->waited();
    if (transport.wakes() && (transport.size() == 1 || std::max(waited, typical_) > kLongWait))
      return transport.sleep(longest_sleep(waited));
    transport.nap(std::clamp(waited / 16, shortest, kLongest));
  }

  bool waiting_ = false, rested_ = false;
  Clock::time_point since_;
  Clock::duration slept_{};
  Time typical_{0};  // recent length of waits
  double cpu_s_ = 0, rested_cpu_s_ = 0;
};

}  // namespace yamata
