#pragma once
// The common part of all draft heads as one-stage models: they compute the rows of a run from hidden states.
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "src/draft_heads/checked_tensors.hpp"
#include "src/draft_heads/hidden_states.hpp"
#include "src/draft_heads/own_weights.hpp"
#include "src/model/stage_model.hpp"
#include "src/model/weights.hpp"

namespace yamata::draft_heads {

/// Rows of text arrive with features, each with those of the token before it. A guess has no features: its row is computed from the hidden
/// state that its parent's row stored in the parent's cell.
class DraftHeadsStage : public StageModel {
 public:
  DraftHeadsStage(const ModelFile& target, const ContextOptions& context, MatrixType matrices, ComputeUnit& unit);
  /// Waits for a running run, which uses memory of this object.
  ~DraftHeadsStage() override;

  void load(const std::atomic<bool>* stop) override;
  std::size_t load_steps() const override { return load_steps_; }
  void start(const StageBatch& batch, const std::atomic<bool>* stop) override;
  ComputeUnit& unit() override { return unit_; }
  const ComputeUnit& unit() const override { return unit_; }
  std::span<const float> activations() const override { return {}; }
  std::span<const float> features() const override { return {}; }
  CellTable& cells() override { return cells_; }
  std::int64_t width() const override { return target_.h.dim; }
  std::int64_t vocabulary() const override { return target_.h.vocabulary; }
  LayerRange layers() const override { return {0, 1}; }
  bool first() const override { return true; }
  bool last() const override { return true; }

 protected:
  /// Fills ops_ for a run whose rows have their cells. The batch is valid only until this returns.
  virtual void build(const StageBatch& batch) = 0;
  /// The cell of the previous row in this row's sequence; kNoCell: none.
  CellId parent_cell(std::size_t row) const;
  /// Copies the input of each row to [tokens][dim]: the features of text, or, for guesses, what their parents stored in `hidden`.
  void give_hidden(const StageBatch& batch, const HiddenStates& hidden, float* to) const;
  /// The target's output matrix and embedding table, in the file's layout.
  const Matrix& target_output() const { return target_weights_.matrix(TensorRole::kOutput); }
  const Matrix& target_embedding() const { return target_weights_.matrix(TensorRole::kEmbedding); }
  /// The weight of its output norm: [dim].
  const float* target_norm() const { return target_weights_.vector(TensorRole::kOutputNorm); }

  const ModelFile& target_;
  ComputeUnit& unit_;
  OwnWeights weights_;
  CellTable cells_;
  BatchCells batch_cells_;
  std::vector<Op> ops_;

 private:
  const WeightSet target_weights_;
  bool packs_;
  bool unpacked_is_held_ = true;
  std::size_t load_steps_ = 0;
};

}  // namespace yamata::draft_heads
