#pragma once
// Watches the daemon of mpirun (orted) that started this rank.
#include <sys/types.h>

#include <chrono>
#include <optional>

#include "mpi/cluster/mpirun.hpp"
#include "node/awake_clock.hpp"

namespace yamata {

/// Watches the daemon for a guard, which must call it at least once per second. Does nothing if mpirun itself or another launcher started
/// the rank.
class DaemonWatch {
 public:
  using Clock = std::chrono::steady_clock;
  DaemonWatch(pid_t launcher, std::chrono::milliseconds deadline, Clock::time_point now);

  /// Continues the daemon if it has been stopped for the deadline: ranks that wait for it, to write or to end, would wait forever. If the
  /// rank is `ending`, the deadline is at most one second: PMIx waits two seconds for a daemon's permission to end, and a rank that ends
  /// without it makes mpirun end the job with exit code 1.
  void keep_awake(Clock::time_point now, bool ending);
  /// How long mpirun has been unreachable. Whether it is reachable is checked only if `asks`; otherwise it counts as reachable.
  Clock::duration unreachable_for(Clock::time_point now, bool asks);

 private:
  pid_t launcher_;
  std::chrono::milliseconds deadline_;
  AwakeClock clock_;
  Clock::time_point awoke_, reached_;  // on that clock: the last time that the daemon was not stopped, and mpirun not unreachable
  std::optional<Mpirun> mpirun_;
};

}  // namespace yamata
