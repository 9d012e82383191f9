#include "src/model/transformer_stage.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace yamata {

TransformerStage::TransformerStage(const gguf::File& file, const Hyperparameters& h, LayerRange range, const ContextOptions& options,
                                   ComputeUnit& unit)
    : file_(file),
      h_(h),
      range_(range),
      weights_(StageWeights::find(file, h, range)),
      buffers_(StageBuffers::of(h, range)),
      rope_(h, weights_.rest.vector(TensorRole::kRopeFactors)),
      cells_(options.cells, options.sequences),
      store_(unit, static_cast<int>(range.count()), static_cast<int>(h.kv_heads), static_cast<int>(h.head_dim), options.cells,
             options.cache_types),
      unit_(unit),
      packs_(options.pack),
      angles_(unit),
      x_(unit),
      h_norm_(unit),
      q_(unit),
      k_(unit),
      v_(unit),
      attention_(unit),
      gate_(unit),
      up_(unit),
      chosen_(unit),
      logits_(unit),
      feature_inputs_(unit),
      features_(unit),
      tensors_(stage_tensors(file, h, range)) {
  for (int layer = 0; layer < range.count(); ++layer) {
    for (int head = 0; head < h.kv_heads; ++head) {
      cache_k_.push_back(store_.k(layer, head));
      cache_v_.push_back(store_.v(layer, head));
    }
  }
}

TransformerStage::~TransformerStage() {
  while (!unit_.finished()) {
    try {
      unit_.wait_for(std::chrono::seconds(1));
    } catch (...) {  // a fault of a run whose results nobody will read
    }
  }
}

void TransformerStage::reserve(std::size_t rows, std::size_t logit_rows) {
  const auto grow = [](FloatBuffer& buffer, std::size_t n, std::int64_t width) { buffer.reserve(n * static_cast<std::size_t>(width)); };
  grow(x_, rows, buffers_.residual);
  grow(h_norm_, rows, buffers_.normed);
  grow(q_, rows, buffers_.q);
  grow(k_, rows, buffers_.k);
  grow(v_, rows, buffers_.v);
  grow(attention_, rows, buffers_.attention);
  grow(gate_, rows, buffers_.gate);
  grow(up_, rows, buffers_.up);
  grow(angles_, rows, buffers_.angles);
  grow(chosen_, logit_rows, buffers_.chosen);
  grow(logits_, logit_rows, buffers_.logits);
}

/// Sets aside memory for the weights that are packed, and packs them as the first part of the load.
void TransformerStage::pack() {
  constexpr std::size_t kAlignment = 64;
  const std::vector<Matrix*> matrices = weights_.factors();
  std::vector<std::size_t> at;
  std::size_t bytes = 0;
  for (const Matrix* m : matrices) {
    at.push_back(bytes);
    bytes += (unit_.packed_bytes(*m) + kAlignment - 1) / kAlignment * kAlignment;
  }
  packed_ = PageMemory(bytes);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    Matrix& m = *matrices[i];
    if (unit_.packed_bytes(m) == 0) continue;
    m.packed = packed_.data() + at[i];
    ops_.push_back(PackOp{&m, packed_.data() + at[i]});
    std::erase_if(tensors_, [&](const auto& tensor) {
      return tensor.data() == m.data && weights_.rest.matrix(TensorRole::kEmbedding).data != m.data;
    });
  }
  packs_ = false;
  file_is_read_ = true;
}

void TransformerStage::load(const std::atomic<bool>* stop) {
  constexpr std::size_t kStep = 16u << 20;
  ops_.clear();
  if (packs_) pack();
  for (const auto& tensor : tensors_) {
    for (std::size_t at = 0; at < tensor.size(); at += kStep)
      ops_.push_back(ReadOp{tensor.subspan(at, std::min(kStep, tensor.size() - at))});
  }
  load_steps_ = ops_.size();
  unit_.start(ops_, stop);
}

void TransformerStage::start(const StageBatch& batch, const std::atomic<bool>* stop) {
  if (std::exchange(file_is_read_, false)) file_.release_pages();
  rows_ = batch.placements.size();
  logit_rows_.assign(batch.logit_rows.begin(), batch.logit_rows.end());
  feature_rows_.assign(batch.feature_rows.begin(), batch.feature_rows.end());
  reserve(rows_, last() ? logit_rows_.size() : 0);
  place(batch);
  build(batch);
  unit_.start(ops_, stop);
}

void TransformerStage::place(const StageBatch& batch) {
  cells_.place(batch.placements, batch_cells_);
  visible_.clear();
  for (std::size_t i = 0; i < rows_; ++i) {
    visible_.push_back(batch_cells_.visible(i));
    rope_.angles(batch.placements[i].position, angles_.data() + i * static_cast<std::size_t>(h_.rotary_dim));
  }
}

void TransformerStage::build(const StageBatch& batch) {
  ops_.clear();
  if (first()) {
    ops_.push_back(EmbedOp{&weights_.rest.matrix(TensorRole::kEmbedding), batch.tokens, x_.data()});
  } else {
    std::copy(batch.activations.begin(), batch.activations.end(), x_.data());
  }
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) build_layer(layer, static_cast<std::int64_t>(rows_));
  if (last() && !logit_rows_.empty()) build_output();
  if (last() && !feature_rows_.empty()) build_features();
}

void TransformerStage::build_layer(std::size_t layer, std::int64_t rows) {
  using enum TensorRole;
  const LayerSpec& spec = weights_.specs[layer];
  const WeightSet& w = weights_.layers[layer];
  const auto part = [&](TensorRole role, const FloatBuffer& y) { return LinearOp::Part{&w.matrix(role), y.data()}; };
  const TensorType k_type = tensor_type(store_.types().k), v_type = tensor_type(store_.types().v);
  const float scale = 1.0f / std::sqrt(static_cast<float>(h_.head_dim));
  void* const* cache_k = cache_k_.data() + layer * static_cast<std::size_t>(h_.kv_heads);
  void* const* cache_v = cache_v_.data() + layer * static_cast<std::size_t>(h_.kv_heads);
  ops_.push_back(LinearOp{.x = x_.data(),
                          .rows = rows,
                          .cols = h_.dim,
                          .parts = {{part(kQ, q_), part(kK, k_), part(kV, v_)}},
                          .add = false,
                          .norm = w.vector(kAttentionNorm),
                          .epsilon = h_.epsilon,
                          .input = h_norm_.data()});
  ops_.push_back(StoreOp{.q = q_.data(),
                         .k = k_.data(),
                         .v = v_.data(),
                         .rows = rows,
                         .q_heads = h_.heads,
                         .kv_heads = h_.kv_heads,
                         .head_dim = h_.head_dim,
                         .rotary_dim = h_.rotary_dim,
                         .interleaved = spec.rope == RopeKind::kInterleaved,
                         .cos_sin = angles_.data(),
                         .cells = batch_cells_.cells().data(),
                         .cache_k = cache_k,
                         .cache_v = cache_v,
                         .k_type = k_type,
                         .v_type = v_type});
  ops_.push_back(AttentionOp{.q = q_.data(),
                             .rows = rows,
                             .q_heads = h_.heads,
                             .kv_heads = h_.kv_heads,
                             .head_dim = h_.head_dim,
                             .scale = scale,
                             .visible = visible_.data(),
                             .cache_k = cache_k,
                             .cache_v = cache_v,
                             .k_type = k_type,
                             .v_type = v_type,
                             .out = attention_.data()});
  ops_.push_back(
      LinearOp{.x = attention_.data(), .rows = rows, .cols = h_.heads * h_.head_dim, .parts = {{part(kO, x_), {}, {}}}, .add = true});
  build_feed_forward(w, rows);
}

void TransformerStage::build_feed_forward(const WeightSet& w, std::int64_t rows) {
  using enum TensorRole;
  const auto part = [&](TensorRole role, const FloatBuffer& y) { return LinearOp::Part{&w.matrix(role), y.data()}; };
  ops_.push_back(LinearOp{.x = x_.data(),
                          .rows = rows,
                          .cols = h_.dim,
                          .parts = {{part(kGate, gate_), part(kUp, up_), {}}},
                          .add = false,
                          .norm = w.vector(kFfnNorm),
                          .epsilon = h_.epsilon,
                          .input = h_norm_.data()});
  ops_.push_back(LinearOp{.x = gate_.data(),
                          .rows = rows,
                          .cols = h_.ffn,
                          .parts = {{part(kDown, x_), {}, {}}},
                          .add = true,
                          .up = up_.data(),
                          .input = gate_.data()});
}

void TransformerStage::build_output() {
  const auto rows = static_cast<std::int64_t>(logit_rows_.size());
  ops_.push_back(GatherOp{x_.data(), h_.dim, logit_rows_, chosen_.data()});
  ops_.push_back(LinearOp{.x = chosen_.data(),
                          .rows = rows,
                          .cols = h_.dim,
                          .parts = {{{&weights_.rest.matrix(TensorRole::kOutput), logits_.data()}, {}, {}}},
                          .add = false,
                          .norm = weights_.rest.vector(TensorRole::kOutputNorm),
                          .epsilon = h_.epsilon,
                          .input = h_norm_.data()});
}

std::size_t TransformerStage::buffer_bytes() const {
  std::size_t floats = 0;
  for (const auto* buffer : {&x_, &h_norm_, &q_, &k_, &v_, &attention_, &gate_, &up_, &angles_, &chosen_, &logits_})
    floats += buffer->size();
  return floats * sizeof(float);
}

/// A product with no matrix: its input is what is wanted.
void TransformerStage::build_features() {
  const std::size_t floats = feature_rows_.size() * static_cast<std::size_t>(h_.dim);
  feature_inputs_.reserve(floats);
  features_.reserve(floats);
  ops_.push_back(GatherOp{x_.data(), h_.dim, feature_rows_, feature_inputs_.data()});
  ops_.push_back(LinearOp{.x = feature_inputs_.data(),
                          .rows = static_cast<std::int64_t>(feature_rows_.size()),
                          .cols = h_.dim,
                          .parts = {},
                          .add = false,
                          .norm = weights_.rest.vector(TensorRole::kOutputNorm),
                          .epsilon = h_.epsilon,
                          .input = features_.data()});
}

std::span<const float> TransformerStage::features() const {
  return {features_.data(), feature_rows_.size() * static_cast<std::size_t>(h_.dim)};
}

std::span<const float> TransformerStage::activations() const { return {x_.data(), rows_ * static_cast<std::size_t>(h_.dim)}; }

std::span<const float> TransformerStage::logits() const {
  return {logits_.data(), logit_rows_.size() * static_cast<std::size_t>(h_.vocabulary)};
}

}  // namespace yamata
