#include "launch/program/guard/mpi_start.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "launch/program/guard/guard.hpp"
#include "launch/program/input/interrupts.hpp"
#include "mpi/transport/mpi_session.hpp"
#include "node/error.hpp"
#include "node/limits.hpp"

namespace yamata {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kMiB = 1 << 20;
// Open MPI 4.1.4 while it starts, on a single machine:
constexpr std::uint64_t kFilesOfMpi = 20;              // open at once
constexpr std::uint64_t kLargestFileOfMpi = 5 * kMiB;  // a segment of shared memory, and its header
constexpr int kThreadsOfMpi = 4;

/// The launcher announces by SIGCONT or SIGTERM that it ends this process; one that is alive some time later was only continued.
void let_lower_ranks_end_the_job(std::chrono::milliseconds deadline) {
  constexpr auto kAnnounced = 3000ms, kLook = 20ms;
  auto end = SteadyClock::now() + patience_with_lower_ranks(mpi_rank_from_environment(), deadline);
  for (bool announced = false; SteadyClock::now() < end; std::this_thread::sleep_for(kLook)) {
    if (announced || !(g_interrupted || g_woken)) continue;
    announced = true;
    end = SteadyClock::now() + kAnnounced;
  }
}

int local_ranks() {
  const char* size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return size ? std::max(std::atoi(size), 1) : 1;
}

}  // namespace

std::uint64_t memory_for_mpi(int local_ranks) {
  // Measured with Open MPI 4.1.4 and all its components: libraries, the heaps of its threads, and a segment per rank of the machine. With
  // 232 MiB it starts on most tries only.
  constexpr std::uint64_t kLibraries = 330 * kMiB, kSegment = 4 * kMiB;
  return kLibraries + static_cast<std::uint64_t>(local_ranks) * kSegment;
}

void require_limits_for_mpi(std::chrono::milliseconds deadline) {
  const auto memory = memory_limit(), files = file_limit(), file_size = file_size_limit();
  const std::uint64_t needed = mapped_memory() + memory_for_mpi(local_ranks());
  std::string lack;
  if (memory && *memory < needed) {
    lack = fmt::format("{} MiB of memory: ulimit -v allows {} MiB; raise it (ulimit -v unlimited)", (needed + kMiB - 1) / kMiB,
                       *memory / kMiB);
  } else if (files && *files < kFilesOfMpi) {
    lack = fmt::format("{} open files: ulimit -n allows {}; raise it (ulimit -n 1024)", kFilesOfMpi, *files);
  } else if (file_size && local_ranks() > 1 && *file_size < kLargestFileOfMpi) {
    lack =
        fmt::format("files of {} KiB: ulimit -f allows {} KiB; raise it (ulimit -f unlimited)", kLargestFileOfMpi >> 10, *file_size >> 10);
  } else if (!can_start_threads(kThreadsOfMpi)) {
    lack = fmt::format("{} threads: {}", kThreadsOfMpi, kRaiseLimits);
  } else {
    return;
  }
  let_lower_ranks_end_the_job(deadline);
  throw ModelError(fmt::format("rank {} ({}) cannot start MPI, which takes {}", mpi_rank_from_environment(), host_name(), lack));
}

std::chrono::milliseconds patience_with_lower_ranks(int rank, std::chrono::milliseconds deadline) {
  constexpr std::chrono::milliseconds kFirst = 1000ms, kStep = 500ms;  // the launcher needs up to a second before it sends SIGTERM
  return rank <= 0 ? 0ms : std::min(kFirst + rank * kStep, deadline);
}

int tasks_of_srun() {
  const char* tasks = std::getenv("OMPI_COMM_WORLD_SIZE") ? nullptr : std::getenv("SLURM_STEP_NUM_TASKS");
  return tasks ? std::max(std::atoi(tasks), 1) : 1;
}

void require_ranks_of_srun(int tasks, int ranks) {
  if (tasks == 1 || ranks > 1) return;
  const char* task = std::getenv("SLURM_PROCID");
  if (task && std::atoi(task) > 0) std::_Exit(static_cast<int>(ExitCode::kUsage));
  throw UsageError(
      fmt::format("srun has started {} tasks, but has not connected them, so each would be a job of one rank; write srun --mpi=pmix (srun "
                  "--mpi=list shows what is installed), or start the ranks with mpirun",
                  tasks));
}

std::string temporary_folder_of_mpi() {
  for (const char* name : {"OMPI_MCA_orte_tmpdir_base", "PMIX_SERVER_TMPDIR"}) {
    if (const char* folder = std::getenv(name)) return folder;
  }
  return "";
}

std::string lack_of_space(const std::string& folder) {
  constexpr std::uint64_t kFile = 4 * kMiB;  // PMIx keeps what the ranks tell one another in files of this size
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) != 0) return "";
  const std::uint64_t free = std::uint64_t{space.f_bavail} * space.f_frsize;
  if (free >= kFile) return "";
  return fmt::format("the temporary folder {} has only {} KiB left; free some space there, or set TMPDIR to another folder", folder,
                     free >> 10);
}

}  // namespace yamata
