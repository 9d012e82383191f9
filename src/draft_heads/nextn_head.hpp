#pragma once
// The multi-token prediction layer of a model's GGUF file (DeepSeek-V3, section 2.2; nextn in llama.cpp).
#include <vector>

#include "cache/kv_store.hpp"
#include "node/float_buffer.hpp"
#include "src/draft_heads/draft_heads_stage.hpp"
#include "src/draft_heads/hidden_states.hpp"
#include "src/draft_heads/needs.hpp"
#include "src/model/layer_ops.hpp"
#include "src/model/rope.hpp"

namespace yamata::draft_heads {

/// The tensors of such a layer in addition to those of every layer of its family. If there are several such layers, those of the first.
struct NextnTensors {
  const TensorView* projection = nullptr;      ///< [dim, 2 dim], of the token's embedding and the hidden state before it
  const TensorView* embedding_norm = nullptr;  ///< [dim], norms of these two
  const TensorView* hidden_norm = nullptr;     ///< [residual stream]
  const TensorView* norm = nullptr;            ///< [dim], before the output; null: the target's
  const TensorView *mix_norm = nullptr, *mix_down = nullptr, *mix_up = nullptr;  ///< with hyper-connections, instead of the norm
  const TensorView* output = nullptr;                                            ///< [vocabulary, dim]; null: the target's
  const TensorView* embedding = nullptr;                                         ///< [vocabulary, dim]; null: the target's

  /// Those that the file has.
  std::vector<const TensorView*> all() const;
  /// Throws ModelError with the name of the first tensor that is missing or does not fit.
  static NextnTensors find(const CheckedTensors& tensors);
};
/// Whether the names are those of such a layer.
bool has_nextn_names(const TensorViews& tensors);
/// Throws like NextnTensors::find, and for tensors of the layer itself that do not fit.
Needs nextn_needs(const CheckedTensors& tensors, const ContextOptions& context);

/// x = P [norm(E[token]), norm(h)], where h is the target's hidden state before the token, after the output norm, or, for a guess, the
/// hidden state that its parent's row stored. A layer like the target's follows, including experts and latent attention, with its own
/// cache. Its result after the norm is stored for children, and is the input of the output matrix. With hyper-connections, h and x are
/// streams, each with its own h, before the mix that stands in for the output norm. Weights keep the file's format.
class NextnHead final : public DraftHeadsStage {
 public:
  NextnHead(const CheckedTensors& tensors, const ContextOptions& context, ComputeUnit& unit);

  std::int64_t features_read() const override { return target_.h.residual_dim(); }
  std::span<const float> logits() const override;

 private:
  void take_weights(const NextnTensors& from, const gguf::File& file);
  void build(const StageBatch& batch) override;
  void place(const StageBatch& batch);
  std::int64_t streams() const { return features_read() / width(); }
  void add_norm(const float* x, const float* weight, std::int64_t weight_rows, float* out, std::int64_t out_stride);
  void add_output();

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
  LayerOps::StreamWeights mix_{};
  HiddenStates hidden_;  // those of the previous run are in left_
  std::vector<std::span<const CellId>> visible_;
  std::int64_t rows_ = 0;
  std::vector<std::int32_t> tokens_, logit_rows_;
  FloatBuffer embedded_, given_, pair_, left_, chosen_, mixed_, outputs_;
};

}  // namespace yamata::draft_heads
