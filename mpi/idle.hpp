#pragma once
// Waiting without burning a core.
#include <algorithm>
#include <chrono>

#include "mpi/transport.hpp"

namespace yamata {

/// How long to sleep before looking again: a share of the time waited so far, so that a short wait ends promptly and a long
/// one costs next to nothing.
class Idle {
 public:
  /// Something happened: the next wait is a new one.
  void reset() { waiting_ = false; }
  /// Rests for a nap, or until a message wakes this rank where the transport can tell.
  void sleep(Transport& transport) {
    const auto waited = wait();
    const auto began = Clock::now();
    transport.rest(nap(waited, transport.wakes() ? kLongestWoken : kLongest));
    slept_ += Clock::now() - began;
  }
  double slept_s() const { return std::chrono::duration<double>(slept_).count(); }
  /// How long to let this rank's own computation go on before looking for messages: its end is heard of at once.
  std::chrono::microseconds next() { return std::max(nap(wait()), kShortestComputing); }

  // A look costs 5 to 40 us: at one a millisecond that is half a percent of a core, or a few where processes change slowly.
  static constexpr std::chrono::microseconds kShortest{5}, kLongest{1000};
  /// The rule itself: how long to sleep after having waited for `waited`.
  static std::chrono::microseconds nap(std::chrono::microseconds waited, std::chrono::microseconds longest = kLongest) {
    return std::clamp(waited / 16, kShortest, std::max(kShortest, longest));
  }

 private:
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

  bool waiting_ = false;
  Clock::time_point since_;
  Clock::duration slept_{};
};

}  // namespace yamata
