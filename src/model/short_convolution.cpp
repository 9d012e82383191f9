// Layers with a gated short convolution (LFM2).
#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// For the channels on this rank.
void LayerOps::add_convolution(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, LinearOp input) {
  const StateShape& shape = shard_.state();
  const std::int64_t own = shape.channels();
  const auto part = [&](TensorRole role, std::int64_t before) {
    return LinearOp::Part{.weight = &w.matrix(role), .y = buffers_.convolved.data() + before * own, .stride = 3 * own};
  };
  input.parts = {{part(kConvolutionGate, 0), part(kConvolvedGate, 1), part(kConvolutionInput, 2)}};
  ops_.push_back(input);
  ops_.push_back(GatedConvolutionOp{.x = buffers_.convolved.data(),
                                    .shape = shape,
                                    .taps = w.vector(kConvolutionTaps) + shard_.rows(Extent::kStateValues).begin * shape.taps,
                                    .plan = cache.plan,
                                    .memory = cache.states,
                                    .out = buffers_.attention.data(),
                                    .finished = cache.finished});
  add_state_out(spec, w, input.rows);
}

}  // namespace yamata
