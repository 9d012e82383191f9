// Where a run's tokens are in the cache, and what their rows see.
#include <algorithm>

#include "src/model/transformer_stage.hpp"

namespace yamata {

void TransformerStage::place(const StageBatch& batch) {
  window_cells_ ? window_cells_->place(cells_, batch.placements, batch_cells_, window_batch_)
                : cells_.place(batch.placements, batch_cells_);
  if (state_cells_) state_plan_ = &state_cells_->plan(cells_, batch.placements, batch_cells_, batch.likely_row);
  visible_.clear();
  in_window_.clear();
  const auto window = static_cast<std::size_t>(h_.layer.window);
  for (std::size_t i = 0; i < rows_; ++i) {
    visible_.push_back(batch_cells_.visible(i));
    const std::span<const CellId> near = window_cells_ ? window_batch_.visible(i) : visible_[i];
    const auto position = static_cast<std::size_t>(batch.placements[i].position);
    const std::size_t seen = window == 0 ? near.size() : h_.chunked ? position % window + 1 : window;
    in_window_.push_back(near.last(std::min(seen, near.size())));
    if (sizes_.query_scales > 0) buffers_.query_scales.data()[i] = h_.query_scale_at(batch.placements[i].position);
    for (std::size_t rope = 0; rope < ropes_.size(); ++rope) {
      float* const angles = buffers_.angles.data() + rope * rows_ * angles_width();
      ropes_[rope].angles(batch.placements[i].position, angles + i * ropes_[rope].width());
    }
  }
  if (ngrams_) {
    ngrams_->place(batch_cells_.cells(), batch.tokens);
    ngram_rows_.clear();
    for (const std::span<const CellId> cells : visible_) ngrams_->append_rows(cells, ngram_rows_);
  }
  picked_.place(visible_, reinterpret_cast<CellId*>(buffers_.picked.data()));
  blocks_.place(visible_);
  float* angles = buffers_.block_angles.data();
  for (const std::int32_t position : blocks_.first_positions()) ropes_.front().angles(position, angles), angles += ropes_.front().width();
}

/// The most floats of a row's angles.
std::size_t TransformerStage::angles_width() const { return std::max(ropes_.front().width(), ropes_.back().width()); }

}  // namespace yamata
