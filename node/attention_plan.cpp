#include "node/attention_plan.hpp"

#include <algorithm>

#include "node/cpu/kernels.hpp"

namespace yamata {
namespace {

using cpu::kAttentionChunk;

std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

std::int64_t visible_cells(const AttentionOp& op, std::int64_t row) { return static_cast<std::int64_t>(op.visible[row].size()); }

std::int64_t chunks_of(const AttentionOp& op, std::int64_t row_begin, std::int64_t row_end) {
  std::int64_t most = 0;
  for (std::int64_t row = row_begin; row < row_end; ++row) most = std::max(most, visible_cells(op, row));
  return std::max<std::int64_t>(1, parts(most, kAttentionChunk));
}

/// Products of queries and cells in a unit.
std::int64_t cost(const AttentionOp& op, const AttentionPlan::Item& item, std::int64_t chunk) {
  std::int64_t cells = 0;
  for (std::int64_t row = item.row_begin; row < item.row_end; ++row)
    cells += std::clamp<std::int64_t>(visible_cells(op, row) - chunk * kAttentionChunk, 0, kAttentionChunk);
  return std::max<std::int64_t>(1, cells * item.heads());
}

}  // namespace

bool AttentionPlan::fits(const AttentionOp& op) const {
  return op.visible == visible_ && op.rows == rows_ && op.q_heads == q_heads_ && op.kv_heads == kv_heads_ && op.head_dim == head_dim_;
}

void AttentionPlan::make(const AttentionOp& op, int threads) {
  visible_ = op.visible;
  rows_ = op.rows, q_heads_ = op.q_heads, kv_heads_ = op.kv_heads, head_dim_ = op.head_dim;
  cut(op, threads);
  share_out(op, threads);
  keep_split_items(op.head_dim);
}

/// Makes items as large as leave enough units for all threads.
void AttentionPlan::cut(const AttentionOp& op, int threads) {
  const std::int64_t group = op.q_heads / op.kv_heads, chunks = chunks_of(op, 0, op.rows);
  may_split_ = threads > 1 && op.rows * op.q_heads * chunks * (op.head_dim + 2) <= kMostKeptFloats;
  std::int64_t rows = std::min(op.rows, kMostRows), heads = std::min(group, cpu::kAttentionQueries);
  const auto units = [&] {
    return parts(op.rows, std::max<std::int64_t>(1, rows)) * op.kv_heads * parts(group, heads) * (may_split_ ? chunks : 1);
  };
  while (threads > 1 && units() < 2 * threads && (rows > 1 || heads > 1)) {
    std::int64_t& larger = rows > 1 ? rows : heads;
    larger = parts(larger, 2);
  }
  items_.clear();
  for (std::int64_t row = 0; row < op.rows; row += rows) {
    const std::int64_t row_end = std::min(op.rows, row + rows);
    for (std::int64_t kv_head = 0; kv_head < op.kv_heads; ++kv_head) {
      for (std::int64_t head = 0; head < group; head += heads)
        items_.push_back({row, row_end, kv_head, head, std::min(group, head + heads), chunks_of(op, row, row_end)});
    }
  }
}

/// Gives each thread about equally much, cutting where half of a unit would be too much.
void AttentionPlan::share_out(const AttentionOp& op, int threads) {
  std::int64_t total = 0;
  for (const Item& item : items_) {
    for (std::int64_t chunk = 0; chunk < item.chunks; ++chunk) total += cost(op, item, chunk);
  }
  places_.assign(1, {});
  std::int64_t before = 0;
  const auto close_shares = [&](std::int64_t unit_cost, Place place) {
    while (static_cast<int>(places_.size()) < threads &&
           (2 * before + unit_cost) * threads >= 2 * total * static_cast<std::int64_t>(places_.size()))
      places_.push_back(place);
    before += unit_cost;
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (may_split_) {
      for (std::int64_t chunk = 0; chunk < items_[i].chunks; ++chunk) close_shares(cost(op, items_[i], chunk), {i, chunk});
    } else {
      std::int64_t whole = 0;
      for (std::int64_t chunk = 0; chunk < items_[i].chunks; ++chunk) whole += cost(op, items_[i], chunk);
      close_shares(whole, {i, 0});
    }
  }
  places_.resize(static_cast<std::size_t>(threads) + 1, {items_.size(), 0});
}

void AttentionPlan::keep_split_items(std::int64_t head_dim) {
  kept_floats_ = 0;
  for (const Place& place : places_) {
    if (place.chunk == 0 || items_[place.item].kept >= 0) continue;
    Item& item = items_[place.item];
    item.kept = kept_floats_;
    kept_floats_ += item.chunks * item.queries() * (head_dim + 2);
  }
}

}  // namespace yamata
