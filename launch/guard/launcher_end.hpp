#pragma once
// The end of a job whose launcher does not end by itself.
#include <sys/types.h>

#include <chrono>

namespace yamata {

/// To be called where this rank's part in the job is over and the launcher has been told to end all others. Leaves a process behind
/// that waits until mpirun has ended, then does nothing. Where mpirun still waits for a daemon that is cut off or stopped, the
/// process makes it give that daemon up, so that it ends with the exit code it was given; where mpirun is out of reach, this
/// machine is the one that is cut off, and the process ends the daemon that started this rank. `launcher`: the process that
/// started the caller. Last it clears what a launcher that was killed has left. Does nothing under other launchers than the mpirun of Open
/// MPI 4.
void end_launcher(pid_t launcher);

/// The same where this rank has ended in good order, as all others have that could be reached. mpirun then has until `deadline`: a machine
/// may have been cut off before it could tell mpirun that its ranks have ended. mpirun itself is left alone: it may be suspended.
void see_launcher_end(pid_t launcher, std::chrono::milliseconds deadline);

}  // namespace yamata
