#pragma once
// Who notices that a rank does not get through its start, before the ranks can watch one another.
#include <chrono>
#include <string>

#include "launch/guard/guard.hpp"
#include "node/awake_clock.hpp"

namespace yamata {

/// Counts how long a rank has been starting, or stopped. All of a job do so at once and their lines are to be one: who knows more speaks
/// first, then rank 0, then the others in order, by which time the launcher has ended them.
class StartWatch {
 public:
  using Clock = std::chrono::steady_clock;
  StartWatch(int rank, std::string host, std::chrono::milliseconds deadline, Clock::time_point now);

  /// The launcher may be ending the job, which it announces by SIGCONT: who still lives a while later was only waked up.
  void hold_back(Clock::time_point now) { held_back_ = now + std::chrono::seconds(3); }
  /// What is wrong with a rank of which this was seen just now; empty as long as it has time. To be asked several times a second:
  /// where that was not done the watcher itself was stopped, and counts hardly any time.
  std::string complaint(Phase phase, bool stopped, Clock::time_point now);

 private:
  int rank_;
  std::string host_;
  std::chrono::milliseconds deadline_;
  AwakeClock clock_;
  Clock::time_point begin_, running_, held_back_{};  // the first two on that clock; running_: when the rank was last seen not to be stopped
};

}  // namespace yamata
