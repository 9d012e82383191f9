#pragma once
// The machine as hwloc reports it.
#include <cstddef>
#include <string>
#include <vector>

namespace yamata {

struct Topology {
  std::vector<int> core_cpus;  ///< one logical CPU per physical core that this process may use, in order
  int numa_nodes = 1;
  bool this_machine = true;  ///< false where HWLOC_XMLFILE describes another: nothing is bound then

  /// Reads the machine. `widen`: first undo a binding made by an MPI launcher, within what the system allows this process.
  static Topology detect(bool widen = false);
};

/// The logical CPUs for the threads of the `local_rank`-th of `local_size` processes on this machine.
/// threads = 0: its share of the cores, at least one. -1 in the result means unbound (more threads than cores).
std::vector<int> assign_cpus(const Topology& topology, int threads, int local_rank, int local_size);

/// Bytes of the largest caches of all that this process may use; 0 where the machine does not say.
std::size_t last_level_cache_bytes();
/// The processor's name as it gives it; its architecture where it has none.
std::string cpu_name();
/// The control group of this process that shares out processors, as its path; empty where there is none.
std::string cpu_group();
/// Bytes of memory this process may still take (MemAvailable, lowered by cgroup limits).
std::size_t available_memory_bytes();
/// Resident bytes of this process that are its own, mapped files left out.
std::size_t own_memory_bytes();

}  // namespace yamata
