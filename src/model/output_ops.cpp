// The output norm, and logits.
#include <algorithm>
#include <limits>

#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

void LayerOps::add_output_norm(const WeightSet& w, float* x, std::int64_t rows, bool whole, float* out) {
  if (h_.layer.streams > 0) return add_mix(output_streams(w), x, rows, out);
  const NormWeights norm{h_.output_norm(), w.vector(kOutputNorm), w.vector(kOutputNormBias)};
  if (norm.kind == NormKind::kLayer) return add_norm(norm, x, rows, whole, out);
  LinearOp alone = residual_input(x, rows, norm.weight, whole);  // a product without a matrix: only its input is used
  alone.input = out;
  ops_.push_back(alone);
}

void LayerOps::add_logits(const WeightSet& w, float* x, std::int64_t rows) {
  LinearOp output = residual_input(x, rows, w.vector(kOutputNorm), false);
  if (h_.output_norm() == NormKind::kLayer || h_.layer.streams > 0) {
    float* normed = h_.layer.streams > 0 ? buffers_.normed.data() : x;
    add_output_norm(w, x, rows, false, normed);
    output = {.x = normed, .rows = rows, .cols = h_.dim, .parts = {}, .add = false};
  }
  output.parts[0] = {
      .weight = &w.matrix(kOutput), .y = buffers_.logits.data(), .bias = own_part(w.vector(kOutputBias), Extent::kVocabulary)};
  ops_.push_back(output);
  const std::int64_t here = shard_.rows(Extent::kVocabulary).count();
  if (h_.logit_scale != 1 || h_.logit_softcap != 0)
    ops_.push_back(ScaleOp{.x = buffers_.logits.data(), .n = rows * here, .scale = h_.logit_scale, .cap = h_.logit_softcap});
  if (!h_.suppressed.empty()) suppress_tokens(rows);
}

void LayerOps::suppress_tokens(std::int64_t rows) {
  const Interval here = shard_.rows(Extent::kVocabulary);
  float* added = buffers_.suppressed.data();
  std::fill_n(added, here.count(), 0.0f);
  for (const std::int32_t token : h_.suppressed) {
    if (token >= here.begin && token < here.end) added[token - here.begin] = -std::numeric_limits<float>::infinity();
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    ops_.push_back(AddOp{.to = buffers_.logits.data() + row * here.count(),
                         .from = added,
                         .rows = 1,
                         .cols = here.count(),
                         .to_stride = here.count(),
                         .from_stride = here.count()});
  }
}

}  // namespace yamata
