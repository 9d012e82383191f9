#pragma once
// What becomes of the daemon of mpirun's that started this rank.
#include <sys/types.h>

#include <chrono>
#include <optional>

#include "mpi/cluster/mpirun.hpp"

namespace yamata {

/// Watches it for a guard, which asks every second or oftener. Does nothing where mpirun itself started the rank, or another launcher.
class DaemonWatch {
 public:
  using Clock = std::chrono::steady_clock;
  DaemonWatch(pid_t launcher, std::chrono::milliseconds deadline, Clock::time_point now);

  /// Lets the daemon go on where it has been stopped for the deadline: ranks that wait for it, to write or to end, would do so for
  /// ever.
  void keep_awake(Clock::time_point now);
  /// True once mpirun has been out of reach for the deadline.
  bool is_cut_off(Clock::time_point now);

 private:
  std::chrono::milliseconds since_last(Clock::time_point now);

  pid_t launcher_;
  std::chrono::milliseconds deadline_, bad_{0};
  Clock::time_point looked_;
  std::optional<Mpirun> mpirun_;
};

}  // namespace yamata
