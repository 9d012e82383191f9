#pragma once
// Medusa heads (paper, section 2.1): each guesses one of the next tokens from the hidden state of the text's last computed token.
#include <optional>
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
/// tokens are equally probable. All rows of a text of one depth need one product together; so do all heads that use the target's output.
/// Cells hold nothing. There may be several texts: a run with features brings the last token of each whose logits are wanted.
class MedusaHeads final : public DraftHeadsStage {
 public:
  MedusaHeads(const CheckedTensors& tensors, const ContextOptions& context, MatrixType matrices, ComputeUnit& unit);

  std::int64_t features_read() const override { return width(); }
  std::int64_t depths() const override { return std::ssize(draft_heads_); }
  std::span<const float> logits() const override;

 private:
  /// What is known of a text's last token.
  struct Text {
    CellId root = kNoCell;
    std::vector<float> feature;  // [dim], of the token before it
    std::vector<bool> computed;  // per head: whether its logits are
  };
  void build(const StageBatch& batch) override;
  void begin_text(const StageBatch& batch, std::size_t row);
  void place_rows(const StageBatch& batch);
  void want_draft_heads(std::size_t text, std::size_t head);
  void build_blocks(std::size_t place);
  void build_outputs();

  struct Head {
    std::vector<const Matrix*> weights;
    std::vector<const float*> biases;
    const Matrix* output;
    bool shares_output = false;  // the target's
  };
  std::vector<Head> draft_heads_;
  std::vector<std::size_t> depths_;               // per cell: depth of its token below the text's last token
  std::vector<CellId> roots_;                     // per cell: that of the text's last token
  std::vector<Text> texts_;                       // as many as there have been at a time
  std::vector<std::size_t> wanted_;               // of this run: text * number of heads + head, as in the buffers
  FloatBuffer hidden_, inner_, outputs_;          // [texts][heads][dim] twice, [texts][heads][vocabulary]
  std::vector<std::optional<std::size_t>> rows_;  // of logits: where they are in outputs_; nothing: behind the last head's guesses
  mutable std::vector<float> logits_;
};

}  // namespace yamata::draft_heads
