#include "launch/units.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "launch/flag_values.hpp"
#include "node/counted.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "node/spin_wait.hpp"
#include "node/split_unit.hpp"
#include "src/model/shard.hpp"

namespace yamata {
namespace {

constexpr int kMostCpus = 4096;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> words(1);
  for (const char c : text) c == at ? static_cast<void>(words.emplace_back()) : words.back().push_back(c);
  return words;
}

UnitSpec parse_unit(const std::string& word) {
  const std::vector<std::string> sides = split(word, '=');
  UnitSpec spec{.name = sides[0], .cpus = {}, .share = {}};
  if (!spec.name.starts_with("cpu:") || sides.size() > 2)
    throw UsageError(fmt::format("--units: '{}' is no unit; write cpu:CORES or cpu:CORES=SHARE, as in cpu:0-3=0.6", word));
  const std::string cores = spec.name.substr(4);
  if (cores.empty()) throw UsageError(fmt::format("--units: '{}' has no cores; name them, as in cpu:0-3", word));
  spec.cpus = parse_counts("--units", cores, 0, kMostCpus);
  if (sides.size() == 1) return spec;
  spec.share = parse_number(sides[1]);
  if (!(*spec.share > 0 && *spec.share <= 1))
    throw UsageError(fmt::format("--units: the share in '{}' must be above 0 and at most 1", word));
  return spec;
}

void require_own_cores(const std::vector<UnitSpec>& specs) {
  std::set<int> taken;
  for (const UnitSpec& spec : specs)
    for (const int cpu : spec.cpus)
      if (!taken.insert(cpu).second) throw UsageError(fmt::format("--units: core {} is named twice; give it to one unit", cpu));
}

void require_whole(const std::vector<UnitSpec>& specs) {
  const auto given = std::ranges::count_if(specs, [](const UnitSpec& spec) { return spec.share.has_value(); });
  if (given == 0) return;
  if (given < std::ssize(specs)) throw UsageError("--units: some units have a share and some have none; give one to each, or to none");
  double sum = 0;
  for (const UnitSpec& spec : specs) sum += *spec.share;
  if (std::abs(sum - 1) > 0.005) throw UsageError(fmt::format("--units: the shares add up to {:.3g}, not to 1", sum));
}

}  // namespace

std::vector<UnitSpec> parse_units(const std::string& text) {
  if (text == "auto") return {};
  std::vector<UnitSpec> specs;
  for (const std::string& word : split(text, '+')) specs.push_back(parse_unit(word));
  if (std::ssize(specs) > kMostUnits)
    throw UsageError(fmt::format("--units: {} are more than the {} that can share a layer", specs.size(), kMostUnits));
  require_own_cores(specs);
  require_whole(specs);
  return specs;
}

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
