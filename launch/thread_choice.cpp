#include "launch/thread_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "node/cpu_unit.hpp"
#include "node/median.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {
namespace {

constexpr double kWorthIt = 0.95;
constexpr std::size_t kRounds = 3;

/// A unit with something to compute on it.
struct Trial {
  Trial(const ModelFile& model, std::int64_t layer, const std::vector<int>& cpus, cpu::Isa isa)
      : unit(cpus, isa), probe(model, layer, unit) {}
  CpuUnit unit;
  LayerProbe probe;
};

/// Taken in turn, so that what else the machine does meets both.
bool is_faster(Trial& one, Trial& than) {
  std::vector<double> ratios(kRounds);
  for (double& ratio : ratios) {
    const double before = than.probe.glance();
    ratio = one.probe.glance() / before;
  }
  return median(ratios) < kWorthIt;
}

}  // namespace

std::vector<int> fastest_cpus(const ModelFile& model, std::int64_t layer, const std::vector<std::vector<int>>& choices, cpu::Isa isa,
                              std::chrono::milliseconds patience) {
  std::size_t best = 0;
  auto fastest = std::make_unique<Trial>(model, layer, choices.front(), isa);
  if (!fastest->probe.warm_up(patience)) return choices.front();
  for (std::size_t next = 1; next < choices.size(); ++next) {
    auto trial = std::make_unique<Trial>(model, layer, choices[next], isa);
    if (!trial->probe.warm_up(patience) || !is_faster(*trial, *fastest)) break;
    fastest = std::move(trial);
    best = next;
  }
  return choices[best];
}

std::vector<std::string> crowded_hosts(std::span<const wire::Hello> ranks) {
  struct Host {
    int threads = 0, most_threads = 0, cpus = 0;
  };
  std::map<std::pair<std::string, std::string>, Host> hosts;  // containers may go by their machine's name
  for (const wire::Hello& rank : ranks) {
    Host& host = hosts[{rank.host, rank.cpu_group}];
    host.threads += rank.threads;
    host.most_threads = std::max<int>(host.most_threads, rank.threads);
    host.cpus = std::max<int>(host.cpus, rank.logical_cpus);
  }
  std::vector<std::string> warnings;
  for (const auto& [names, host] : hosts) {
    if (host.most_threads < 2 || host.threads <= host.cpus) continue;
    warnings.push_back(fmt::format("{} has {} threads on {} CPUs, where they wait for each other all the time; lower -t or leave it out",
                                   names.first, host.threads, host.cpus));
  }
  return warnings;
}

}  // namespace yamata
