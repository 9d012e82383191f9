#pragma once
// Medusa heads (paper, section 2.1): each guesses one of the next tokens from the hidden state of the text's last computed token.
#include <vector>

#include "node/float_buffer.hpp"
#include "src/draft_heads/draft_heads_stage.hpp"

namespace yamata::draft_heads {

/// The tensors of Medusa heads.
struct MedusaTensors {
  struct Head {
    std::vector<const TensorView*> weights, biases;  ///< of the residual blocks
    const TensorView* output = nullptr;              ///< null: the target's
  };
  std::vector<Head> draft_heads;

  /// Throws ModelError with the name of the first tensor that does not fit.
  static MedusaTensors find(const CheckedTensors& tensors);
};
/// Whether the names are those of Medusa heads.
bool has_medusa_names(const TensorViews& tensors);

/// The row of the text's last token gives the logits of the next token, from the first head. The row of a guess gives the logits of the
/// token after the guess, from the head for its depth and the same hidden state, whatever the guess is. Below the last head's guesses, all
/// tokens are equally probable. All rows of one depth need one product together; so do all heads that use the target's output. Cells hold
/// nothing.
class MedusaHeads final : public DraftHeadsStage {
 public:
  MedusaHeads(const CheckedTensors& tensors, const ContextOptions& context, MatrixType matrices, ComputeUnit& unit);

  std::int64_t features_read() const override { return width(); }
  std::int64_t depths() const override { return std::ssize(draft_heads_); }
  std::span<const float> logits() const override;

 private:
  void build(const StageBatch& batch) override;
  void build_draft_heads(std::size_t head);
  const float* build_blocks(std::size_t head);
  std::size_t depth_of(std::size_t row) const;

  struct Head {
    std::vector<const Matrix*> weights;
    std::vector<const float*> biases;
    const Matrix* output;
    bool shares_output = false;  // the target's
  };
  std::vector<Head> draft_heads_;
  std::vector<std::size_t> depths_;       // per cell: depth of its token below the text's last token
  std::vector<float> feature_;            // [dim], of the token before the text's last
  std::vector<bool> computed_;            // per head: whether its logits are computed for feature_
  FloatBuffer hidden_, inner_, outputs_;  // [heads][dim] twice, [heads][vocabulary]
  std::vector<std::size_t> rows_;         // of logits: their depths
  mutable std::vector<float> logits_;
};

}  // namespace yamata::draft_heads
