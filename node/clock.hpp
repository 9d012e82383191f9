#pragma once
// The clock for durations.
#include <chrono>
#include <cstdint>
#include <utility>

namespace yamata {

/// The machine's steady clock; on a thread that simulates, the virtual clock.
class Clock {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using duration = time_point::duration;
  static time_point now() {
    return virtual_ ? time_point(std::chrono::duration_cast<duration>(std::chrono::nanoseconds(*virtual_)))
                    : std::chrono::steady_clock::now();
  }
  static double seconds(duration time) { return std::chrono::duration<double>(time).count(); }
  static double seconds_since(time_point began) { return seconds(now() - began); }

  /// During its lifetime, this thread's clock returns the current value of `nanoseconds`.
  class Override {
   public:
    explicit Override(const std::int64_t& nanoseconds) : before_(std::exchange(virtual_, &nanoseconds)) {}
    ~Override() { virtual_ = before_; }
    Override(const Override&) = delete;
    Override& operator=(const Override&) = delete;

   private:
    const std::int64_t* before_;
  };

 private:
  static inline thread_local const std::int64_t* virtual_ = nullptr;
};

}  // namespace yamata
