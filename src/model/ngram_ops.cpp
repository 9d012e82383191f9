// N-gram embeddings (Qwen3.8-Flash-Next).
#include <cmath>

#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

/// To each stream, a value is added as much as a key is like the stream, and then the convolution of what was added to this stream for this
/// token and earlier ones. Every member of a group computes all of it.
void LayerOps::add_ngrams(const LayerSpec& spec, const WeightSet& w, const LayerCache& cache, std::int64_t rows) {
  const std::int64_t streams = spec.streams, all = h_.residual_dim();
  float *x = buffers_.x.data(), *keys = buffers_.stream_gates.data(), *queries = buffers_.stream_normed.data();
  float *values = buffers_.block.data(), *likeness = buffers_.stream_low.data();
  LinearOp product{.x = buffers_.layer_inputs.data(), .rows = rows, .cols = spec.ngram_dim, .parts = {}, .add = false};
  product.parts[0] = {.weight = &w.matrix(kNgramKey), .y = keys};
  product.parts[1] = {.weight = &w.matrix(kNgramValue), .y = values};
  ops_.push_back(product);
  norm_streams(keys, rows, w.vector(kNgramKeyNorm), keys);
  norm_streams(x, rows, w.vector(kNgramQueryNorm), queries);
  ops_.push_back(LikenessOp{.a = keys,
                            .b = queries,
                            .rows = rows * streams,
                            .cols = h_.dim,
                            .scale = 1.0f / std::sqrt(static_cast<float>(h_.dim)),
                            .out = likeness});
  float *added = keys, *normed = queries;
  ops_.push_back(ResizeOp{values, added, rows * streams, 0, h_.dim});  // zeros
  AddOp gated{.to = added, .from = values, .rows = rows * streams, .cols = h_.dim, .to_stride = h_.dim, .from_stride = h_.dim, .scale = 1};
  gated.gate = likeness, gated.each = streams;
  ops_.push_back(gated);
  const AddOp to_streams{.to = x, .from = added, .rows = rows, .cols = all, .to_stride = all, .from_stride = all, .scale = 1};
  ops_.push_back(to_streams);
  norm_streams(added, rows, w.vector(kNgramConvolutionNorm), normed);
  ops_.push_back(FarConvolutionOp{.x = normed,
                                  .channels = all,
                                  .tap_count = h_.ngrams.taps,
                                  .dilation = h_.ngrams.size,
                                  .taps = w.vector(kNgramTaps),
                                  .plan = cache.plan,
                                  .columns = cache.ngram_columns,
                                  .out = added});
  ops_.push_back(to_streams);
}

}  // namespace yamata
