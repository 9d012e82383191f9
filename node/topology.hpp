#pragma once
// The machine as hwloc reports it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yamata {

/// Where threads and memory go.
enum class Numa {
  kOff,         ///< where the system puts them: nothing is bound
  kAuto,        ///< threads on neighbouring cores, so that they share a memory as far as they can
  kDistribute,  ///< threads spread over the cores, so that they have all memories' bandwidth
};

/// As the flag has them, in the order of the values.
inline constexpr std::array<std::string_view, 3> kNumaNames{"off", "auto", "distribute"};

struct Topology {
  std::vector<int> core_cpus;   ///< one logical CPU per physical core that this process may use, in order
  std::vector<int> core_nodes;  ///< of each, the NUMA node whose memory is its own, as the system numbers them
  std::vector<int> core_kinds;  ///< of each, how fast it is among the kinds of this machine, 0 the slowest
  int logical_cpus = 0;         ///< those that this process may use
  int numa_nodes = 1;
  bool this_machine = true;  ///< false where HWLOC_XMLFILE describes another: nothing is bound then

  /// Reads the machine. `widen`: first undo a binding made by an MPI launcher, within what the system allows this process.
  static Topology detect(bool widen = false);
};

/// The logical CPUs for the threads of the `local_rank`-th of `local_size` processes on this machine.
/// threads = 0: its share of the cores, at least one. -1 in the result means unbound (more threads than cores, or Numa::kOff).
std::vector<int> assign_cpus(const Topology& topology, int threads, int local_rank, int local_size, Numa numa = Numa::kAuto);
/// The NUMA nodes of these logical CPUs, in ascending order.
std::vector<int> nodes_of(const Topology& topology, const std::vector<int>& cpus);
/// Numbers of threads worth trying on these logical CPUs, most first: all, the fast cores only, and by halves down to one.
std::vector<int> thread_counts(const Topology& topology, const std::vector<int>& cpus);

/// Bytes of the largest caches of all that this process may use; 0 where the machine does not say.
std::size_t last_level_cache_bytes();
/// The processor's name as it gives it; its architecture where it has none.
std::string cpu_name();
/// A number that all processes have on this machine since it was started, whatever their host is called; 0 where it has none.
std::uint64_t machine_id();
/// The control group of this process that shares out processors, as its path; empty where there is none.
std::string cpu_group();
/// Bytes of memory this process may still take (MemAvailable, lowered by cgroup limits).
std::size_t available_memory_bytes();
/// Resident bytes of this process that are its own, mapped files left out.
std::size_t own_memory_bytes();

}  // namespace yamata
