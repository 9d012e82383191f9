#include "launch/program/planning/layout_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tuple>

#include "launch/program/planning/plan_file.hpp"
#include "mpi/planning/rank_speed.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {
namespace {

constexpr double kSame = 0.97;               // relative to the fastest layout's speed: a simpler layout that reaches this is chosen
constexpr double kWorthMoreMachines = 1.05;  // least gain of more than one machine: forecasts have an error of some percent
constexpr std::size_t kForecasts = 8;

/// The measured latency includes the work of sending and receiving a message. The first message's additional delay (wake-up) is only one
/// sample: a host that was busy at that time is not assumed to be always busy.
simulation::NetworkOptions network_of(const Link& link) {
  constexpr double kShortest_s = 2e-5, kLongest_s = 5e-4;
  const auto nanoseconds = [](double s) { return static_cast<simulation::Nanoseconds>(std::llround(1e9 * s)); };
  simulation::NetworkOptions network;
  network.latency = std::max<simulation::Nanoseconds>(0, nanoseconds(link.latency_s) - 2 * network.message);
  network.bytes_per_s = link.bytes_per_s;
  network.wake_up = nanoseconds(std::clamp(link.wake_up_s, kShortest_s, kLongest_s));
  return network;
}

simulation::WidthCost width_cost(const std::vector<double>& multiples) {
  if (multiples.size() != kProbedWidths.size()) return simulation::WidthCost();
  std::vector<simulation::WidthTime> measured{{1, 1.0}};
  for (std::size_t i = 0; i < multiples.size(); ++i) measured.push_back({static_cast<std::size_t>(kProbedWidths[i]), multiples[i]});
  return simulation::WidthCost(times_by_width(measured));
}

/// The least is preferred: the number of machines first, then the other resources.
std::tuple<int, std::size_t, std::size_t> complexity(const Forecast& f) {
  const ModelPlace& target = f.candidate.layout.front();
  return {f.candidate.hosts(), f.candidate.layout.size(), target.groups.size()};
}

const Forecast& preferred(const std::vector<Forecast>& forecasts, const Forecast* alone) {
  const Forecast* chosen = &forecasts.front();
  for (const Forecast& f : forecasts) {
    if (f.tokens_per_s >= kSame * forecasts.front().tokens_per_s && complexity(f) < complexity(*chosen)) chosen = &f;
  }
  return alone && chosen->tokens_per_s < kWorthMoreMachines * alone->tokens_per_s ? *alone : *chosen;
}

/// Applies what earlier jobs have shown. The fastest is first again.
void correct(std::vector<Forecast>& forecasts, const std::function<double(const LayoutCandidate&)>& correction) {
  for (Forecast& f : forecasts) {
    f.correction = correction(f.candidate);
    f.tokens_per_s *= f.correction;
  }
  std::ranges::stable_sort(forecasts, std::greater{}, [](const Forecast& f) { return std::tuple(f.fits, f.tokens_per_s); });
}

std::string words(const Forecast& f, std::span<const PlannedHost> hosts) {
  const std::string names = f.candidate.hosts() == 1 ? hosts.front().name + " alone" : host_names(f.candidate, hosts);
  return fmt::format("{}, {}", names, strategy_name(f.candidate.strategy));
}

/// The hosts without a part.
std::vector<std::string> left_out(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts) {
  std::vector<std::string> names;
  for (int rank = 0; rank < std::ssize(hosts); ++rank) {
    const bool part =
        std::ranges::any_of(candidate.layout, [&](const ModelPlace& place) { return std::ranges::count(place.ranks, rank) > 0; });
    if (!part) names.push_back(hosts[static_cast<std::size_t>(rank)].name);
  }
  return names;
}

std::string reasons(const Forecast& chosen, const std::vector<Forecast>& forecasts, const Forecast* alone,
                    std::span<const PlannedHost> hosts, int requests) {
  const std::string of = requests > 1 ? fmt::format(" of {} texts", requests) : "";
  std::string why = fmt::format("{}: {:.2f} tokens/s{} expected", words(chosen, hosts), chosen.tokens_per_s, of);
  const Forecast* other = &chosen == alone ? nullptr : alone;
  for (const Forecast& f : forecasts) {
    if (!other && f.candidate.hosts() > 1) other = &f;
  }
  if (other) why += fmt::format(", {:.2f} of {}", other->tokens_per_s, words(*other, hosts));
  if (other && other->tokens_per_s > chosen.tokens_per_s) why += " (too small a gain)";
  if (const auto names = left_out(chosen.candidate, hosts); !names.empty())
    why += fmt::format("; {} {} not used", fmt::join(names, ", "), names.size() == 1 ? "is" : "are");
  return why;
}

}  // namespace

std::vector<PlannedHost> planned_hosts(const std::vector<wire::Hello>& hellos, std::span<const Link> links, std::uint64_t layer_bytes) {
  std::vector<int> ranks(hellos.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::vector<double> ns_per_byte = settled_ns_per_byte(hellos, ranks);
  if (ns_per_byte.empty()) return {};
  const std::vector<std::uint64_t> capacities = weight_capacities(hellos, 0, layer_bytes);
  std::vector<PlannedHost> hosts;
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    if (hellos[r].fingerprints != hellos[0].fingerprints) return {};
    PlannedHost host{.name = hellos[r].host, .ns_per_byte = ns_per_byte[r], .width = width_cost(hellos[r].measured.width_multiples)};
    host.free_bytes = capacities[r];
    host.threads = hellos[r].threads;
    if (r > 0 && r < links.size()) host.link = network_of(links[r]);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::optional<LayoutChoice> choose_layout(const PlannedJob& job, std::span<const PlannedHost> hosts) {
  std::vector<Forecast> forecasts = plan_layouts(job, hosts, {}, kForecasts);
  if (job.correction) correct(forecasts, job.correction);
  if (forecasts.empty() || !forecasts.front().fits) return std::nullopt;
  const auto one = std::ranges::find_if(forecasts, [](const Forecast& f) { return f.candidate.hosts() == 1; });
  const Forecast* alone = one == forecasts.end() ? nullptr : &*one;
  const Forecast& chosen = preferred(forecasts, alone);
  return LayoutChoice{chosen.candidate, chosen.tokens_per_s / chosen.correction, reasons(chosen, forecasts, alone, hosts, job.requests),
                      to_json(job, hosts, {}, forecasts, &chosen)};
}

}  // namespace yamata
