#pragma once
// Draft heads that guess from their own hidden states: from a token and the hidden state before it they compute the next hidden state, and
// from that the next token (EAGLE, EAGLE-2, EAGLE-3; Dovetail's gated fusion).
#include <vector>

#include "cache/kv_store.hpp"
#include "node/float_buffer.hpp"
#include "src/draft_heads/draft_heads_stage.hpp"
#include "src/draft_heads/hidden_states.hpp"
#include "src/draft_heads/kind.hpp"
#include "src/model/rope.hpp"

namespace yamata::draft_heads {

/// The tensors of a transformer block of such a head.
struct BlockTensors {
  const TensorView* attention_norm = nullptr;  ///< null: its input is not normalized
  const TensorView* hidden_norm =
      nullptr;  ///< EAGLE-3: norm of the hidden state, which queries, keys and values read in addition to the embedding
  const TensorView *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
  const TensorView *ffn_norm = nullptr, *gate = nullptr, *up = nullptr, *down = nullptr;
};

/// The tensors and dimensions of such a head.
struct DraftHeadShape {
  Kind kind = Kind::kEagle;
  std::int64_t dim = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, output_rows = 0;
  std::int64_t features = 0;         ///< floats of the target's features per token of the text
  std::vector<std::int32_t> layers;  ///< the target's layers of these features
  float epsilon = 0, rope_base = 10000;
  bool interleaved = false;           ///< RoPE pairs, see StoreOp
  bool norm_before_residual = false;  ///< EAGLE-3: the residual stream begins with the normalized hidden state
  const TensorView* fc = nullptr;     ///< EAGLE, EAGLE-3
  const TensorView* fc_bias = nullptr;
  const TensorView* fc_norm = nullptr;                                                      ///< EAGLE-3: of the features before fc
  const TensorView *w1 = nullptr, *w2 = nullptr, *wz = nullptr, *embedding_norm = nullptr;  ///< DGF
  std::vector<BlockTensors> blocks;
  const TensorView* norm = nullptr;       ///< before the output; null: none
  const TensorView* output = nullptr;     ///< null: the target's
  const TensorView* embedding = nullptr;  ///< null: the target's
  std::vector<std::int32_t> tokens;       ///< token of each row of the output; empty: the target's tokens

  /// Throws ModelError with the name of the first tensor that does not fit the target.
  static DraftHeadShape find(const CheckedTensors& tensors, Kind kind);
};

/// A row's hidden state is computed from its token's embedding and from the features that arrive with it, or, for a guess, from the hidden
/// state that its parent's row stored. Keys and values are in the head's own cache.
class DraftHead final : public DraftHeadsStage {
 public:
  DraftHead(const CheckedTensors& tensors, Kind kind, const ContextOptions& context, MatrixType matrices, ComputeUnit& unit);

  std::int64_t features_read() const override { return shape_.features; }
  std::span<const float> logits() const override;
  std::span<const float> known_logits() const override {
    return {outputs_.data(), logit_rows_.size() * static_cast<std::size_t>(shape_.output_rows)};
  }
  std::span<const std::int32_t> known_tokens() const override { return shape_.tokens; }

 private:
  struct Block {
    const float *attention_norm, *hidden_norm, *ffn_norm;
    const Matrix *q, *k, *v, *o, *gate, *up, *down;
    const Matrix *hidden_q, *hidden_k, *hidden_v;  // EAGLE-3: the part that reads the hidden state
  };
  void take_weights();
  Block take_block(const BlockTensors& from);
  void reserve(std::size_t rows, std::size_t logit_rows);
  void build(const StageBatch& batch) override;
  void build_fusion(const StageBatch& batch);
  void build_gate();
  void build_block(std::size_t index);
  void build_attention(std::size_t index);
  void build_feed_forward(const Block& block);
  void build_output();
  LinearOp linear(const float* x, const float* norm = nullptr, std::int64_t cols = 0);

  const DraftHeadShape shape_;
  Matrix embedding_;
  const Matrix *fc_embedding_ = nullptr, *fc_hidden_ = nullptr;  // EAGLE-3 has only the second, for its features
  const Matrix *gate_hidden_ = nullptr, *gate_embedding_ = nullptr;
  const float *fc_bias_ = nullptr, *fc_norm_ = nullptr, *embedding_norm_ = nullptr, *norm_ = nullptr;
  std::vector<Block> blocks_;
  const Matrix* output_ = nullptr;
  Rope rope_;
  KvStore store_;
  std::vector<void*> cache_k_, cache_v_;  // [block][kv head]

  HiddenStates hidden_;  // those of the previous run are in x_
  std::vector<std::span<const CellId>> visible_;
  std::int64_t rows_ = 0;
  std::vector<std::int32_t> tokens_, logit_rows_;
  FloatBuffer x_, embedded_, given_, normed_, input_, angles_, q_, k_, v_, attention_, gate_, up_, chosen_, outputs_;
  mutable std::vector<float> logits_;
};

}  // namespace yamata::draft_heads
