#include "node/topology.hpp"

#include <hwloc.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "node/error.hpp"

namespace yamata {
namespace {

struct Destroy {
  void operator()(hwloc_topology* t) const { hwloc_topology_destroy(t); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, Destroy>;

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* b) const { hwloc_bitmap_free(b); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

TopologyHandle load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw ClusterError("hwloc cannot be initialized on this machine");
  TopologyHandle topology(raw);
  // If that file cannot be read, hwloc silently reads this machine instead.
  const char* file = std::getenv("HWLOC_XMLFILE");
  if (file && *file && hwloc_topology_set_xml(raw, file) != 0) {
    throw ClusterError(std::string("HWLOC_XMLFILE: hwloc cannot read '") + file + "'; give a file that lstopo wrote, or unset it");
  }
  if (hwloc_topology_load(raw) != 0) throw ClusterError("hwloc cannot read this machine's topology; is HWLOC_XMLFILE right?");
  return topology;
}

/// Allows this process to run on every processor; the kernel restricts that to its control group's.
void undo_binding() {
  cpu_set_t all;
  CPU_ZERO(&all);
  const long count = std::min<long>(sysconf(_SC_NPROCESSORS_CONF), CPU_SETSIZE);
  for (long i = 0; i < count; ++i) CPU_SET(static_cast<std::size_t>(i), &all);
  sched_setaffinity(0, sizeof(all), &all);
}

/// The NUMA node nearest to a core; 0 on machines with a single one.
int node_of(hwloc_obj_t core) { return core->nodeset && !hwloc_bitmap_iszero(core->nodeset) ? hwloc_bitmap_first(core->nodeset) : 0; }

/// A value in kB of a /proc file, in bytes; 0 if it is missing.
std::size_t proc_bytes(const char* path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(key + ":", 0) != 0) continue;
    std::istringstream rest(line.substr(key.size() + 1));
    std::size_t kib = 0;
    rest >> kib;
    return kib * 1024;
  }
  return 0;
}

/// A number in a control group's file; "max" and missing files mean no limit.
std::size_t group_bytes(const std::string& path, std::size_t absent) {
  std::ifstream in(path);
  std::size_t value = 0;
  return in >> value ? value : absent;
}

/// The `count` fastest of the cores [begin, end), the first ones if several are equal, in order.
std::vector<int> fastest_cores(const Topology& topology, int begin, int end, int count) {
  std::vector<int> cores(static_cast<std::size_t>(end - begin));
  std::iota(cores.begin(), cores.end(), begin);
  const auto kind = [&](int core) { return topology.core_kinds[static_cast<std::size_t>(core)]; };
  std::stable_sort(cores.begin(), cores.end(), [&](int a, int b) { return kind(a) > kind(b); });
  cores.resize(static_cast<std::size_t>(count));
  std::sort(cores.begin(), cores.end());
  return cores;
}

/// The entry of `per_core` for the core of a logical CPU; nothing for an unbound thread.
std::optional<int> look_up(const Topology& topology, const std::vector<int>& per_core, int cpu) {
  const auto core = std::find(topology.core_cpus.begin(), topology.core_cpus.end(), cpu);
  if (core == topology.core_cpus.end()) return std::nullopt;
  return per_core[static_cast<std::size_t>(core - topology.core_cpus.begin())];
}

}  // namespace

Topology Topology::detect(bool widen) {
  if (widen && !std::getenv("HWLOC_XMLFILE")) undo_binding();
  const TopologyHandle topology = load();
  Topology result;
  result.this_machine = hwloc_topology_is_thissystem(topology.get()) != 0;
  result.numa_nodes = std::max(1, hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_NUMANODE));

  const Bitmap allowed(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology.get())));
  if (result.this_machine) {
    const Bitmap bound(hwloc_bitmap_alloc());
    if (hwloc_get_cpubind(topology.get(), bound.get(), HWLOC_CPUBIND_PROCESS) == 0)
      hwloc_bitmap_and(allowed.get(), allowed.get(), bound.get());
  }
  result.logical_cpus = hwloc_bitmap_weight(allowed.get());
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_CORE, core)) != nullptr;) {
    const Bitmap mine(hwloc_bitmap_alloc());
    hwloc_bitmap_and(mine.get(), core->cpuset, allowed.get());
    const int cpu = hwloc_bitmap_first(mine.get());
    if (cpu < 0) continue;
    result.core_cpus.push_back(cpu);
    result.core_nodes.push_back(node_of(core));
    result.core_kinds.push_back(std::max(0, hwloc_cpukinds_get_by_cpuset(topology.get(), core->cpuset, 0)));
  }
  if (result.core_cpus.empty()) {  // kernels that report no cores: each logical CPU is one
    for (int cpu = hwloc_bitmap_first(allowed.get()); cpu >= 0; cpu = hwloc_bitmap_next(allowed.get(), cpu)) {
      result.core_cpus.push_back(cpu);
    }
    result.core_nodes.assign(result.core_cpus.size(), 0);
    result.core_kinds.assign(result.core_cpus.size(), 0);
  }
  return result;
}

std::vector<int> assign_cpus(const Topology& topology, int threads, int local_rank, int local_size, Numa numa) {
  const auto all = static_cast<int>(topology.core_cpus.size());
  const int begin = all * local_rank / local_size, end = all * (local_rank + 1) / local_size;
  const int mine = end - begin;
  const int count = threads > 0 ? threads : std::max(1, mine);
  std::vector<int> cpus(static_cast<std::size_t>(count), -1);
  if (!topology.this_machine || count > mine || numa == Numa::kOff) return cpus;
  std::vector<int> cores(static_cast<std::size_t>(count));
  if (numa == Numa::kDistribute) {
    for (int i = 0; i < count; ++i) cores[static_cast<std::size_t>(i)] = begin + i * mine / count;
  } else {
    cores = fastest_cores(topology, begin, end, count);
  }
  std::transform(cores.begin(), cores.end(), cpus.begin(), [&](int core) { return topology.core_cpus[static_cast<std::size_t>(core)]; });
  return cpus;
}

std::vector<int> nodes_of(const Topology& topology, const std::vector<int>& cpus) {
  std::set<int> nodes;
  for (const int cpu : cpus) {
    if (const auto node = look_up(topology, topology.core_nodes, cpu)) nodes.insert(*node);
  }
  return {nodes.begin(), nodes.end()};
}

std::vector<int> thread_counts(const Topology& topology, const std::vector<int>& cpus) {
  std::set<int, std::greater<>> counts;
  for (int count = static_cast<int>(cpus.size()); count > 0; count /= 2) counts.insert(count);
  int fastest = 0, fast = 0;
  for (const int cpu : cpus) {
    const int kind = look_up(topology, topology.core_kinds, cpu).value_or(0);
    fast = kind > fastest ? 1 : fast + (kind == fastest);
    fastest = std::max(kind, fastest);
  }
  if (fast > 0) counts.insert(fast);
  return {counts.begin(), counts.end()};
}

std::size_t available_memory_bytes() {
  const std::size_t machine = proc_bytes("/proc/meminfo", "MemAvailable");
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::size_t limit = group_bytes("/sys/fs/cgroup/memory.max", kNone);
  std::size_t used = group_bytes("/sys/fs/cgroup/memory.current", 0);
  if (limit == kNone) {
    limit = group_bytes("/sys/fs/cgroup/memory/memory.limit_in_bytes", kNone);
    used = group_bytes("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0);
  }
  const std::size_t group = limit == kNone ? kNone : limit - std::min(limit, used);
  return std::min(machine, group);
}

std::size_t last_level_cache_bytes() {
  const TopologyHandle topology = load();
  for (const hwloc_obj_type_t level : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L1CACHE}) {
    std::size_t bytes = 0;
    for (hwloc_obj_t cache = nullptr; (cache = hwloc_get_next_obj_by_type(topology.get(), level, cache)) != nullptr;)
      bytes += cache->attr->cache.size;
    if (bytes > 0) return bytes;
  }
  return 0;
}

std::uint64_t machine_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(in, id) && !id.empty() ? std::hash<std::string>()(id) : 0;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string arm;  // Arm processors have no names, but numbers of their designer and of the core
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) return line.substr(colon + 2);
    if (line.starts_with("CPU implementer") && arm.empty()) arm = "implementer " + line.substr(colon + 2);
    if (line.starts_with("CPU part")) return arm + " part " + line.substr(colon + 2);
  }
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
}

std::string cpu_group() {
  // Lines "id:controllers:path": the one that names the processors' controller is used, else the unified group's.
  std::ifstream in("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(in, line);) {
    const std::size_t names = line.find(':') + 1, path = line.find(':', names) + 1;
    if (names == 0 || path == 0) continue;
    const std::string controllers = "," + line.substr(names, path - 1 - names) + ",";
    if (controllers.find(",cpu,") != std::string::npos) return line.substr(path);
    if (controllers == ",,") unified = line.substr(path);
  }
  return unified;
}

std::size_t own_memory_bytes() { return proc_bytes("/proc/self/status", "RssAnon") + proc_bytes("/proc/self/status", "RssShmem"); }

}  // namespace yamata
