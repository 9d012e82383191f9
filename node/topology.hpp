#pragma once
// The machine as hwloc reports it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yamata {

/// Placement of threads and memory.
enum class Numa {
  kOff,         ///< the operating system decides: nothing is bound
  kAuto,        ///< threads on adjacent cores, so that they share a NUMA node if possible
  kDistribute,  ///< threads spread over the cores, to use the bandwidth of all NUMA nodes
};

/// Names of the flag's values, in the order of the enum.
inline constexpr std::array<std::string_view, 3> kNumaNames{"off", "auto", "distribute"};

struct Topology {
  std::vector<int> core_cpus;   ///< one logical CPU per physical core that this process may use, in order
  std::vector<int> core_nodes;  ///< per core: its NUMA node, numbered as by the operating system
  std::vector<int> core_kinds;  ///< per core: its kind, ordered by speed; 0 is the slowest
  int logical_cpus = 0;         ///< number of logical CPUs that this process may use
  int numa_nodes = 1;
  bool this_machine = true;  ///< false if HWLOC_XMLFILE describes another machine: then nothing is bound

  /// Reads the machine's topology. `widen`: first undo a binding by an MPI launcher, within the limits that the system sets for this
  /// process.
  static Topology detect(bool widen = false);
};

/// The logical CPUs for the threads of process `local_rank` of `local_size` processes on this machine. threads = 0: this process's share of
/// the cores, at least one. -1 in the result: unbound (more threads than cores, or Numa::kOff).
std::vector<int> assign_cpus(const Topology& topology, int threads, int local_rank, int local_size, Numa numa = Numa::kAuto);
/// The NUMA nodes of these logical CPUs, ascending.
std::vector<int> nodes_of(const Topology& topology, const std::vector<int>& cpus);
/// Numbers of threads worth trying on these logical CPUs, descending: all, the fast cores only, then halves down to one.
std::vector<int> thread_counts(const Topology& topology, const std::vector<int>& cpus);

/// Total bytes of the last-level caches that this process may use; 0 if unknown.
std::size_t last_level_cache_bytes();
/// The processor's name; if it has none, its architecture.
std::string cpu_name();
/// A number that is the same for all processes of this machine since its boot, whatever its host name; 0 if unknown.
std::uint64_t machine_id();
/// Path of this process's control group that limits its processors; empty if there is none.
std::string cpu_group();
/// Bytes of memory that this process can still allocate (MemAvailable, reduced by cgroup limits).
std::size_t available_memory_bytes();
/// Resident bytes of this process, without mapped files.
std::size_t own_memory_bytes();

}  // namespace yamata
