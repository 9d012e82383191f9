#include "src/simulation/table_model.hpp"

#include <algorithm>
#include <utility>

namespace yamata::simulation {
namespace {

/// Stores 64 bits as four floats; each represents 16 bits exactly.
void put(std::uint64_t value, std::vector<float>& out) {
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<float>(value >> (16 * i) & 0xffff));
}

std::uint64_t get(std::span<const float> from) {
  std::uint64_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<std::uint64_t>(from[static_cast<std::size_t>(i)]) << (16 * i);
  return value;
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {  // splitmix64
  std::uint64_t z = a * 0x9e3779b97f4a7c15u + b + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double share(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

std::uint64_t token_hash(std::int32_t token, std::int32_t position) {
  return mix(static_cast<std::uint64_t>(token) + 1, static_cast<std::uint64_t>(position) + 77);
}

std::uint64_t prefix_hash(std::span<const std::int32_t> text) {
  std::uint64_t hash = 1;
  for (std::size_t i = 0; i < text.size(); ++i) hash = mix(hash, token_hash(text[i], static_cast<std::int32_t>(i)));
  return hash;
}

std::vector<float> row_of(std::uint64_t token, std::uint64_t prefix) {
  std::vector<float> row;
  put(token, row);
  put(prefix, row);
  return row;
}

RowHashes hashes_of(std::span<const float> row) { return {get(row.first(4)), get(row.subspan(4, 4))}; }

std::vector<float> features_of(std::uint64_t token, std::uint64_t prefix, std::int32_t layer) {
  return row_of(token, layer == kOutputFeatures ? prefix : mix(prefix, static_cast<std::uint64_t>(layer) + 1));
}

TableModel::TableModel(TableShape shape, TableUnit& unit)
    : TableStage(std::move(shape), unit),
      salt_(mix(static_cast<std::uint64_t>(shape_.stage), 4711)),
      contents_(static_cast<std::size_t>(shape_.cells), 0xdeadbeef),
      window_contents_(static_cast<std::size_t>(shape_.window_cells), 0xdeadbeef) {
  if (shape_.window_cells > 0) window_cells_.emplace(shape_.cells, shape_.window_cells, shape_.window, shape_.texts);
  if (shape_.state_inputs > 0) states_.emplace(shape_.cells, shape_.state_inputs, shape_.texts);
}

void TableModel::start(const StageBatch& batch, const std::atomic<bool>* stop) {
  window_cells_ ? window_cells_->place(cells_, batch.placements, placed_, in_window_) : cells_.place(batch.placements, placed_);
  if (states_) states_->begin(cells_, batch.placements, placed_, batch.likely_row);
  logit_rows_.assign(batch.logit_rows.begin(), batch.logit_rows.end());
  feature_rows_.assign(batch.feature_rows.begin(), batch.feature_rows.end());
  feature_layers_.clear();
  for (const std::int32_t layer : batch.feature_layers) {
    if (layer == kOutputFeatures ? last() : layer == shape_.stage) feature_layers_.push_back(layer);
  }
  tokens_.clear();
  prefixes_.clear();
  for (std::size_t row = 0; row < batch.placements.size(); ++row) {
    if (first()) {
      tokens_.push_back(token_hash(batch.tokens[row], batch.placements[row].position));
      prefixes_.push_back(0);
    } else {
      tokens_.push_back(get(batch.activations.subspan(row * kWidth, 4)));
      prefixes_.push_back(get(batch.activations.subspan(row * kWidth + 4, 4)));
    }
  }
  unit_.begin(shape_, tokens_.size(), stop, [this](bool completed) { compute(completed); });
}

/// The prefix that a row sees. A layer with a window must see the end of it, one with states must have the state after all of it.
std::uint64_t TableModel::prefix_of(std::size_t row) const {
  const std::span<const CellId> seen = placed_.visible(row);
  std::uint64_t prefix = 1;
  std::vector<std::uint64_t> tokens;
  for (const CellId cell : seen) prefix = mix(prefix, tokens.emplace_back(content(cell)));
  if (states_ && !states_->is_right(row, tokens)) prefix = mix(prefix, 1);
  if (!window_cells_) return prefix;
  const std::span<const CellId> in_window = in_window_.visible(row);
  if (in_window.size() != std::min(seen.size(), static_cast<std::size_t>(shape_.window))) return mix(prefix, 0);
  for (std::size_t i = 0; i < in_window.size(); ++i) {
    const CellId cell = seen.last(in_window.size())[i];
    if (window_contents_[static_cast<std::size_t>(in_window[i])] != contents_[static_cast<std::size_t>(cell)]) prefix = mix(prefix, i);
  }
  return prefix;
}

void TableModel::compute(bool completed) {
  rows_.clear();
  logits_.clear();
  own_prefixes_.clear();
  for (std::size_t row = 0; row < tokens_.size(); ++row) {
    const CellId cell = placed_.cells()[row];
    // A stopped run leaves its cells in an undefined state.
    contents_[static_cast<std::size_t>(cell)] = completed ? tokens_[row] ^ salt_ : mix(tokens_[row], 13);
    if (window_cells_) window_contents_[static_cast<std::size_t>(in_window_.cells()[row])] = contents_[static_cast<std::size_t>(cell)];
  }
  if (states_) states_->compute(tokens_, completed);
  for (std::size_t row = 0; row < tokens_.size(); ++row) {
    std::uint64_t prefix = prefix_of(row);
    // Every stage must have seen the same prefix.
    if (!first() && prefix != prefixes_[row]) prefix = mix(prefix, prefixes_[row]);
    put(tokens_[row], rows_);
    put(prefix, rows_);
    own_prefixes_.push_back(prefix);
  }
  features_.clear();
  for (const std::int32_t layer : feature_layers_) {
    for (const std::int32_t row : feature_rows_) {
      const auto at = static_cast<std::size_t>(row);
      const std::vector<float> features = features_of(tokens_[at], own_prefixes_[at], layer);
      features_.insert(features_.end(), features.begin(), features.end());
    }
  }
  if (!last()) return;
  for (const std::int32_t row : logit_rows_) {
    all_logits_.assign(static_cast<std::size_t>(shape_.vocabulary), 0.0f);
    shape_.logits(own_prefixes_[static_cast<std::size_t>(row)], all_logits_);
    const Interval here = logit_tokens();
    logits_.insert(logits_.end(), all_logits_.begin() + here.begin, all_logits_.begin() + here.end);
  }
}

}  // namespace yamata::simulation
