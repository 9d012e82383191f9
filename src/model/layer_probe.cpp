#include "src/model/layer_probe.hpp"

#include <algorithm>

namespace yamata {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

const ContextOptions kOneToken{2, 1, CacheType::kF16};
constexpr microseconds kShortest{10000};  // two periods of the shortest quotas in use
constexpr microseconds kLongest{25000};
constexpr int kWindows = 6;
constexpr double kAgreement = 1.25;

}  // namespace

LayerProbe::LayerProbe(const ModelFile& model, std::int64_t layer, ComputeUnit& unit)
    : unit_(unit),
      stage_(model.file, model.h, {layer, layer + 1}, kOneToken, unit),
      bytes_(static_cast<double>(layer_bytes(model.file, model.h, layer))),
      activations_(static_cast<std::size_t>(model.h.dim), 1.0f) {}

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

LayerProbe::Work LayerProbe::window() {
  const auto began = Clock::now();
  Work work;
  do {
    compute();
    ++work.repetitions;
    work.took = Clock::now() - began;
  } while (work.took < window_);
  return work;
}

double LayerProbe::ns_per_byte(const Work& work) const {
  return std::chrono::duration<double, std::nano>(work.took).count() / (work.repetitions * bytes_);
}

void LayerProbe::compute() {
  // The same place again and again: the token before gives way.
  static const std::vector<std::int32_t> kTokens{0};
  static const std::vector<Placement> kPlacements{{0, -1, {0, 1}}};
  stage_.start({kTokens, activations_, kPlacements, {}}, nullptr);
  wait();
}

void LayerProbe::wait() {
  while (!unit_.wait_for(std::chrono::milliseconds(100))) {
  }
}

}  // namespace yamata
