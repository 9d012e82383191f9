#include "mpi/planning/layer_split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "node/counted.hpp"
#include "node/error.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

/// Each rank's layers end where its share and those before it do, to the nearest layer, so that equal shares are as even as can be.
std::vector<LayerRange> by_weights(const std::vector<double>& weights, std::int64_t layers) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto ranks = static_cast<std::int64_t>(weights.size());
  std::vector<LayerRange> ranges;
  double share = 0;
  std::int64_t begin = 0;
  for (std::int64_t r = 0; r < ranks; ++r) {
    share += weights[static_cast<std::size_t>(r)] / sum;
    const std::int64_t most = layers - (ranks - 1 - r);  // leaves one layer for each rank after this
    const std::int64_t end = std::clamp<std::int64_t>(std::llround(share * static_cast<double>(layers)), begin + 1, most);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

/// Time of a prompt's token relative to a token alone: a run of a prompt reads weights once for all of its tokens. With an 8-bit model, .21
/// was measured with AVX-512. Attention is not shared between tokens, and took as long per byte as weights do, within a factor of 1.7.
constexpr double kPromptToken = 0.2;

struct Layers {
  std::vector<double> cost;          // of computing, per layer
  std::vector<std::uint64_t> bytes;  // of memory, per layer
};

/// Whether all layers are distributed if each rank in turn takes as many as its capacity and the time limit allow, but at least one.
bool enough(const Layers& layers, std::span<const RankStrength> ranks, double limit) {
  std::size_t begin = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto& [ns_per_byte, capacity] = ranks[r];
    const std::size_t most = layers.cost.size() - (ranks.size() - 1 - r);
    double time = 0;
    std::uint64_t bytes = 0;
    std::size_t end = begin;
    while (end < most && time + ns_per_byte * layers.cost[end] <= limit && bytes + layers.bytes[end] <= capacity) {
      time += ns_per_byte * layers.cost[end];
      bytes += layers.bytes[end++];
    }
    if (end == begin) return false;
    begin = end;
  }
  return begin == layers.cost.size();
}

/// Finds the most even split within the time limit: the least sum of squared times. If several are equal, early ranks hold fewer layers,
/// because cancelled runs do not reach the late ranks.
class EvenSplit {
 public:
  EvenSplit(const Layers& layers, std::span<const RankStrength> ranks, double limit)
      : layers_(layers), ranks_(ranks), limit_(limit), count_(layers.cost.size()) {}

  std::vector<LayerRange> find() {
    // best_[r][b]: for ranks r and later, and layers b and later.
    best_.assign(ranks_.size() + 1, std::vector<Choice>(count_ + 1));
    best_.back()[count_].squares = 0;
    for (std::size_t r = ranks_.size(); r-- > 0;) {
      for (std::size_t begin = 0; begin < count_; ++begin) choose(r, begin);
    }
    std::vector<LayerRange> ranges;
    for (std::size_t r = 0, begin = 0; r < ranks_.size(); ++r) {
      const std::size_t end = best_[r][begin].end;
      ranges.push_back({static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)});
      begin = end;
    }
    return ranges;
  }

 private:
  struct Choice {
    double squares = std::numeric_limits<double>::infinity();
    std::size_t end = 0;
  };

  void choose(std::size_t r, std::size_t begin) {
    const auto& [ns_per_byte, capacity] = ranks_[r];
    double time = 0;
    std::uint64_t bytes = 0;
    for (std::size_t end = begin + 1; end <= count_; ++end) {
      time += ns_per_byte * layers_.cost[end - 1];
      bytes += layers_.bytes[end - 1];
      if (time > limit_ || bytes > capacity) return;
      const double squares = time * time + best_[r + 1][end].squares;
      if (squares < best_[r][begin].squares * (1 - 1e-9)) best_[r][begin] = {squares, end};
    }
  }

  const Layers& layers_;
  std::span<const RankStrength> ranks_;
  const double limit_;
  const std::size_t count_;
  std::vector<std::vector<Choice>> best_;
};

}  // namespace

std::vector<double> layer_costs(const gguf::File& file, const Hyperparameters& h, const Workload& work) {
  const auto prompt = static_cast<double>(work.prompt_tokens), generated = static_cast<double>(work.generated_tokens);
  const double text = prompt + generated;
  // Each token's attention reads the layer's cache of the tokens before it, or of those in its window or picked; each run reads and writes
  // its state.
  const auto attention = [&](const LayerSpec& layer) {
    if (layer.recurrent()) return 2.0 * sizeof(float) * static_cast<double>(h.state.state_floats()) * generated;
    if (!layer.attends()) return 0.0;
    const auto read = [&](std::int64_t most) {
      const double seen = most > 0 ? std::min(text, static_cast<double>(most)) : text;
      return work.cache_bytes_per_token * seen * (text - seen / 2);
    };
    if (layer.picked == 0) return read(layer.window);
    const double cell = static_cast<double>(h.is_latent() ? h.head_dim : 2 * h.kv_heads * h.head_dim);  // numbers
    const double index = layer.index_heads > 0 ? static_cast<double>(layer.index_dim) / (cell + static_cast<double>(layer.index_dim)) : 0;
    return index * read(0) / static_cast<double>(std::max<std::int64_t>(1, layer.index_block)) + (1 - index) * read(layer.picked);
  };
  std::vector<double> cost;
  for (std::int64_t i = 0; i < h.layers; ++i) {
    const auto weights = static_cast<double>(layer_bytes(file, h, i));
    cost.push_back(weights * (generated + kPromptToken * prompt) + attention(h.layer_at(i)));
  }
  const gguf::Tensor* output = file.find("output.weight");
  cost.back() += generated * static_cast<double>((output ? *output : file.tensor("token_embd.weight")).bytes);
  return cost;
}

std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, std::span<const RankStrength> ranks,
                                     std::uint64_t cache_bytes, const Workload& work) {
  Layers layers{layer_costs(file, h, work), {}};
  for (std::int64_t i = 0; i < h.layers; ++i) layers.bytes.push_back(stage_bytes(file, h, {i, i + 1}) + cache_bytes);
  double low = 0, high = 0;
  for (const RankStrength& rank : ranks) high = std::max(high, rank.ns_per_byte);
  high *= 1.000001 * std::accumulate(layers.cost.begin(), layers.cost.end(), 0.0);
  if (!enough(layers, ranks, high)) return {};
  // Finds the smallest sufficient time limit by bisection.
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (enough(layers, ranks, middle) ? high : low) = middle;
  }
  return EvenSplit(layers, ranks, high).find();
}

std::vector<LayerRange> split_layers(const gguf::File& file, const Hyperparameters& h, const std::vector<double>& weights, int ranks,
                                     int others) {
  if (ranks > h.layers) {
    const std::string all = counted(ranks + others, "rank");
    throw UsageError(fmt::format("{}: {} for a model of {}; start at most {}", file.name(),
                                 others > 0 ? fmt::format("{} of the {}", ranks, all) : all, counted(h.layers, "layer"),
                                 counted(h.layers + others, "rank")));
  }
  if (weights.empty()) return split_layers(file, h, std::vector<RankStrength>(static_cast<std::size_t>(ranks)), 0);
  if (static_cast<int>(weights.size()) != ranks) {
    throw UsageError(fmt::format("--layer-split has {} for {}; give one per rank, or auto", counted(std::ssize(weights), "share"),
                                 counted(ranks, "rank")));
  }
  return by_weights(weights, h.layers);
}

}  // namespace yamata
