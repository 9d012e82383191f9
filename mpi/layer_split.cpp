#include "mpi/layer_split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "node/error.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

std::vector<LayerRange> by_weights(const std::vector<double>& weights, std::int64_t layers) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto ranks = static_cast<std::int64_t>(weights.size());
  std::vector<LayerRange> ranges;
  std::int64_t begin = 0;
  for (std::int64_t r = 0; r < ranks; ++r) {
    // Shares are normalised; the small addend keeps 0.3 of 10 layers at 3.
    const auto wish =
        static_cast<std::int64_t>(std::floor(weights[static_cast<std::size_t>(r)] / sum * static_cast<double>(layers) + 1e-9));
    const std::int64_t most = layers - begin - (ranks - 1 - r);  // leave one for each rank after this
    const std::int64_t count = r + 1 == ranks ? layers - begin : std::clamp<std::int64_t>(wish, 1, most);
    ranges.push_back({begin, begin + count});
    begin += count;
  }
  return ranges;
}

/// Each rank in turn takes layers as long as it stays within the limit of time and its room, and one at least; empty where
/// some are left over or one does not fit.
std::vector<LayerRange> fill(const std::vector<double>& cost, const std::vector<std::uint64_t>& held, std::span<const RankStrength> ranks,
                             double limit) {
  std::vector<LayerRange> ranges;
  std::size_t begin = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto& [pace, room] = ranks[r];
    const std::size_t most = cost.size() - (ranks.size() - 1 - r);
    std::size_t end = begin + 1;
    double time = pace * cost[begin];
    std::uint64_t bytes = held[begin];
    if (bytes > room) return {};
    while (end < most && time + pace * cost[end] <= limit && bytes + held[end] <= room) {
      time += pace * cost[end];
      bytes += held[end++];
    }
    ranges.push_back({static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
    begin = end;
  }
  if (begin < cost.size()) return {};
  return ranges;
}

}  // namespace

std::vector<double> layer_costs(const gguf::File& file, const Hyperparameters& h) {
  std::vector<double> cost;
  for (std::int64_t i = 0; i < h.layers; ++i) cost.push_back(static_cast<double>(stage_bytes(file, h, {i, i + 1})));
  // The embedding is looked up, not read whole: it weighs nothing for speed, unless it is also the output.
  cost.front() -= static_cast<double>(file.tensor("token_embd.weight").bytes);
  if (h.layers == 1 && !file.find("output.weight")) cost.front() += static_cast<double>(file.tensor("token_embd.weight").bytes);
  return cost;
}

std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, std::span<const RankStrength> ranks,
                                     std::uint64_t cache_bytes) {
  const std::vector<double> cost = layer_costs(file, h);
  std::vector<std::uint64_t> held;
  for (std::int64_t i = 0; i < h.layers; ++i) held.push_back(stage_bytes(file, h, {i, i + 1}) + cache_bytes);
  double low = 0, high = 0;
  for (const RankStrength& rank : ranks) high = std::max(high, rank.pace);
  high *= std::accumulate(cost.begin(), cost.end(), 0.0);
  // The smallest limit of time under which filling rank after rank takes in all layers.
  auto best = fill(cost, held, ranks, high);
  for (int step = 0; step < 60 && !best.empty(); ++step) {
    const double middle = (low + high) / 2;
    auto ranges = fill(cost, held, ranks, middle);
    (ranges.empty() ? low : high) = middle;
    if (!ranges.empty()) best = std::move(ranges);
  }
  return best;
}

std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, const std::vector<double>& weights, int ranks) {
  if (ranks > h.layers) {
    throw UsageError(fmt::format("{} ranks for a model of {} layers; start at most {} ranks", ranks, h.layers, h.layers));
  }
  if (weights.empty()) return split_layers(file, h, std::vector<RankStrength>(static_cast<std::size_t>(ranks)), 0);
  if (static_cast<int>(weights.size()) != ranks) {
    throw UsageError(fmt::format("--layer-split has {} shares for {} ranks; give one per rank, or auto", weights.size(), ranks));
  }
  return by_weights(weights, h.layers);
}

}  // namespace yamata
