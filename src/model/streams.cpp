// Hyper-connections (Zhu et al., section 2): the residual stream of a token is several streams, [streams][dim]. Every member of a group has
// all of them, and computes the mixes whole; only what blocks write is exchanged.
#include "src/model/layer_ops.hpp"

namespace yamata {

using enum TensorRole;

LayerOps::StreamWeights LayerOps::attention_streams(const WeightSet& w) {
  return {w.vector(kAttentionStreamNorm), &w.matrix(kAttentionStreamDown), &w.matrix(kAttentionStreamUp),
          &w.matrix(kAttentionStreamWeights)};
}

LayerOps::StreamWeights LayerOps::ffn_streams(const WeightSet& w) {
  return {w.vector(kFfnStreamNorm), &w.matrix(kFfnStreamDown), &w.matrix(kFfnStreamUp), &w.matrix(kFfnStreamWeights)};
}

LayerOps::StreamWeights LayerOps::output_streams(const WeightSet& w) {
  return {w.vector(kOutputStreamNorm), &w.matrix(kOutputStreamDown), &w.matrix(kOutputStreamUp), nullptr};
}

void LayerOps::number_streams(std::int64_t rows) {
  auto* numbers = reinterpret_cast<std::int32_t*>(buffers_.stream_numbers.data());
  for (std::int64_t i = 0; i < rows * h_.layer.streams; ++i) numbers[i] = static_cast<std::int32_t>(i);
}

/// A norm of each stream, with weights of its own.
void LayerOps::norm_streams(const float* x, std::int64_t rows, const float* weight, float* out) {
  ops_.push_back(NormOp{.x = x,
                        .rows = rows * h_.layer.streams,
                        .cols = h_.dim,
                        .x_stride = h_.dim,
                        .weight = weight,
                        .epsilon = h_.epsilon,
                        .out = out,
                        .out_cols = h_.dim,
                        .out_stride = h_.dim,
                        .weight_rows = h_.layer.streams});
}

/// As a sum over experts, of which each row has all.
void LayerOps::add_stream_mean(const float* x, std::int64_t rows, float* out) {
  const std::int64_t streams = h_.layer.streams;
  ops_.push_back(ResizeOp{x, out, rows, 0, h_.dim});  // zeros
  ops_.push_back(
      AddOp{.to = out,
            .from = x,
            .rows = rows,
            .cols = h_.dim,
            .to_stride = h_.dim,
            .from_stride = h_.dim,
            .scale = 1.0f / static_cast<float>(streams),
            .experts = {.experts = streams, .used = streams, .pairs = reinterpret_cast<std::int32_t*>(buffers_.stream_numbers.data())},
            .weighted = false});
}

/// The mean of the normalized streams, each value multiplied by a gate, which is made of all of them by way of a short vector. With
/// `weights`, also the weights with which what the block writes is added to the streams, behind the short vectors of all rows.
void LayerOps::add_mix(const StreamWeights& s, const float* x, std::int64_t rows, float* out) {
  constexpr std::int64_t kPiece = 32;  // of which gates are divided
  const std::int64_t streams = h_.layer.streams, all = h_.residual_dim(), rank = h_.layer.stream_rank;
  float *normed = buffers_.stream_normed.data(), *low = buffers_.stream_low.data(), *gates = buffers_.stream_gates.data();
  norm_streams(x, rows, s.norm, normed);
  LinearOp down{.x = normed, .rows = rows, .cols = all, .parts = {}, .add = false};
  down.parts[0] = {.weight = s.down, .y = low};
  if (s.weights) down.parts[1] = {.weight = s.weights, .y = low + rows * rank};
  ops_.push_back(down);
  ops_.push_back(ScaleOp{.x = low, .n = rows * (s.weights ? rank + streams : rank), .scale = 1.0f / static_cast<float>(streams)});
  LinearOp up{.x = low, .rows = rows, .cols = rank, .parts = {}, .add = false, .input = low, .activation = Activation::kSilu};
  up.parts[0] = {.weight = s.up, .y = gates};
  ops_.push_back(up);
  ops_.push_back(
      HeadGateOp{.x = normed, .rows = rows, .heads = all / kPiece, .dim = kPiece, .gate = gates, .gate_row = all, .gate_head = kPiece});
  add_stream_mean(normed, rows, out);
}

/// A mix as the input of products.
LinearOp LayerOps::mixed_input(const StreamWeights& s, std::int64_t rows) {
  add_mix(s, buffers_.x.data(), rows, buffers_.normed.data());
  return {.x = buffers_.normed.data(), .rows = rows, .cols = h_.dim, .parts = {}, .add = false};
}

/// Where a block writes its own columns.
float* LayerOps::block_columns() const { return buffers_.block.data() + shard_.rows(Extent::kDim).begin; }

/// Adds what a block has written to each stream, times 2 sigmoid(the stream's weight).
void LayerOps::add_block(std::int64_t rows) {
  const std::int64_t streams = h_.layer.streams;
  float* block = buffers_.block.data();
  if (!shard_.whole()) ops_.push_back(AllGatherOp{block, rows, h_.dim, shared(shard_.residual())});
  ops_.push_back(AddOp{.to = buffers_.x.data(),
                       .from = block,
                       .rows = rows * streams,
                       .cols = h_.dim,
                       .to_stride = h_.dim,
                       .from_stride = h_.dim,
                       .scale = 2,
                       .gate = buffers_.stream_low.data() + rows * h_.layer.stream_rank,
                       .each = streams});
}

void LayerOps::add_feed_forward_of_streams(const LayerSpec& spec, const WeightSet& w, std::int64_t rows) {
  const LinearOp input = mixed_input(ffn_streams(w), rows);
  if (spec.experts == 0) return add_dense(spec, w, input, rows);
  ops_.push_back(ResizeOp{input.x, buffers_.block.data(), rows, 0, h_.dim});  // zeros
  add_experts(spec, w, rows);
  if (spec.shared_ffn > 0) add_shared_expert(spec, w, rows);
  add_block(rows);
}

}  // namespace yamata
