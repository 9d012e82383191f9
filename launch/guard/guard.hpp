#pragma once
// A small process in front of each rank that outlives it, so that a rank's violent death still ends in one line and our exit code.
#include <atomic>
#include <chrono>

namespace yamata {

/// Splits this process in two where an MPI launcher started it (otherwise does nothing): the caller goes on as the rank; its
/// parent, which the launcher knows, passes signals on to it and ends as it ends. A rank that dies by a signal ends the parent
/// with one line and ExitCode::kCluster, where a launcher by itself would report the signal. So does one that is not through its start
/// (see tell_guard) by `deadline`. `argv` is renamed in the parent, so that process lists tell the two apart. To be called first in
/// main, before MPI and before any thread.
void guard_rank(int argc, char** argv, std::chrono::milliseconds deadline);

/// How far a rank has come that its guard watches.
enum class Phase : int {
  kStarting,  ///< all ranks wait for one another: the deadline counts
  kAlone,     ///< it may take its time, and nobody would notice if it were stopped
  kWatched,   ///< the others would
  kEnding,    ///< its work is done; it parts from MPI, and nobody watches any more
};
/// What the rank's guard is to know of it from now on.
void tell_guard(Phase phase);

/// Whether the job can do without this rank from now on: should it then die by a signal, the guard says so and stays until the launcher
/// ends the job, so that the others go on.
void let_job_survive_this_rank(bool survive);

/// True once the process that started this rank has died; the guard ends the rank soon after. Null without a guard.
const std::atomic<bool>* launcher_is_gone();

/// The head has fallen silent to this rank, which the job survives: if mpirun cannot be reached either, this machine is cut off, and the
/// guard ends the rank.
void head_is_unheard();

/// This rank has asked the launcher to end all others: once it is gone itself, the guard sees to it that the launcher ends, too.
void job_is_over();

}  // namespace yamata
