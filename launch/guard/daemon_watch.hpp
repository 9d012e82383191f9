#pragma once
// What becomes of the daemon of mpirun's that started this rank.
#include <sys/types.h>

#include <chrono>
#include <optional>

#include "mpi/cluster/mpirun.hpp"
#include "node/awake_clock.hpp"

namespace yamata {

/// Watches it for a guard, which asks every second or oftener. Does nothing where mpirun itself started the rank, or another launcher.
class DaemonWatch {
 public:
  using Clock = std::chrono::steady_clock;
  DaemonWatch(pid_t launcher, std::chrono::milliseconds deadline, Clock::time_point now);

  /// Lets the daemon go on where it has been stopped for the deadline: ranks that wait for it, to write or to end, would do so for
  /// ever. Where the rank is `ending` that is a second at most: PMIx waits two for a daemon's leave to end, and a rank that ends
  /// without it makes mpirun end the job with exit code 1.
  void keep_awake(Clock::time_point now, bool ending);
  /// True once mpirun has been out of reach for the deadline.
  bool is_cut_off(Clock::time_point now);

 private:
  pid_t launcher_;
  std::chrono::milliseconds deadline_;
  AwakeClock clock_;
  Clock::time_point good_;  // on that clock: when nothing was wrong, last
  std::optional<Mpirun> mpirun_;
};

}  // namespace yamata
