#include "launch/planning/units.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "node/counted.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "node/spin_wait.hpp"
#include "src/model/shard.hpp"

namespace yamata {

void require_cores(const std::vector<UnitSpec>& specs) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof(usable), &usable);
  for (const UnitSpec& spec : specs)
    for (const int cpu : spec.cpus)
      if (cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<std::size_t>(cpu), &usable))
        throw UsageError(
            fmt::format("--units: this process may not use core {}, or there is none of that number; see lstopo or lscpu", cpu));
}

void require_parts(const std::vector<UnitSpec>& specs, const Hyperparameters& h) {
  if (specs.empty() || std::ssize(specs) <= most_members(h)) return;
  throw UsageError(fmt::format("--units: {} share a layer that can be cut into {}; name at most {}", counted(std::ssize(specs), "unit"),
                               counted(most_members(h), "piece"), counted(most_members(h), "unit")));
}

std::vector<int> cpus_of(const std::vector<UnitSpec>& specs, const Topology& topology) {
  std::vector<int> all;
  for (const UnitSpec& spec : specs) all.insert(all.end(), spec.cpus.begin(), spec.cpus.end());
  if (!topology.this_machine) std::ranges::fill(all, -1);
  return all;
}

std::string names_of(const std::vector<UnitSpec>& specs) {
  std::string names;
  for (const UnitSpec& spec : specs) names += (names.empty() ? "" : "+") + spec.name;
  return names;
}

std::unique_ptr<SplitUnit> make_split_unit(const std::vector<UnitSpec>& specs, bool adapts, cpu::Isa isa, const Topology& topology) {
  const std::vector<int> nodes = nodes_of(topology, cpus_of(specs, topology));
  std::vector<UnitPart> parts;
  for (const UnitSpec& spec : specs) {
    auto unit = std::make_unique<CpuUnit>(cpus_of({spec}, topology), isa, nodes);
    parts.push_back({spec.name, std::move(unit), spec.share.value_or(static_cast<double>(spec.cpus.size()))});
  }
  return std::make_unique<SplitUnit>(std::move(parts), adapts, topology.this_machine ? kSpinsBound : kSpinsUnbound);
}

}  // namespace yamata
