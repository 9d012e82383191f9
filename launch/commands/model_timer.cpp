#include "launch/commands/model_timer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "node/cpu/kernels/repack.hpp"

namespace yamata {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kShortestSample = std::chrono::milliseconds(30);

double seconds_since(SteadyClock::time_point begin) { return std::chrono::duration<double>(SteadyClock::now() - begin).count(); }

/// The demand of all matrices of experts, or of all other matrices.
RunDemand demand_of_weights(const ModelFile& model, bool experts) {
  RunDemand demand;
  for (const FoundTensor& found : find_tensors(model.file, model.h, {0, model.h.layers})) {
    if (found.rows < 2 || is_looked_up(found.role) || found.of_expert != experts) continue;
    const double operations = 2.0 * static_cast<double>(found.rows) * static_cast<double>(found.cols);
    (cpu::has_panels(found.tensor->type) ? demand.byte_ops : demand.float_ops) += operations;
    demand.bytes += static_cast<double>(found.held_bytes());
  }
  return demand;
}

}  // namespace

double weight_bytes(const ModelFile& model) { return demand_of_weights(model, false).bytes + demand_of_weights(model, true).bytes; }

ModelTimer::ModelTimer(const ModelFile& model, ComputeUnit& unit, const ContextOptions& options)
    : h_(model.h),
      types_(options.cache_types),
      unit_(unit),
      stage_(model.file, model.h, {0, model.h.layers}, options, unit),
      weights_(demand_of_weights(model, false)),
      experts_(demand_of_weights(model, true)) {}

void ModelTimer::load() {
  stage_.load(nullptr);
  wait();
  stage_.touch_cache();
}

double ModelTimer::run(int width, int context) {
  compute(width, context);  // an untimed run: the caches contain the data of other measurements
  int runs = 0;
  const auto began = SteadyClock::now();
  do {
    compute(width, context);
    ++runs;
  } while (SteadyClock::now() - began < kShortestSample);
  return seconds_since(began) / runs;
}

RunDemand ModelTimer::weights() const {
  return {weights_.bytes + experts_.bytes, weights_.byte_ops + experts_.byte_ops, weights_.float_ops + experts_.float_ops};
}

/// Each weight is read once; of experts, as many as are expected to be chosen if tokens choose evenly. Each visible cell of the cache is
/// read once; in layers with a window, only those within it. Each query is multiplied with every cell that it sees. A state is read and
/// written once, and each token decays it, subtracts a product from it, adds one, and reads it.
RunDemand ModelTimer::demand(int width, int context) const {
  const LayerSpec& spec = h_.layer;
  const double used = spec.experts > 0 ? static_cast<double>(spec.experts_used) / static_cast<double>(spec.experts) : 0;
  RunDemand d{weights_.bytes + experts_.bytes * (1 - std::pow(1 - used, width)), width * (weights_.byte_ops + used * experts_.byte_ops),
              width * (weights_.float_ops + used * experts_.float_ops)};
  const LayerRange all{0, h_.layers};
  const std::int64_t windowed = windowed_layers(h_, all), recurrent = recurrent_layers(h_, all);
  const auto state = static_cast<double>(recurrent * h_.state.state_floats());
  d.bytes += 2 * sizeof(float) * state, d.float_ops += 7 * width * state;
  const auto attend = [&](bool windowed, std::int64_t layers, double cells, double seen) {  // `seen`: cells per token, in the mean
    d.bytes += static_cast<double>(cell_bytes(h_, all, Shard(h_), types_, windowed)) * cells;
    d.float_ops += 4.0 * static_cast<double>(layers * h_.heads * h_.of_window(windowed).head_dim) * width * seen;
  };
  const double cells = context + width, seen = context + (width + 1) / 2.0, window = static_cast<double>(spec.window);
  attend(false, attending_layers(h_, all) - windowed, cells, seen);
  attend(true, windowed, std::min(cells, window + width - 1), std::min(seen, window));
  return d;
}

/// Every run has the same positions: it overwrites the tokens of the run before.
void ModelTimer::compute(int width, int context) {
  const auto rows = static_cast<std::size_t>(width);
  if (tokens_.size() != rows || placements_.front().position != context) {
    tokens_.clear(), logit_rows_.clear(), placements_.clear();
    for (int i = 0; i < width; ++i) {
      tokens_.push_back(static_cast<std::int32_t>((1 + 7919 * static_cast<std::int64_t>(i)) % h_.vocabulary));
      logit_rows_.push_back(i);
      placements_.push_back({context + i, -1, {0, 1}});
    }
  }
  stage_.suppose_text(context, {0, 1});
  stage_.start({tokens_, {}, placements_, logit_rows_}, nullptr);
  wait();
}

void ModelTimer::wait() {
  while (!unit_.wait_for(std::chrono::milliseconds(100))) {
  }
}

std::size_t packed_bytes(const ModelFile& model, const ComputeUnit& unit) {
  StageWeights weights = StageWeights::find(model.file, model.h, {0, model.h.layers});
  std::size_t bytes = 0;
  for (const Matrix* m : weights.factors()) bytes += unit.packed_bytes(*m);
  return bytes;
}

}  // namespace yamata
