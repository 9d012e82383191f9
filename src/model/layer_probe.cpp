#include "src/model/layer_probe.hpp"

#include <algorithm>

namespace yamata {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr ContextOptions kOneToken{2, 1, CacheType::kF16};
constexpr microseconds kGlance{10000};  // two periods of the shortest quotas in use
constexpr microseconds kLongest{100000};

}  // namespace

LayerProbe::LayerProbe(const ModelFile& model, std::int64_t layer, ComputeUnit& unit)
    : unit_(unit),
      stage_(model.file, model.h, {layer, layer + 1}, kOneToken, unit),
      bytes_(static_cast<double>(layer_bytes(model.file, layer))),
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
  once_ = std::chrono::duration_cast<microseconds>(Clock::now() - began);
  return true;
}

double LayerProbe::glance() { return repeat(1, kGlance); }

double LayerProbe::measure() { return repeat(5, std::clamp<microseconds>(50 * once_, kGlance, kLongest / 2)); }

double LayerProbe::repeat(int least_repetitions, microseconds least) {
  const auto began = Clock::now();
  int repetitions = 0;
  auto took = Clock::duration::zero();
  do {
    compute();
    ++repetitions;
    took = Clock::now() - began;
  } while ((repetitions < least_repetitions || took < least) && took < kLongest);
  return std::chrono::duration<double, std::nano>(took).count() / (repetitions * bytes_);
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
