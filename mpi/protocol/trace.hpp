#pragma once
// Timestamped events for --trace.
#include <chrono>
#include <cstdint>
#include <vector>

#include "node/clock.hpp"

namespace yamata {

struct TraceEvent {
  enum class Kind : std::uint8_t { kRun, kSkip, kCancel, kCommit, kExchange };
  Kind kind = Kind::kRun;
  bool draft = false;       ///< of a draft model's stage
  std::int32_t tokens = 0;  ///< of the run; or committed tokens
  std::uint64_t run = 0;
  std::int64_t begin_us = 0, end_us = 0;  ///< equal for instantaneous events
};

/// The events of one rank, in its own clock until shifted. Costs nothing while it is off.
class Trace {
 public:
  void enable() { on_ = true; }
  bool enabled() const { return on_; }
  static std::int64_t now_us() { return microseconds(Clock::now()); }
  static std::int64_t microseconds(Clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count();
  }
  void add(const TraceEvent& event) {
    if (on_) events_.push_back(event);
  }
  void mark(TraceEvent::Kind kind, std::uint64_t run, std::int32_t tokens) {
    if (on_) events_.push_back({kind, false, tokens, run, now_us(), now_us()});
  }
  /// The events in a clock that is `offset_us` ahead of this rank's.
  std::vector<TraceEvent> shifted(std::int64_t offset_us) const {
    std::vector<TraceEvent> events = events_;
    for (TraceEvent& e : events) {
      e.begin_us += offset_us;
      e.end_us += offset_us;
    }
    return events;
  }

 private:
  bool on_ = false;
  std::vector<TraceEvent> events_;
};

}  // namespace yamata
