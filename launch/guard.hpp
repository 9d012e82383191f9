#pragma once
// A small process in front of each rank that outlives it, so that a rank's violent death still ends in one line and our exit code.

namespace yamata {

/// Splits this process in two where an MPI launcher started it (otherwise does nothing): the caller goes on as the rank; its
/// parent, which the launcher knows, passes signals on to it and ends as it ends. A rank that dies by a signal ends the parent
/// with one line and ExitCode::kCluster, where a launcher by itself would report the signal. `argv` is renamed in the parent,
/// so that process lists tell the two apart. To be called first in main, before MPI and before any thread.
void guard_rank(int argc, char** argv);

/// Whether the job can do without this rank from now on: should it then die by a signal, the guard says so and stays until the launcher
/// ends the job, so that the others go on.
void let_job_survive_this_rank(bool survive);

}  // namespace yamata
