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

/// The split whose heaviest rank reads the fewest bytes: the smallest limit under which a greedy fill suffices.
std::vector<LayerRange> by_bytes(const gguf::File& file, const Hyperparameters& h, int ranks) {
  std::vector<double> cost;
  for (std::int64_t i = 0; i < h.layers; ++i) cost.push_back(static_cast<double>(stage_bytes(file, h, {i, i + 1})));
  // The embedding is looked up, not read whole: it weighs nothing for speed, unless it is also the output.
  cost.front() -= static_cast<double>(file.tensor("token_embd.weight").bytes);
  if (h.layers == 1 && !file.find("output.weight")) cost.front() += static_cast<double>(file.tensor("token_embd.weight").bytes);

  const auto fill = [&](double limit) {
    std::vector<LayerRange> ranges;
    std::int64_t begin = 0;
    for (int r = 0; r < ranks; ++r) {
      const std::int64_t most = h.layers - (ranks - 1 - r);
      std::int64_t end = begin + 1;
      double sum = cost[static_cast<std::size_t>(begin)];
      while (end < most && sum + cost[static_cast<std::size_t>(end)] <= limit) sum += cost[static_cast<std::size_t>(end++)];
      ranges.push_back({begin, end});
      begin = end;
    }
    return ranges;
  };
  double low = 0, high = std::accumulate(cost.begin(), cost.end(), 0.0);
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (fill(middle).back().end == h.layers ? high : low) = middle;
  }
  auto ranges = fill(high);
  ranges.back().end = h.layers;
  return ranges;
}

}  // namespace

std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, const std::vector<double>& weights, int ranks) {
  if (ranks > h.layers) {
    throw UsageError(fmt::format("{} ranks for a model of {} layers; start at most {} ranks", ranks, h.layers, h.layers));
  }
  if (weights.empty()) return by_bytes(file, h, ranks);
  if (static_cast<int>(weights.size()) != ranks) {
    throw UsageError(fmt::format("--layer-split has {} shares for {} ranks; give one per rank, or auto", weights.size(), ranks));
  }
  return by_weights(weights, h.layers);
}

}  // namespace yamata
