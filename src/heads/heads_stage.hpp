#pragma once
// What all heads share as a model of one stage: they compute the rows of a run from hidden states.
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "src/heads/checked_tensors.hpp"
#include "src/heads/hidden_states.hpp"
#include "src/heads/own_weights.hpp"
#include "src/model/stage_model.hpp"
#include "src/model/weights.hpp"

namespace yamata::heads {

/// Text comes with features: each row with those of the token before it. A guess comes without: its row is computed from what the row of
/// its parent has left in the parent's cell.
class HeadsStage : public StageModel {
 public:
  HeadsStage(const ModelFile& target, const ContextOptions& context, bool quantized, ComputeUnit& unit);
  /// Waits for a run under way, which reads and writes memory of this.
  ~HeadsStage() override;

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
  /// Fills ops_ for a run whose rows have their cells. The batch is there only until this returns.
  virtual void build(const StageBatch& batch) = 0;
  /// The cell of the row before, in whose sequence this row lies; kNoCell: none.
  CellId parent_cell(std::size_t row) const;
  /// What each row is computed from: the features of the text, or what the guesses' parents have left in `hidden`; to [tokens][dim].
  void give_hidden(const StageBatch& batch, const HiddenStates& hidden, float* to) const;
  /// The target's output matrix and the table of its embeddings, as they lie in its file.
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

}  // namespace yamata::heads
