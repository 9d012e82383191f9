#include "launch/program/planning/split_advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "mpi/planning/rank_speed.hpp"

namespace yamata {
namespace {

constexpr std::uint64_t kMinRuns = 16;
constexpr double kMinBusy_s = 0.1;
constexpr double kMuchSlower = 2;
constexpr double kWorthAnotherSplit = 0.9;  // relative to the slowest stage's time

/// The time of the slowest stage.
double bottleneck(const std::vector<double>& costs, const std::vector<double>& ns_per_byte, const std::vector<LayerRange>& split) {
  double most = 0;
  for (std::size_t s = 0; s < split.size(); ++s)
    most = std::max(most, ns_per_byte[s] * std::accumulate(costs.begin() + split[s].begin, costs.begin() + split[s].end, 0.0));
  return most;
}

/// The split as shares in the flag's format, with those of drafts on ranks of their own.
std::string flag_text(const std::vector<LayerRange>& split, const Layout& layout) {
  std::vector<std::int64_t> counts;
  for (const LayerRange& range : split) counts.push_back(range.count());
  std::string text = fmt::format("--layer-split {}", fmt::join(counts, ","));
  for (const ModelPlace& place : layout) {
    if (place.model == 0 || place.ranks.front() == 0) continue;
    text += "/" + (place.shares.empty() ? "1" : fmt::format("{}", fmt::join(place.shares, ",")));
  }
  return text;
}

}  // namespace

std::string split_advice(const ModelFile& target, const Layout& layout, const std::vector<wire::Report>& reports,
                         std::span<const std::uint64_t> capacities, std::uint64_t cache_bytes, const Workload& work) {
  const auto stages = layout.front().ranks.size();
  if (stages < 2 || !layout.front().groups.empty()) return "";
  if (layout.front().ranks.back() >= layout.front().ranks.front() + static_cast<int>(stages)) return "";  // there is no flag for that
  const std::vector<double> costs = layer_costs(target.file, target.h, work);
  std::vector<LayerRange> split;
  std::vector<double> ns_per_byte;
  for (std::size_t s = 0; s < stages; ++s) {
    const wire::Report& report = reports[static_cast<std::size_t>(layout.front().ranks[s])];
    if (report.runs < kMinRuns || report.busy_s <= 0 || report.layers.count() == 0) return "";
    split.push_back(report.layers);
    const double cost = std::accumulate(costs.begin() + report.layers.begin, costs.begin() + report.layers.end, 0.0);
    ns_per_byte.push_back(report.busy_s / static_cast<double>(report.runs) / cost);
  }
  const auto slow = static_cast<std::size_t>(std::max_element(ns_per_byte.begin(), ns_per_byte.end()) - ns_per_byte.begin());
  const double others =
      (std::accumulate(ns_per_byte.begin(), ns_per_byte.end(), 0.0) - ns_per_byte[slow]) / static_cast<double>(stages - 1);
  const int rank = layout.front().ranks[slow];
  const wire::Report& report = reports[static_cast<std::size_t>(rank)];
  if (report.busy_s < kMinBusy_s || ns_per_byte[slow] < kMuchSlower * others) return "";

  const std::vector<double> settled = equalized(ns_per_byte);
  std::vector<RankStrength> strengths;
  for (std::size_t s = 0; s < stages; ++s) strengths.push_back({settled[s], capacities[static_cast<std::size_t>(layout.front().ranks[s])]});
  const auto better = split_layers(target.file, target.h, strengths, cache_bytes, work);
  if (better.empty() || bottleneck(costs, ns_per_byte, better) > kWorthAnotherSplit * bottleneck(costs, ns_per_byte, split)) return "";
  return fmt::format("rank {} ({}) took {:.1f} times as long for its share as the other stages; faster would be {}\n", rank, report.host,
                     ns_per_byte[slow] / others, flag_text(better, layout));
}

}  // namespace yamata
