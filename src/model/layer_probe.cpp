#include "src/model/layer_probe.hpp"

#include <algorithm>
#include <utility>

namespace yamata {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr microseconds kShortest{10000};  // two periods of the shortest quotas in use
constexpr microseconds kLongest{25000};
constexpr int kWindows = 6;
constexpr double kAgreement = 1.25;

}  // namespace

LayerProbe::LayerProbe(const ModelFile& model, std::int64_t layer, ComputeUnit& unit, int widest)
    : unit_(unit),
      widest_(widest),
      stage_(model.file, model.h, {layer, layer + 1}, ContextOptions{2 * widest, 1, CacheType::kF16}, unit),
      bytes_(static_cast<double>(layer_bytes(model.file, model.h, layer))),
      activations_(static_cast<std::size_t>(widest * model.h.dim), 1.0f) {}

bool LayerProbe::warm_up(std::chrono::milliseconds patience) {
  std::atomic<bool> stop{false};
  const auto deadline = Clock::now() + patience;
  stage_.load(&stop);
  while (!unit_.wait_for(std::chrono::milliseconds(10))) {
    if (Clock::now() > deadline) stop = true;
  }
  if (stop) return false;
  compute();
  const auto began = Clock::now();
  compute();
  const auto once = std::chrono::duration_cast<microseconds>(Clock::now() - began);
  window_ = std::clamp<microseconds>(25 * once, kShortest, kLongest);
  return true;
}

double LayerProbe::quick_check() { return ns_per_byte(window()); }

double LayerProbe::measure() {
  Work all = window();
  const double first = ns_per_byte(all);
  for (int windows = 1; windows < kWindows; ++windows) {
    const Work next = window();
    all.repetitions += next.repetitions;
    all.took += next.took;
    const double second = ns_per_byte(next);
    if (windows == 1 && std::max(first, second) <= kAgreement * std::min(first, second)) break;
  }
  return ns_per_byte(all);
}

double LayerProbe::width_multiple(int rows) {
  Work one, wide;
  for (int windows = 0; windows < 2; ++windows) {
    for (auto [work, width] : {std::pair(&one, 1), std::pair(&wide, rows)}) {
      const Work next = window(width);
      work->repetitions += next.repetitions;
      work->took += next.took;
    }
  }
  return ns_per_byte(wide) / ns_per_byte(one);
}

LayerProbe::Work LayerProbe::window(int rows) {
  const auto began = Clock::now();
  Work work;
  do {
    compute(rows);
    ++work.repetitions;
    work.took = Clock::now() - began;
  } while (work.took < window_);
  return work;
}

double LayerProbe::ns_per_byte(const Work& work) const {
  return std::chrono::duration<double, std::nano>(work.took).count() / (work.repetitions * bytes_);
}

void LayerProbe::compute(int rows) {
  // The same places again and again: the tokens before give way.
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
