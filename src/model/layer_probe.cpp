#include "src/model/layer_probe.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "node/median.hpp"
#include "node/topology.hpp"

namespace yamata {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr microseconds kShortest{10000};  // twice the shortest period of CPU quotas in use
constexpr microseconds kLongest{25000};
constexpr int kWindows = 5, kRounds = 3;

}  // namespace

std::size_t uncached_bytes() {
  constexpr std::size_t kMaxBytes = 256u << 20;
  return std::min(2 * last_level_cache_bytes(), kMaxBytes);
}

LayerRange layers_of_bytes(const ModelFile& model, std::int64_t middle, std::size_t bytes) {
  LayerRange layers{middle, middle + 1};
  for (std::size_t sum = layer_bytes(model.file, model.h, middle); sum < bytes && layers.count() < model.h.layers;) {
    const std::int64_t next = layers.end < model.h.layers ? layers.end++ : --layers.begin;
    sum += layer_bytes(model.file, model.h, next);
  }
  return layers;
}

LayerProbe::LayerProbe(const ModelFile& model, LayerRange layers, ComputeUnit& unit, int widest, bool copies)
    : unit_(unit),
      widest_(widest),
      stage_(model.file, model.h, layers,
             ContextOptions{.cells = 2 * widest, .sequences = 1, .cache_types = CacheType::kF16, .copy_others = copies, .only_time = true},
             unit),
      activations_(static_cast<std::size_t>(widest * stage_.input_width()), 1.0f) {
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer)
    bytes_ += static_cast<double>(layer_bytes(model.file, model.h, layer));
}

bool LayerProbe::warm_up(std::chrono::milliseconds patience) {
  std::atomic<bool> stop{stop_ && *stop_};
  const auto deadline = SteadyClock::now() + patience;
  stage_.load(&stop);
  while (!unit_.wait_for(std::chrono::milliseconds(10))) {
    if (SteadyClock::now() > deadline || (stop_ && *stop_)) stop = true;
  }
  if (stop) return false;
  compute();
  const auto began = SteadyClock::now();
  compute();
  const auto once = std::chrono::duration_cast<microseconds>(SteadyClock::now() - began);
  window_ = std::clamp<microseconds>(25 * once, kShortest, kLongest);
  return true;
}

double LayerProbe::quick_check() { return ns_per_byte(window(window_)); }

double LayerProbe::measure() {
  std::vector<double> windows(kWindows);
  for (double& each : windows) each = ns_per_byte(window(kShortest));
  return median(std::move(windows));
}

std::vector<double> LayerProbe::width_multiples(std::span<const int> widths) {
  double one = std::numeric_limits<double>::infinity();
  std::vector<double> multiples(widths.size(), one);
  for (int round = 0; round < kRounds; ++round) {
    one = std::min(one, ns_per_byte(window(kShortest)));
    for (std::size_t i = 0; i < widths.size(); ++i) multiples[i] = std::min(multiples[i], ns_per_byte(window(kShortest, widths[i])));
  }
  for (double& each : multiples) each /= one;
  return multiples;
}

LayerProbe::Work LayerProbe::window(microseconds length, int rows) {
  const auto began = SteadyClock::now();
  Work work;
  do {
    compute(rows);
    ++work.repetitions;
    work.took = SteadyClock::now() - began;
  } while (work.took < length && !(stop_ && *stop_));
  return work;
}

double LayerProbe::ns_per_byte(const Work& work) const {
  return std::chrono::duration<double, std::nano>(work.took).count() / (work.repetitions * bytes_);
}

void LayerProbe::compute(int rows) {
  // Every run has the same positions: it overwrites the tokens of the run before.
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows), 0);
  std::vector<Placement> placements;
  for (int row = 0; row < rows; ++row) placements.push_back({.position = row, .parent = row - 1, .sequences = {0, 1}});
  const auto width = activations_.size() / static_cast<std::size_t>(widest_);
  stage_.start({tokens, std::span(activations_).first(tokens.size() * width), placements, {}}, nullptr);
  wait();
}

void LayerProbe::wait() {
  while (!unit_.wait_for(std::chrono::milliseconds(100))) {
  }
}

}  // namespace yamata
