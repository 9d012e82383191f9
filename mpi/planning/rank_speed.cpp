#include "mpi/planning/rank_speed.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <tuple>

namespace yamata {
namespace {

constexpr double kWithinGroup = std::numeric_limits<double>::infinity();
constexpr double kWithinHost = 1.5;
constexpr double kSameProcessor = 1.5;
constexpr double kBetweenHosts = 1.15;

double mean(std::span<const double> ascending) {
  return std::accumulate(ascending.begin(), ascending.end(), 0.0) / static_cast<double>(ascending.size());
}

/// The median; of two middle values the smaller one, because disturbances make measurements longer.
double lower_median(std::span<const double> ascending) { return ascending[(ascending.size() - 1) / 2]; }

/// Makes times equal: beginning with the shortest, times within `tolerance` of the shortest of their group are all replaced by `common` of
/// the group.
void equalize(std::vector<double>& times, std::vector<std::size_t> members, double tolerance, double (*common)(std::span<const double>)) {
  std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  for (auto begin = members.begin(); begin != members.end();) {
    const double most = tolerance * times[*begin];
    const auto end = std::find_if(begin, members.end(), [&](std::size_t i) { return times[i] > most; });
    std::vector<double> equal;
    std::for_each(begin, end, [&](std::size_t i) { equal.push_back(times[i]); });
    const double all = common(equal);
    std::for_each(begin, end, [&](std::size_t i) { times[i] = all; });
    begin = end;
  }
}

std::vector<std::size_t> indices(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::vector<double> in_units_of_the_shortest(std::vector<double> times) {
  if (times.empty()) return times;
  const double shortest = *std::min_element(times.begin(), times.end());
  for (double& time : times) time /= shortest;
  return times;
}

}  // namespace

std::vector<double> equalized(std::vector<double> times) {
  equalize(times, indices(times.size()), kBetweenHosts, mean);
  return in_units_of_the_shortest(std::move(times));
}

std::vector<double> relative_ns_per_byte(const std::vector<wire::Hello>& hellos, const std::vector<int>& ranks) {
  return in_units_of_the_shortest(settled_ns_per_byte(hellos, ranks));
}

std::vector<double> settled_ns_per_byte(const std::vector<wire::Hello>& hellos, const std::vector<int>& ranks) {
  std::vector<double> ns_per_byte;
  std::map<std::string, std::vector<std::size_t>> hosts;
  std::map<std::tuple<std::string, std::string, std::int32_t>, std::vector<std::size_t>> groups, same_processor;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const wire::Hello& hello = hellos[static_cast<std::size_t>(ranks[r])];
    if (!(hello.measured.ns_per_byte > 0)) return {};
    ns_per_byte.push_back(hello.measured.ns_per_byte);
    hosts[hello.host].push_back(r);
    groups[{hello.host, hello.cpu_group, hello.threads}].push_back(r);
    if (!hello.cpu.empty() && hello.device.empty()) same_processor[{hello.cpu, hello.isa, hello.threads}].push_back(r);
  }
  for (const auto& [group, members] : groups) equalize(ns_per_byte, members, kWithinGroup, mean);
  for (const auto& [host, members] : hosts) equalize(ns_per_byte, members, kWithinHost, mean);
  for (const auto& [processor, members] : same_processor) equalize(ns_per_byte, members, kSameProcessor, lower_median);
  equalize(ns_per_byte, indices(ns_per_byte.size()), kBetweenHosts, mean);
  return ns_per_byte;
}

std::vector<std::uint64_t> weight_capacities(const std::vector<wire::Hello>& hellos, std::uint64_t buffer_bytes,
                                             std::uint64_t layer_bytes) {
  std::map<std::string, std::uint64_t> available, ranks;
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    const std::string memory = wire::memory_of(hellos, rank);
    const std::uint64_t bytes = hellos[rank].available_bytes;
    const auto [at, first] = available.try_emplace(memory, bytes);
    if (!first) at->second = std::min(at->second, bytes);
    ++ranks[memory];
  }
  std::vector<std::uint64_t> capacities;
  for (std::size_t rank = 0; rank < hellos.size(); ++rank) {
    const wire::Hello& hello = hellos[rank];
    const std::string memory = wire::memory_of(hellos, rank);
    const std::uint64_t part = available[memory] / ranks[memory];
    const bool apart = hello.device_layers > 0 && !hello.device_is_unified;
    const std::uint64_t on_device = apart ? std::min(hello.device_bytes, static_cast<std::uint64_t>(hello.device_layers) * layer_bytes) : 0;
    capacities.push_back(part - std::min(part, buffer_bytes) + on_device);
  }
  return capacities;
}

}  // namespace yamata
