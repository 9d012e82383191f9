#pragma once
// The guard: a small process in front of each rank that outlives it. If the rank is killed, the job still ends with one line and with one
// of this program's exit codes.
#include <atomic>
#include <chrono>
#include <string>

namespace yamata {

/// Forks if an MPI launcher started this process, else does nothing: the caller continues as the rank; its parent, which the launcher
/// knows, is the guard. The guard forwards signals to the rank and ends as the rank ends. If the rank is killed by a signal, the guard
/// prints one line and exits with ExitCode::kCluster; without it, the launcher would report the signal. It does the same if the rank's
/// start is not over (see tell_guard) by `deadline`. `argv` is changed in the guard, so that process lists distinguish the two. Call it
/// first in main, before MPI and before any thread.
void guard_rank(int argc, char** argv, std::chrono::milliseconds deadline);

/// The name of this machine, for messages.
std::string host_name();

/// The phase of a rank, for its guard.
enum class Phase : int {
  kStarting,  ///< all ranks wait for one another: the deadline applies
  kAlone,     ///< it may take any time, and the other ranks would not notice if it were stopped
  kWatched,   ///< the other ranks watch it
  kEnding,    ///< its work is done; it leaves MPI, and no rank watches any more
};
/// Tells the rank's guard its phase.
void tell_guard(Phase phase);

/// Sets whether the job can continue without this rank. If it can and the rank is killed by a signal, the guard reports that and stays
/// until the launcher ends the job, so that the other ranks continue.
void let_job_survive_this_rank(bool survive);

/// True if the process that started this rank has died; the guard ends the rank soon after. Null without a guard.
const std::atomic<bool>* launcher_is_gone();

/// This rank and others do not hear one another any more: the job continues without some of them, or this rank waits for its prompt. If
/// mpirun is unreachable, too, this machine is cut off, and the guard ends the rank. False: they hear one another again.
void may_be_cut_off(bool unheard = true);

/// This rank has asked the launcher to end all others. After this rank has ended, the guard makes sure that the launcher ends, too.
void job_is_over();

}  // namespace yamata
