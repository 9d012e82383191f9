#include "launch/program/planning/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "node/counted.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/device_units.hpp"
#include "node/error.hpp"
#include "node/spin_wait.hpp"
#include "src/model/shard.hpp"

namespace yamata {

namespace {

void require_cores(const std::vector<UnitSpec>& specs, const char* flag) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  sched_getaffinity(0, sizeof(usable), &usable);
  for (const UnitSpec& spec : specs)
    for (const int cpu : spec.cpus)
      if (cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<std::size_t>(cpu), &usable))
        throw UsageError(
            fmt::format("{}: this process may not use core {}, or there is none of that number; see lstopo or lscpu", flag, cpu));
}

void require_device(const UnitSpec& spec, int local_rank, const char* flag) {
  try {
    device_bytes(spec.name, local_rank);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{} {}", flag, error.what()));
  }
}

/// Units that share layers are different devices, however they are named.
void require_different_devices(const std::vector<UnitSpec>& specs, int local_rank, const char* flag) {
  std::set<std::string> names;
  for (const UnitSpec& spec : specs) {
    if (spec.device && !names.insert(own_device_name(spec.name, local_rank)).second)
      throw UsageError(fmt::format("{}: {} is named twice; a device is one unit", flag, own_device_name(spec.name, local_rank)));
  }
}

/// One thread per CPU, bound to its core if that is known.
std::vector<int> threads_of(const UnitSpec& spec, const Topology& topology) {
  if (spec.device) return {-1};
  return topology.this_machine ? spec.cpus : std::vector<int>(spec.cpus.size(), -1);
}

}  // namespace

std::vector<UnitSpec> find_units(std::vector<UnitSpec> specs, int threads, const RankPlace& place, bool take_turns, const char* flag) {
  require_cores(specs, flag);
  require_different_devices(specs, place.local_rank, flag);
  require_device_settings();
  const auto devices = take_turns ? 0 : static_cast<std::size_t>(std::ranges::count_if(specs, &UnitSpec::device));
  for (UnitSpec& spec : specs) {
    if (spec.device) require_device(spec, place.local_rank, flag);
    if (!spec.takes_the_rest()) continue;
    spec.cpus = assign_cpus(place.topology, threads, place.local_rank, place.local_size, place.numa);
    if (threads == 0) spec.cpus.resize(std::max<std::size_t>(1, spec.cpus.size() - std::min(spec.cpus.size(), devices)));
  }
  return specs;
}

std::vector<UnitSpec> cores_and_device(const RankPlace& place, std::string& why_not) {
  std::vector<UnitSpec> specs{{.name = "cpu", .cpus = {}}};
  const DeviceUnits devices = device_units();
  const auto own = static_cast<std::size_t>(place.local_rank);
  if (own < devices.names.size()) {
    specs.push_back({.name = devices.names[own], .cpus = {}, .share = {}, .device = true});
  } else if (!devices.names.empty()) {
    why_not = fmt::format("this machine has {} for {}", counted(std::ssize(devices.names), "device"), counted(place.local_size, "rank"));
  } else {
    why_not = devices.why_none.empty() ? "this program was built without CUDA" : devices.why_none;
  }
  return specs;
}

std::string ranks_without_device(const std::vector<wire::Hello>& hellos) {
  std::map<std::string, std::vector<std::size_t>> ranks;  // by reason
  for (std::size_t rank = 0; rank < hellos.size(); ++rank)
    if (!hellos[rank].no_device.empty()) ranks[hellos[rank].no_device].push_back(rank);
  std::vector<std::string> lines;
  for (const auto& [why_not, without] : ranks) {
    std::vector<std::string> named;
    for (const std::size_t rank : without) named.push_back(fmt::format("{} ({})", rank, hellos[rank].host));
    lines.push_back(fmt::format("no device for rank{} {}: {}", without.size() == 1 ? "" : "s", fmt::join(named, ", "), why_not));
  }
  return lines.empty() ? "" : fmt::format("{}; cores compute all layers there", fmt::join(lines, "; "));
}

std::vector<std::string> ranks_without_layers(const wire::Start& plan, const std::vector<wire::Hello>& hellos) {
  const wire::PipelinePlan& target = plan.pipelines.front();
  std::vector<std::string> lines;
  for (std::size_t s = 0; s < target.first_layers.size(); ++s) {
    const auto rank = static_cast<std::size_t>(target.ranks[s]);
    const wire::Hello& hello = hellos[rank];
    if (hello.device_layers != wire::kLayersThatFit || hello.device_copies == 1) continue;
    if (target.first_layers[s] > 0 || target.layers[s].count() == 0) continue;
    lines.push_back(
        fmt::format("-ngl auto: no layer fits into the {} MiB that the device of rank {} ({}, {}) has free; cores compute all "
                    "layers there; lower -c or -b, or move the drafts",
                    hello.device_bytes >> 20, rank, hello.host, hello.device));
  }
  return lines;
}

std::int64_t sharing_units(const std::vector<UnitSpec>& specs, bool layered) {
  return std::max<std::int64_t>(0, std::ssize(specs) - layered);
}

void require_fit(const std::vector<UnitSpec>& specs, const Hyperparameters& h, bool layered, const char* flag) {
  const std::int64_t sharing = sharing_units(specs, layered);
  if (sharing <= 1 || sharing <= most_members(h)) return;
  throw UsageError(fmt::format("{}: {}; name at most {}", flag, too_many(h, sharing, "unit"), counted(most_members(h), "unit")));
}

std::vector<int> cpus_of(const std::vector<UnitSpec>& specs, const Topology& topology) {
  std::vector<int> all;
  for (const UnitSpec& spec : specs) {
    const std::vector<int> own = threads_of(spec, topology);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::string names_of(const std::vector<UnitSpec>& specs) {
  std::string names;
  for (const UnitSpec& spec : specs) names += (names.empty() ? "" : "+") + spec.name;
  return names;
}

std::unique_ptr<ComputeUnit> make_one_unit(const UnitSpec& spec, cpu::Isa isa, const RankPlace& place, const std::vector<int>& nodes) {
  if (spec.device) return make_device_unit(spec.name, place.local_rank);
  return std::make_unique<CpuUnit>(threads_of(spec, place.topology), isa, nodes);
}

/// If nothing is known about its speed, a device begins with as much as all cores together.
std::unique_ptr<SplitUnit> make_split_unit(const std::vector<UnitSpec>& specs, bool adapts, cpu::Isa isa, const RankPlace& place) {
  const std::vector<int> nodes = nodes_of(place.topology, cpus_of(specs, place.topology));
  std::size_t cores = 0;
  for (const UnitSpec& spec : specs) cores += spec.cpus.size();
  std::vector<UnitPart> parts;
  for (const UnitSpec& spec : specs) {
    const auto likely = static_cast<double>(spec.device ? std::max<std::size_t>(1, cores) : spec.cpus.size());
    parts.push_back({spec.name, make_one_unit(spec, isa, place, nodes), spec.share.value_or(likely), spec.device});
  }
  return std::make_unique<SplitUnit>(std::move(parts), adapts, place.topology.this_machine ? kSpinsBound : kSpinsUnbound);
}

std::unique_ptr<LayeredUnit> make_layered_unit(const std::vector<UnitSpec>& specs, cpu::Isa isa, const RankPlace& place) {
  const std::vector<int> nodes = nodes_of(place.topology, cpus_of(specs, place.topology));
  std::vector<UnitSpec> cores;
  std::unique_ptr<ComputeUnit> device;
  for (const UnitSpec& spec : specs)
    spec.device ? static_cast<void>(device = make_one_unit(spec, isa, place, nodes)) : cores.push_back(spec);
  if (cores.size() == 1) return std::make_unique<LayeredUnit>(std::move(device), make_one_unit(cores.front(), isa, place, nodes));
  return std::make_unique<LayeredUnit>(std::move(device), make_split_unit(cores, true, isa, place));
}

}  // namespace yamata
