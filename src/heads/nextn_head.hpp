#pragma once
// The layer of a model's GGUF file that predicts a further token (DeepSeek-V3, section 2.2, "multi-token prediction"; nextn in llama.cpp).
#include <vector>

#include "cache/kv_store.hpp"
#include "src/heads/heads_file.hpp"
#include "src/heads/heads_stage.hpp"
#include "src/heads/hidden_states.hpp"
#include "src/model/layer_ops.hpp"
#include "src/model/rope.hpp"

namespace yamata::heads {

/// The tensors of such a layer, besides those that every layer of its family has. Of several layers the first.
struct NextnTensors {
  const TensorView* projection = nullptr;      ///< [dim, 2 dim], of the token's embedding and the hidden state before it
  const TensorView* embedding_norm = nullptr;  ///< [dim], of each of these
  const TensorView* hidden_norm = nullptr;
  const TensorView* norm = nullptr;       ///< [dim], before the output; null: the target's
  const TensorView* output = nullptr;     ///< [vocabulary, dim]; null: the target's
  const TensorView* embedding = nullptr;  ///< likewise

  /// Throws ModelError naming the first that is missing or does not fit.
  static NextnTensors find(const CheckedTensors& tensors);
};
/// Whether the names are those of such a layer.
bool has_nextn_names(const TensorViews& tensors);
/// Throws as NextnTensors::find, and for tensors of the layer itself that do not fit.
Needs nextn_needs(const CheckedTensors& tensors, const ContextOptions& context);

/// x = P [norm(E[token]), norm(h)], where h is the target's hidden state before the token, after its output norm, or, for a guess, what
/// its parent's row has left; then a layer as the target has them, experts and latent attention included, with a cache of its own. Its
/// result after the norm is what the row leaves, and what the output reads. Weights stay as the file has them.
class NextnHead final : public HeadsStage {
 public:
  NextnHead(const CheckedTensors& tensors, const ContextOptions& context, ComputeUnit& unit);

  std::int64_t features_read() const override { return width(); }
  std::span<const float> logits() const override;

 private:
  void take_weights(const NextnTensors& from);
  void build(const StageBatch& batch) override;
  void place(const StageBatch& batch);
  void add_norm(const float* x, const float* weight, float* out, std::int64_t out_stride);

  StageWeights block_;
  const Shard shard_;
  const StageBuffers sizes_;
  RunBuffers buffers_;
  LayerOps layer_ops_;
  const Rope rope_;
  KvStore store_;
  std::vector<void*> cache_k_, cache_v_;  // [kv head]

  Matrix embedding_;
  const Matrix *projection_ = nullptr, *output_ = nullptr;
  const float *embedding_norm_ = nullptr, *hidden_norm_ = nullptr, *norm_ = nullptr;
  HiddenStates hidden_;  // those of the run before are in left_
  std::vector<std::span<const CellId>> visible_;
  std::int64_t rows_ = 0;
  std::vector<std::int32_t> tokens_, logit_rows_;
  FloatBuffer embedded_, given_, pair_, left_, chosen_, outputs_;
};

}  // namespace yamata::heads
