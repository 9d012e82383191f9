#pragma once
// What Open MPI leaves on a machine where it was killed, and how a later job clears it.
#include <filesystem>

namespace yamata {

/// Puts a mark into the folder that mpirun keeps for this job on this machine, one for each rank, locked for as long as this process or a
/// child that it forks lives, however they end. By it later jobs know what was Yamata's and that it is dead. Does nothing where no
/// Open MPI 4 started this process, or the folder cannot be written. An orderly mpirun removes the mark with its folder.
void mark_session();

/// Whether that folder is still there.
bool session_is_left();

/// Removes what jobs of this user's have left whose mpirun was killed: those folders, and the shared memory of their ranks (4 MiB each, by
/// default). Only of jobs with a mark, none of them locked, of which no living process maps a file; what other programs left stays.
/// Errors are nobody's concern: what cannot be removed stays as well.
void clear_leftovers();
/// The same, with all jobs' folder ("ompi.HOST.UID") and that of shared memory given.
void clear_leftovers(const std::filesystem::path& sessions, const std::filesystem::path& shared_memory);

}  // namespace yamata
