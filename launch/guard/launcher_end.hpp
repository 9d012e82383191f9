#pragma once
// Ends a job whose launcher does not end by itself.
#include <sys/types.h>

#include <chrono>

namespace yamata {

/// Call it when this rank's part in the job is over and the launcher has been told to end all others. Starts a process that waits until
/// mpirun has ended. If mpirun still waits for a daemon that is cut off or stopped, the process makes mpirun give that daemon up, so that
/// it ends with its exit code. If mpirun is unreachable, this machine is the one that is cut off, and the process ends the daemon that
/// started this rank. `launcher`: the process that started the caller. At last it removes what a killed launcher has left. Does nothing
/// under launchers other than the mpirun of Open MPI 4.
void end_launcher(pid_t launcher);

/// The same if this rank has ended normally, like all others that could be reached. mpirun then has until `deadline`: a machine may have
/// been cut off before it could tell mpirun that its ranks have ended. mpirun itself is left alone: it may be suspended.
void see_launcher_end(pid_t launcher, std::chrono::milliseconds deadline);

}  // namespace yamata
