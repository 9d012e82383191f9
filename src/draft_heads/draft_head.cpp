#include "src/draft_heads/draft_head.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace yamata::draft_heads {
namespace {

/// The metadata that Rope reads.
Rope make_rope(const DraftHeadShape& shape) {
  Hyperparameters h;
  h.rotary_dim = shape.head_dim;
  LayerSpec spec;
  spec.rope_base = shape.rope_base;
  return {h, spec, nullptr};
}

}  // namespace

DraftHead::DraftHead(const CheckedTensors& tensors, Kind kind, const ContextOptions& context, MatrixType matrices, ComputeUnit& unit)
    : DraftHeadsStage(tensors.target(), context, matrices, unit),
      shape_(DraftHeadShape::find(tensors, kind)),
      rope_(make_rope(shape_)),
      store_(unit, {static_cast<int>(shape_.blocks.size()), static_cast<int>(shape_.kv_heads), static_cast<int>(shape_.head_dim)},
             context.cells, context.cache_types),
      hidden_(context.cells, shape_.dim),
      x_(unit),
      embedded_(unit),
      given_(unit),
      normed_(unit),
      input_(unit),
      angles_(unit),
      q_(unit),
      k_(unit),
      v_(unit),
      attention_(unit),
      gate_(unit),
      up_(unit),
      chosen_(unit),
      outputs_(unit) {
  take_weights();
  for (int block = 0; block < static_cast<int>(blocks_.size()); ++block) {
    for (int head = 0; head < shape_.kv_heads; ++head) {
      cache_k_.push_back(store_.k(block, head));
      cache_v_.push_back(store_.v(block, head));
    }
  }
}

void DraftHead::take_weights() {
  const auto vector = [&](const TensorView* tensor) { return tensor ? weights_.vector(*tensor) : nullptr; };
  const std::int64_t dim = shape_.dim;
  embedding_ = shape_.embedding ? *weights_.table(*shape_.embedding) : target_embedding();
  output_ = shape_.output ? weights_.matrix(*shape_.output) : weights_.foreign(target_output());
  switch (shape_.kind) {
    case Kind::kDgf:
      fc_hidden_ = weights_.transposed(*shape_.w1, 0, dim);
      fc_embedding_ = weights_.transposed(*shape_.w2, 0, dim);
      gate_hidden_ = weights_.transposed(*shape_.wz, 0, dim);
      gate_embedding_ = weights_.transposed(*shape_.wz, dim, 2 * dim);
      break;
    case Kind::kEagle3:
      fc_hidden_ = weights_.matrix(*shape_.fc);
      break;
    default:
      fc_embedding_ = weights_.matrix(*shape_.fc, 0, dim);
      fc_hidden_ = weights_.matrix(*shape_.fc, dim, 2 * dim);
  }
  fc_bias_ = vector(shape_.fc_bias);
  fc_norm_ = vector(shape_.fc_norm);
  embedding_norm_ = vector(shape_.embedding_norm);
  norm_ = vector(shape_.norm);
  for (const BlockTensors& block : shape_.blocks) blocks_.push_back(take_block(block));
}

/// EAGLE-3's queries, keys and values read an embedding and a hidden state side by side, with one matrix for each.
DraftHead::Block DraftHead::take_block(const BlockTensors& from) {
  const bool wide = from.hidden_norm != nullptr;
  const std::int64_t dim = shape_.dim;
  const auto vector = [&](const TensorView* tensor) { return tensor ? weights_.vector(*tensor) : nullptr; };
  const auto first = [&](const TensorView* tensor) { return weights_.matrix(*tensor, 0, wide ? dim : 0); };
  const auto second = [&](const TensorView* tensor) { return wide ? weights_.matrix(*tensor, dim, 2 * dim) : nullptr; };
  return {.attention_norm = vector(from.attention_norm),
          .hidden_norm = vector(from.hidden_norm),
          .ffn_norm = vector(from.ffn_norm),
          .q = first(from.q),
          .k = first(from.k),
          .v = first(from.v),
          .o = weights_.matrix(*from.o),
          .gate = weights_.matrix(*from.gate),
          .up = weights_.matrix(*from.up),
          .down = weights_.matrix(*from.down),
          .hidden_q = second(from.q),
          .hidden_k = second(from.k),
          .hidden_v = second(from.v)};
}

void DraftHead::reserve(std::size_t rows, std::size_t logit_rows) {
  const auto grow = [](FloatBuffer& buffer, std::size_t n, std::int64_t width) { buffer.reserve(n * static_cast<std::size_t>(width)); };
  for (FloatBuffer* buffer : {&x_, &embedded_, &normed_}) grow(*buffer, rows, shape_.dim);
  grow(given_, rows, std::max(shape_.dim, shape_.features));
  grow(input_, rows, std::max({shape_.dim, shape_.features, shape_.ffn}));
  grow(angles_, rows, shape_.head_dim);
  for (FloatBuffer* buffer : {&q_, &attention_}) grow(*buffer, rows, shape_.heads * shape_.head_dim);
  for (FloatBuffer* buffer : {&k_, &v_}) grow(*buffer, rows, shape_.kv_heads * shape_.head_dim);
  for (FloatBuffer* buffer : {&gate_, &up_}) grow(*buffer, rows, shape_.ffn);
  grow(chosen_, logit_rows, shape_.dim);
  grow(outputs_, logit_rows, shape_.output_rows);
}

void DraftHead::build(const StageBatch& batch) {
  hidden_.keep(x_.data(), batch_cells_.cells());
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  logit_rows_.assign(batch.logit_rows.begin(), batch.logit_rows.end());
  rows_ = static_cast<std::int64_t>(tokens_.size());
  reserve(tokens_.size(), logit_rows_.size());
  give_hidden(batch, hidden_, given_.data());
  visible_.clear();
  for (std::size_t row = 0; row < tokens_.size(); ++row) {
    visible_.push_back(batch_cells_.visible(row));
    rope_.angles(batch.placements[row].position, angles_.data() + row * static_cast<std::size_t>(shape_.head_dim));
  }
  ops_.push_back(EmbedOp{&embedding_, tokens_, embedded_.data()});
  build_fusion(batch);
  for (std::size_t block = 0; block < blocks_.size(); ++block) build_block(block);
  if (!logit_rows_.empty()) build_output();
}

LinearOp DraftHead::linear(const float* x, const float* norm, std::int64_t cols) {
  return {.x = x,
          .rows = rows_,
          .cols = cols > 0 ? cols : shape_.dim,
          .parts = {},
          .add = false,
          .norm = norm,
          .epsilon = shape_.epsilon,
          .input = norm ? input_.data() : nullptr};
}

/// Combines a token's embedding and the hidden state before it in x_.
void DraftHead::build_fusion(const StageBatch& batch) {
  const auto add = [&](LinearOp op, const Matrix* weight, float* y, bool sum) {
    op.parts[0] = {weight, y};
    op.add = sum;
    ops_.push_back(op);
  };
  switch (shape_.kind) {
    case Kind::kDgf:
      add(linear(given_.data()), fc_hidden_, normed_.data(), false);
      add(linear(embedded_.data(), embedding_norm_), fc_embedding_, x_.data(), false);
      return build_gate();
    case Kind::kEagle3:
      if (batch.features.empty()) {
        std::copy_n(given_.data(), rows_ * shape_.dim, x_.data());
      } else {
        add(linear(given_.data(), fc_norm_, shape_.features), fc_hidden_, x_.data(), false);
      }
      return;
    default:
      add(linear(embedded_.data()), fc_embedding_, x_.data(), false);
      add(linear(given_.data()), fc_hidden_, x_.data(), true);
      std::get<LinearOp>(ops_.back()).parts[0].bias = fc_bias_;
  }
}

/// Dynamic gating fusion: with h1 in normed_ and what becomes h2 in x_, x_ = h2 + z (h1 - h2), where z = sigmoid([h1, h2] W_z).
void DraftHead::build_gate() {
  const std::int64_t count = rows_ * shape_.dim;
  float *const h1 = normed_.data(), *const h2 = x_.data(), *const z = embedded_.data();
  LinearOp silu = linear(h2);  // no product: only its activated input is used
  silu.input = h2;
  silu.activation = Activation::kSilu;
  ops_.push_back(silu);
  LinearOp first = linear(h1), second = linear(h2);
  first.parts[0] = {gate_hidden_, z};
  second.parts[0] = {gate_embedding_, z};
  second.add = true;
  ops_.push_back(first);
  ops_.push_back(second);
  ops_.push_back(AddOp{.to = h1, .from = h2, .rows = 1, .cols = count, .to_stride = count, .from_stride = count, .scale = -1});
  ops_.push_back(AddOp{.to = h2, .from = h1, .rows = count, .cols = 1, .to_stride = 1, .from_stride = 1, .gate = z});  // one gate per value
}

void DraftHead::build_block(std::size_t index) {
  const Block& block = blocks_[index];
  const bool wide = block.hidden_norm != nullptr;
  LinearOp qkv = linear(wide ? embedded_.data() : x_.data(), block.attention_norm);
  qkv.parts = {{{block.q, q_.data()}, {block.k, k_.data()}, {block.v, v_.data()}}};
  ops_.push_back(qkv);
  if (wide) {
    LinearOp hidden = linear(x_.data(), block.hidden_norm);
    hidden.parts = {{{block.hidden_q, q_.data()}, {block.hidden_k, k_.data()}, {block.hidden_v, v_.data()}}};
    hidden.add = true;
    ops_.push_back(hidden);
  }
  if (wide && shape_.norm_before_residual) {
    ops_.push_back(NormOp{.x = x_.data(),
                          .rows = rows_,
                          .cols = shape_.dim,
                          .x_stride = shape_.dim,
                          .weight = block.hidden_norm,
                          .epsilon = shape_.epsilon,
                          .out = x_.data(),
                          .out_cols = shape_.dim,
                          .out_stride = shape_.dim});
  }
  build_attention(index);
  LinearOp o = linear(attention_.data(), nullptr, shape_.heads * shape_.head_dim);
  o.parts[0] = {block.o, x_.data()};
  o.add = true;
  ops_.push_back(o);
  build_feed_forward(block);
}

void DraftHead::build_attention(std::size_t index) {
  const TensorType k_type = tensor_type(store_.types().k), v_type = tensor_type(store_.types().v);
  void* const* cache_k = cache_k_.data() + index * static_cast<std::size_t>(shape_.kv_heads);
  void* const* cache_v = cache_v_.data() + index * static_cast<std::size_t>(shape_.kv_heads);
  ops_.push_back(StoreOp{.q = q_.data(),
                         .k = k_.data(),
                         .v = v_.data(),
                         .rows = rows_,
                         .q_heads = shape_.heads,
                         .kv_heads = shape_.kv_heads,
                         .head_dim = shape_.head_dim,
                         .rotary_dim = shape_.head_dim,
                         .interleaved = shape_.interleaved,
                         .cos_sin = angles_.data(),
                         .cells = batch_cells_.cells().data(),
                         .cache_k = cache_k,
                         .cache_v = cache_v,
                         .k_type = k_type,
                         .v_type = v_type});
  ops_.push_back(AttentionOp{.q = q_.data(),
                             .rows = rows_,
                             .q_heads = shape_.heads,
                             .kv_heads = shape_.kv_heads,
                             .head_dim = shape_.head_dim,
                             .scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)),
                             .visible = visible_.data(),
                             .cache_k = cache_k,
                             .cache_v = cache_v,
                             .k_type = k_type,
                             .v_type = v_type,
                             .out = attention_.data()});
}

void DraftHead::build_feed_forward(const Block& block) {
  LinearOp gate = linear(x_.data(), block.ffn_norm);
  gate.parts = {{{block.gate, gate_.data()}, {block.up, up_.data()}, {}}};
  ops_.push_back(gate);
  LinearOp down = linear(gate_.data(), nullptr, shape_.ffn);
  down.up = up_.data();
  down.activation = Activation::kSilu;
  down.input = gate_.data();
  down.parts[0] = {block.down, x_.data()};
  down.add = true;
  ops_.push_back(down);
}

void DraftHead::build_output() {
  ops_.push_back(GatherOp{x_.data(), shape_.dim, logit_rows_, chosen_.data()});
  LinearOp output = linear(chosen_.data(), norm_);
  output.rows = static_cast<std::int64_t>(logit_rows_.size());
  output.parts[0] = {output_, outputs_.data()};
  ops_.push_back(output);
}

/// For the whole vocabulary: tokens that the head does not know are never guessed.
std::span<const float> DraftHead::logits() const {
  if (shape_.tokens.empty()) return known_logits();
  const std::size_t rows = logit_rows_.size(), known = static_cast<std::size_t>(shape_.output_rows);
  const auto all = static_cast<std::size_t>(vocabulary());
  logits_.assign(rows * all, -std::numeric_limits<float>::infinity());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < known; ++i)
      logits_[row * all + static_cast<std::size_t>(shape_.tokens[i])] = outputs_.data()[row * known + i];
  }
  return logits_;
}

}  // namespace yamata::draft_heads
