#pragma once
// Ends a job whose launcher does not end by itself.
#include <sys/types.h>

#include <atomic>
#include <chrono>

namespace yamata {

/// How a rank's part in the job has ended.
enum class JobEnd : int {
  kUnknown,  ///< not yet, or its guard was killed
  kAsked,    ///< the same, but it had been asked to end: launchers do that first, and soon kill it
  kNormal,   ///< the rank has ended normally, like all others that could be reached
  kOrdered   ///< the launcher has been told to end all others
};

/// Starts a process ("yamata-end") that stays when the caller, a guard, ends. It continues the caller if that is stopped, because nobody
/// else would, unless the rank was only asked to end. After the caller's end it waits until mpirun has ended. If mpirun still waits for a
/// daemon that is cut off or stopped, it makes mpirun give that daemon up, so that mpirun ends with its exit code. After a normal end,
/// mpirun has until `deadline`: a machine may have been cut off before it could tell mpirun that its ranks have ended; mpirun itself is
/// left alone, because it may be suspended. If mpirun is unreachable, this machine is the one that is cut off, and the process ends the
/// daemon that started this rank. At last it removes what a killed launcher has left. Under launchers other than the mpirun of Open MPI 4
/// it only sees to the caller. `launcher`: the process that started the caller. `end`, in shared memory, is read after the caller's end.
void stay_behind(pid_t launcher, std::chrono::milliseconds deadline, const std::atomic<JobEnd>& end);

}  // namespace yamata
