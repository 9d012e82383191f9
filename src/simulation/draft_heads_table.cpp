#include "src/simulation/draft_heads_table.hpp"

#include <stdexcept>
#include <utility>

namespace yamata::simulation {

DraftHeadsTable::DraftHeadsTable(TableShape shape, std::vector<std::int32_t> feature_layers, TableUnit& unit)
    : TableStage(std::move(shape), unit), layers_(std::move(feature_layers)), kept_(static_cast<std::size_t>(shape_.cells)) {}

/// The prefix that is encoded in the features; all layers have the same.
std::uint64_t DraftHeadsTable::told_prefix(std::span<const float> features) const {
  const auto width = static_cast<std::size_t>(TableModel::kWidth);
  const RowHashes told = hashes_of(features.last(width));
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const std::vector<float> right = features_of(told.token, told.prefix, layers_[layer]);
    if (!std::equal(right.begin(), right.end(), features.begin() + static_cast<std::ptrdiff_t>(layer * width)))
      throw std::logic_error("heads were given features of several tokens");
  }
  return told.prefix;
}

/// The prefix of the token before a row.
std::uint64_t DraftHeadsTable::prefix_before(const StageBatch& batch, std::size_t row) const {
  const auto visible = placed_.visible(row);
  const std::int32_t position = batch.placements[row].position;
  if (static_cast<std::int32_t>(visible.size()) != position) throw std::logic_error("heads see a text with holes");
  const Kept* parent = position > 1 ? &kept_[static_cast<std::size_t>(visible[visible.size() - 2])] : nullptr;
  if (parent && parent->position != position - 1) throw std::logic_error("heads see a text out of order");
  if (batch.features.empty()) {
    if (!parent) throw std::logic_error("heads were asked for a guess after no text");
    return parent->prefix;
  }
  const auto width = static_cast<std::size_t>(features_read());
  const std::uint64_t told = told_prefix(batch.features.subspan(row * width, width));
  if (parent && (!parent->text || parent->prefix != told))
    throw std::logic_error("heads were given features of another token than the one before");
  return told;
}

void DraftHeadsTable::start(const StageBatch& batch, const std::atomic<bool>* stop) {
  cells_.place(batch.placements, placed_);
  std::vector<std::uint64_t> prefixes;
  for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
    const std::int32_t position = batch.placements[row].position;
    prefixes.push_back(mix(prefix_before(batch, row), token_hash(batch.tokens[row], position)));
    kept_[static_cast<std::size_t>(placed_.cells()[row])] = {prefixes.back(), !batch.features.empty(), position};
  }
  const std::vector<std::int32_t> rows(batch.logit_rows.begin(), batch.logit_rows.end());
  unit_.begin(shape_, prefixes.size(), stop, [this, rows, prefixes](bool) {
    logits_.assign(rows.size() * static_cast<std::size_t>(shape_.vocabulary), 0.0f);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto to =
          std::span(logits_).subspan(i * static_cast<std::size_t>(shape_.vocabulary), static_cast<std::size_t>(shape_.vocabulary));
      shape_.logits(prefixes[static_cast<std::size_t>(rows[i])], to);
    }
  });
}

}  // namespace yamata::simulation
