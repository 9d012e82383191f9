// The hidden states of a stage that draft heads read.
#include "src/model/transformer_stage.hpp"

namespace yamata {

void TransformerStage::begin_features(const StageBatch& batch) {
  feature_rows_.assign(batch.feature_rows.begin(), batch.feature_rows.end());
  feature_layers_.clear();
  features_built_ = 0;
  if (feature_rows_.empty()) return;
  for (const std::int32_t layer : batch.feature_layers) {
    if (layer >= kStreamFeatures ? last() : layer >= range_.begin && layer < range_.end) feature_layers_.push_back(layer);
  }
  const std::size_t floats = feature_rows_.size() * static_cast<std::size_t>(h_.dim);
  features_.reserve(feature_layers_.size() * floats);
  stream_rows_.clear(), stream_rows_.reserve(feature_layers_.size() * feature_rows_.size());
  if (!feature_layers_.empty() && (feature_layers_.back() == kOutputFeatures || h_.layer.streams > 0))
    feature_inputs_.reserve(feature_rows_.size() * static_cast<std::size_t>(h_.residual_dim()));
}

/// The place of the next feature layer; they are built in ascending order.
float* TransformerStage::add_features() {
  return features_.data() + features_built_++ * feature_rows_.size() * static_cast<std::size_t>(h_.dim);
}

/// Adds the input of a layer as features, if it is requested: with hyper-connections, the mean of the streams. The input of the first layer
/// here has all columns.
void TransformerStage::build_layer_features(std::size_t layer) {
  if (features_built_ == feature_layers_.size() || feature_layers_[features_built_] != range_.begin + static_cast<std::int64_t>(layer))
    return;
  float* const features = add_features();
  const auto rows = static_cast<std::int64_t>(feature_rows_.size());
  if (h_.layer.streams > 0) {
    ops_.push_back(GatherOp{buffers_.x.data(), h_.residual_dim(), feature_rows_, feature_inputs_.data()});
    return layer_ops_.add_stream_mean(feature_inputs_.data(), rows, features);
  }
  ops_.push_back(GatherOp{buffers_.x.data(), h_.dim, feature_rows_, features});
  if (layer > 0 && !shard_.whole()) ops_.push_back(AllGatherOp{features, rows, h_.dim, layer_ops_.shared(shard_.residual())});
}

void TransformerStage::build_stream_features(std::int32_t stream) {
  for (const std::int32_t row : feature_rows_) stream_rows_.push_back(row * static_cast<std::int32_t>(h_.layer.streams) + stream);
  ops_.push_back(GatherOp{buffers_.x.data(), h_.dim, std::span(stream_rows_).last(feature_rows_.size()), add_features()});
}

void TransformerStage::build_output_features() {
  while (features_built_ < feature_layers_.size() && feature_layers_[features_built_] < kOutputFeatures)
    build_stream_features(feature_layers_[features_built_] - kStreamFeatures);
  if (features_built_ == feature_layers_.size()) return;
  const auto rows = static_cast<std::int64_t>(feature_rows_.size());
  ops_.push_back(GatherOp{buffers_.x.data(), h_.residual_dim(), feature_rows_, feature_inputs_.data()});
  if (!shard_.whole() && h_.layer.streams == 0)
    ops_.push_back(AllGatherOp{feature_inputs_.data(), rows, h_.dim, layer_ops_.shared(shard_.residual())});
  layer_ops_.add_output_norm(weights_.rest, feature_inputs_.data(), rows, true, add_features());
}

std::span<const float> TransformerStage::features() const {
  return {features_.data(), feature_layers_.size() * feature_rows_.size() * static_cast<std::size_t>(h_.dim)};
}

}  // namespace yamata
