#pragma once
// What a killed Open MPI leaves on a machine, and its removal by a later job.
#include <filesystem>

namespace yamata {

/// Puts a mark for this rank into mpirun's folder for this job on this machine. The mark is locked while this process or a forked child
/// lives, however they end. By the mark, later jobs recognise folders of Yamata's dead jobs. Does nothing if Open MPI 4 did not start this
/// process, or if the folder cannot be written. On a normal end, mpirun removes the mark with its folder.
void mark_session();

/// Whether that folder is still there.
bool session_is_left();

/// Removes what this user's jobs with a killed mpirun have left: their folders, and the shared memory of their ranks (by default 4 MiB
/// each). A job's files are removed only if it has marks, none of them is locked, and no living process maps its files. Files of other
/// programs stay; the folder of all jobs is removed if it is then empty. Errors are ignored: what cannot be removed stays, too.
void clear_leftovers();
/// The same for a given folder of all jobs ("ompi.HOST.UID") and a given folder of shared memory.
void clear_leftovers(const std::filesystem::path& sessions, const std::filesystem::path& shared_memory);

}  // namespace yamata
