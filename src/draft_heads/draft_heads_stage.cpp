#include "src/draft_heads/draft_heads_stage.hpp"

#include <algorithm>
#include <utility>

namespace yamata::draft_heads {

DraftHeadsStage::DraftHeadsStage(const ModelFile& target, const ContextOptions& context, MatrixType matrices, ComputeUnit& unit)
    : target_(target),
      unit_(unit),
      weights_(matrices),
      cells_(context.cells, context.sequences),
      target_weights_(StageWeights::find_rest(target.file, target.h)),
      packs_(context.pack) {}

DraftHeadsStage::~DraftHeadsStage() {
  while (!unit_.finished()) {
    try {
      unit_.wait_for(std::chrono::seconds(1));
    } catch (...) {  // an error in a run whose results will not be read
    }
  }
}

void DraftHeadsStage::load(const std::atomic<bool>* stop) {
  ops_.clear();
  if (std::exchange(packs_, false)) ops_ = weights_.pack(unit_);
  load_steps_ = ops_.size();
  unit_.start(ops_, stop);
}

void DraftHeadsStage::start(const StageBatch& batch, const std::atomic<bool>* stop) {
  if (std::exchange(unpacked_is_held_, false)) weights_.release_unpacked();
  cells_.place(batch.placements, batch_cells_);
  ops_.clear();
  build(batch);
  unit_.start(ops_, stop);
}

CellId DraftHeadsStage::parent_cell(std::size_t row) const {
  const std::span<const CellId> visible = batch_cells_.visible(row);
  return visible.size() < 2 ? kNoCell : visible[visible.size() - 2];
}

void DraftHeadsStage::give_hidden(const StageBatch& batch, const HiddenStates& hidden, float* to) const {
  if (!batch.features.empty()) {
    std::copy(batch.features.begin(), batch.features.end(), to);
    return;
  }
  for (std::size_t row = 0; row < batch.tokens.size(); ++row) hidden.give(parent_cell(row), to + row * hidden.dim());
}

}  // namespace yamata::draft_heads
