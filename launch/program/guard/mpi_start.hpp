#pragma once
// Reasons for which MPI cannot start and that it does not name itself.
#include <chrono>
#include <cstdint>
#include <string>

namespace yamata {

/// Bytes of memory that MPI maps in a process while it starts, with this many ranks on the machine.
std::uint64_t memory_for_mpi(int local_ranks);

/// Throws ModelError if this process may have less memory (ulimit -v), fewer open files (ulimit -n), smaller files (ulimit -f) or fewer
/// threads (ulimit -u) than MPI needs: MPI would wait for ever, crash, or end the process without a word. All ranks may have that limit,
/// and one line is enough: rank r waits until the launcher has ended it for the sake of a lower rank, but at most for `deadline`.
void require_limits_for_mpi(std::chrono::milliseconds deadline);

/// How long a rank waits before it reports what lower ranks may report, too.
std::chrono::milliseconds patience_with_lower_ranks(int rank, std::chrono::milliseconds deadline);

/// How many tasks this process and its siblings are if Slurm's srun has started it directly, without mpirun; else 1. Call it before MPI
/// starts, which may change the environment.
int tasks_of_srun();
/// Throws UsageError if MPI knows one rank although srun has started several tasks: each would do the same work alone. One line is enough:
/// all but the first task end without one.
void require_ranks_of_srun(int tasks, int ranks);

/// The folder of the files through which the launcher and the ranks of this machine start MPI; empty if unknown.
std::string temporary_folder_of_mpi();
/// Names `folder` if less space is left there than the largest of those files needs. Empty if there is enough, or if that cannot be seen.
std::string lack_of_space(const std::string& folder);

}  // namespace yamata
