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
      shard_(h, options.group.shares, options.group.member),
      exchange_(options.group.exchange),
      weights_(StageWeights::find(file, h, range, shard_)),
      buffers_(StageBuffers::of(h, range, shard_)),
      rope_(h, weights_.rest.vector(TensorRole::kRopeFactors)),
      cells_(options.cells, options.sequences),
      store_(unit, static_cast<int>(range.count()), static_cast<int>(shard_.kv_heads()), static_cast<int>(h.head_dim), options.cells,
             options.cache_types),
      unit_(unit),
      packs_(options.pack),
      angles_(unit),
      x_(unit),
      input_(unit),
      q_(unit),
      k_(unit),
      v_(unit),
      attention_(unit),
      gate_(unit),
      up_(unit),
      chosen_(unit),
      logits_(unit),
      features_(unit),
      feature_inputs_(unit),
      tensors_(stage_tensors(file, h, range, shard_)) {
  for (int layer = 0; layer < range.count(); ++layer) {
    for (int head = 0; head < shard_.kv_heads(); ++head) {
      cache_k_.push_back(store_.k(layer, head));
      cache_v_.push_back(store_.v(layer, head));
    }
  }
}

TransformerStage::~TransformerStage() {
  if (!unit_.finished()) abandon_group();
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
  grow(input_, rows, buffers_.input);
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
  begin_features(batch);
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
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    build_layer_features(layer);
    build_layer(layer, static_cast<std::int64_t>(rows_));
  }
  if (!last() && !shard_.whole())
    ops_.push_back(AllGatherOp{x_.data(), static_cast<std::int64_t>(rows_), h_.dim, shared(shard_.residual())});
  if (last() && !logit_rows_.empty()) build_output();
  build_output_features();
}

/// A norm of the residual stream, to be multiplied with. `whole`: all of it is here.
LinearOp TransformerStage::residual_input(float* x, std::int64_t rows, const float* norm, bool whole) const {
  const SharedColumns share = whole ? SharedColumns{} : shared(shard_.residual());
  return {.x = x + share.begin(),
          .rows = rows,
          .cols = h_.dim,
          .parts = {},
          .add = false,
          .norm = norm,
          .epsilon = h_.epsilon,
          .input = input_.data(),
          .x_stride = h_.dim,
          .share = share};
}

/// Where a product is added to the residual stream.
LinearOp::Part TransformerStage::residual_output(const Matrix& weight) const {
  return {&weight, x_.data() + shard_.rows(Extent::kDim).begin, h_.dim};
}

void TransformerStage::build_layer(std::size_t layer, std::int64_t rows) {
  using enum TensorRole;
  const WeightSet& w = weights_.layers[layer];
  const auto part = [&](TensorRole role, const FloatBuffer& y) { return LinearOp::Part{&w.matrix(role), y.data()}; };
  LinearOp qkv = residual_input(x_.data(), rows, w.vector(kAttentionNorm), layer == 0);
  qkv.parts = {{part(kQ, q_), part(kK, k_), part(kV, v_)}};
  ops_.push_back(qkv);
  build_attention(layer, rows);
  ops_.push_back(LinearOp{.x = attention_.data(),
                          .rows = rows,
                          .cols = h_.heads * h_.head_dim,
                          .parts = {{residual_output(w.matrix(kO)), {}, {}}},
                          .add = true,
                          .input = shard_.whole() ? nullptr : input_.data(),
                          .share = shared(shard_.attention())});
  build_feed_forward(w, rows);
}

/// Of the heads that are here.
void TransformerStage::build_attention(std::size_t layer, std::int64_t rows) {
  const TensorType k_type = tensor_type(store_.types().k), v_type = tensor_type(store_.types().v);
  const std::int64_t q_heads = shard_.query_heads(), kv_heads = shard_.kv_heads();
  void* const* cache_k = cache_k_.data() + layer * static_cast<std::size_t>(kv_heads);
  void* const* cache_v = cache_v_.data() + layer * static_cast<std::size_t>(kv_heads);
  ops_.push_back(StoreOp{.q = q_.data(),
                         .k = k_.data(),
                         .v = v_.data(),
                         .rows = rows,
                         .q_heads = q_heads,
                         .kv_heads = kv_heads,
                         .head_dim = h_.head_dim,
                         .rotary_dim = h_.rotary_dim,
                         .interleaved = weights_.specs[layer].rope == RopeKind::kInterleaved,
                         .cos_sin = angles_.data(),
                         .cells = batch_cells_.cells().data(),
                         .cache_k = cache_k,
                         .cache_v = cache_v,
                         .k_type = k_type,
                         .v_type = v_type});
  ops_.push_back(AttentionOp{.q = q_.data(),
                             .rows = rows,
                             .q_heads = q_heads,
                             .kv_heads = kv_heads,
                             .head_dim = h_.head_dim,
                             .scale = 1.0f / std::sqrt(static_cast<float>(h_.head_dim)),
                             .visible = visible_.data(),
                             .cache_k = cache_k,
                             .cache_v = cache_v,
                             .k_type = k_type,
                             .v_type = v_type,
                             .out = attention_.data(),
                             .group = h_.heads / h_.kv_heads,
                             .before = shard_.heads_before()});
}

void TransformerStage::build_feed_forward(const WeightSet& w, std::int64_t rows) {
  using enum TensorRole;
  const auto part = [&](TensorRole role, const FloatBuffer& y) { return LinearOp::Part{&w.matrix(role), y.data()}; };
  LinearOp gate = residual_input(x_.data(), rows, w.vector(kFfnNorm), false);
  gate.parts = {{part(kGate, gate_), part(kUp, up_), {}}};
  ops_.push_back(gate);
  ops_.push_back(LinearOp{.x = gate_.data(),
                          .rows = rows,
                          .cols = h_.ffn,
                          .parts = {{residual_output(w.matrix(kDown)), {}, {}}},
                          .add = true,
                          .up = up_.data(),
                          .input = shard_.whole() ? gate_.data() : input_.data(),
                          .share = shared(shard_.ffn())});
}

void TransformerStage::build_output() {
  const auto rows = static_cast<std::int64_t>(logit_rows_.size());
  ops_.push_back(GatherOp{x_.data(), h_.dim, logit_rows_, chosen_.data()});
  LinearOp output = residual_input(chosen_.data(), rows, weights_.rest.vector(TensorRole::kOutputNorm), false);
  output.parts[0] = {&weights_.rest.matrix(TensorRole::kOutput), logits_.data()};
  ops_.push_back(output);
}

std::size_t TransformerStage::buffer_bytes() const {
  std::size_t floats = 0;
  for (const auto* buffer : {&x_, &input_, &q_, &k_, &v_, &attention_, &gate_, &up_, &angles_, &chosen_, &logits_})
    floats += buffer->size();
  return floats * sizeof(float);
}

/// Which of the layers asked for are here, and room for them.
void TransformerStage::begin_features(const StageBatch& batch) {
  feature_rows_.assign(batch.feature_rows.begin(), batch.feature_rows.end());
  feature_layers_.clear();
  features_built_ = 0;
  if (feature_rows_.empty()) return;
  for (const std::int32_t layer : batch.feature_layers) {
    if (layer == kOutputFeatures ? last() : layer >= range_.begin && layer < range_.end) feature_layers_.push_back(layer);
  }
  const std::size_t floats = feature_rows_.size() * static_cast<std::size_t>(h_.dim);
  features_.reserve(feature_layers_.size() * floats);
  if (!feature_layers_.empty() && feature_layers_.back() == kOutputFeatures) feature_inputs_.reserve(floats);
}

/// The place of the next layer's, which are built in ascending order.
float* TransformerStage::add_features() {
  return features_.data() + features_built_++ * feature_rows_.size() * static_cast<std::size_t>(h_.dim);
}

/// The input of a layer, if it is asked for. That of the first here is whole.
void TransformerStage::build_layer_features(std::size_t layer) {
  if (features_built_ == feature_layers_.size() || feature_layers_[features_built_] != range_.begin + static_cast<std::int64_t>(layer))
    return;
  float* const features = add_features();
  const auto rows = static_cast<std::int64_t>(feature_rows_.size());
  ops_.push_back(GatherOp{x_.data(), h_.dim, feature_rows_, features});
  if (layer > 0 && !shard_.whole()) ops_.push_back(AllGatherOp{features, rows, h_.dim, shared(shard_.residual())});
}

/// A product with no matrix: its input is what is wanted.
void TransformerStage::build_output_features() {
  if (features_built_ == feature_layers_.size()) return;
  const auto rows = static_cast<std::int64_t>(feature_rows_.size());
  ops_.push_back(GatherOp{x_.data(), h_.dim, feature_rows_, feature_inputs_.data()});
  if (!shard_.whole()) ops_.push_back(AllGatherOp{feature_inputs_.data(), rows, h_.dim, shared(shard_.residual())});
  LinearOp norm = residual_input(feature_inputs_.data(), rows, weights_.rest.vector(TensorRole::kOutputNorm), true);
  norm.input = add_features();
  ops_.push_back(norm);
}

std::span<const float> TransformerStage::features() const {
  return {features_.data(), feature_layers_.size() * feature_rows_.size() * static_cast<std::size_t>(h_.dim)};
}

std::span<const float> TransformerStage::activations() const { return {x_.data(), rows_ * static_cast<std::size_t>(h_.dim)}; }

std::span<const float> TransformerStage::logits() const {
  return {logits_.data(), logit_rows_.size() * static_cast<std::size_t>(logit_tokens().count())};
}

}  // namespace yamata
