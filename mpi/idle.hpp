#pragma once
// Waiting without burning a core.
#include <algorithm>
#include <chrono>
#include <thread>

namespace yamata {

/// How long to sleep before looking again: a share of the time waited so far, so that a short wait ends promptly and a long
/// one costs next to nothing.
class Idle {
 public:
  /// Something happened: the next wait is a new one.
  void reset() { waiting_ = false; }
  /// Sleeps that long.
  void sleep() {
    const auto nap = next();
    const auto began = Clock::now();
    std::this_thread::sleep_for(nap);
    slept_ += Clock::now() - began;
  }
  double slept_s() const { return std::chrono::duration<double>(slept_).count(); }
  std::chrono::microseconds next() {
    const auto now = Clock::now();
    if (!waiting_) {
      since_ = now;
      waiting_ = true;
    }
    return nap(std::chrono::duration_cast<std::chrono::microseconds>(now - since_));
  }

  // A look costs some 5 us: at one a millisecond that is half a percent of a core.
  static constexpr std::chrono::microseconds kShortest{5}, kLongest{1000};
  /// The rule itself: how long to sleep after having waited for `waited`.
  static std::chrono::microseconds nap(std::chrono::microseconds waited, std::chrono::microseconds longest = kLongest) {
    return std::clamp(waited / 16, kShortest, std::max(kShortest, longest));
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool waiting_ = false;
  Clock::time_point since_;
  Clock::duration slept_{};
};

}  // namespace yamata
