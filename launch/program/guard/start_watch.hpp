#pragma once
// Detects a rank whose start does not end, before the ranks can watch one another.
#include <chrono>
#include <string>

#include "launch/program/guard/guard.hpp"
#include "node/awake_clock.hpp"

namespace yamata {

/// Measures how long a rank has been starting, or stopped. All guards of a job do this at the same time, but only one should report it:
/// first the one that knows the cause, then rank 0's, then the others in rank order. By then the launcher has ended them.
class StartWatch {
 public:
  using Clock = std::chrono::steady_clock;
  StartWatch(int rank, std::string host, std::chrono::milliseconds deadline, Clock::time_point now);

  /// The launcher may be ending the job, which it announces by SIGCONT. A rank that is alive some time later was only continued.
  void hold_back(Clock::time_point now) { held_back_ = now + std::chrono::seconds(3); }
  /// What is wrong with a rank in this phase that is `stopped` or not; empty while its deadline is not over. Call it several times per
  /// second: after a longer pause the watcher itself was stopped, and hardly counts that time.
  std::string complaint(Phase phase, bool stopped, Clock::time_point now);

 private:
  int rank_;
  std::string host_;
  std::chrono::milliseconds deadline_;
  AwakeClock clock_;
  Clock::time_point begin_, running_, held_back_{};  // the first two on that clock; running_: when the rank was last seen not stopped
};

}  // namespace yamata
