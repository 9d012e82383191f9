#include "node/cpu/attention_plan.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace yamata {
namespace {

std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

std::int64_t visible_cells(const AttentionOp& op, std::int64_t row) { return static_cast<std::int64_t>(op.visible[row].size()); }

std::int64_t segments_of(const AttentionOp& op, std::span<const std::int32_t> rows) {
  std::int64_t most = 0;
  for (const std::int32_t row : rows) most = std::max(most, visible_cells(op, row));
  return std::max<std::int64_t>(1, parts(most, AttentionPlan::kSegment));
}

/// Number of products of queries and cells in some segments of an item.
std::int64_t cost(const AttentionOp& op, const AttentionPlan::Item& item, std::int64_t segment, std::int64_t segments) {
  std::int64_t cells = 0;
  for (const std::int32_t row : item.rows)
    cells += std::clamp<std::int64_t>(visible_cells(op, row) - segment * AttentionPlan::kSegment, 0, segments * AttentionPlan::kSegment);
  return std::max<std::int64_t>(1, cells * item.heads());
}

// Items are split if a thread has fewer than kFewItems, or if it has fewer than kSomeItems and they are long. Otherwise whole items are
// divided evenly enough, and need no barrier and no merging.
constexpr std::int64_t kFewItems = 2, kSomeItems = 8, kManySegments = 4;

}  // namespace

bool AttentionPlan::fits(const AttentionOp& op) const {
  return op.visible == visible_ && op.rows == rows_ && op.q_heads == q_heads_ && op.kv_heads == kv_heads_ && op.head_dim == head_dim_ &&
         op.before == before_ && op.heads == heads_;
}

AttentionPlan::Heads AttentionPlan::group_heads(const AttentionOp& op, std::int64_t kv_head) {
  const std::int64_t group = op.heads_per_kv(), first = kv_head * group;
  return {std::max<std::int64_t>(0, op.before + op.heads.begin - first), std::min(group, op.before + op.heads.end_of(op.q_heads) - first)};
}

const AttentionPlan::Item& AttentionPlan::item_of(std::int64_t piece) const {
  const auto after =
      std::upper_bound(items_.begin(), items_.end(), piece, [](std::int64_t p, const Item& item) { return p < item.first_piece; });
  return *std::prev(after);
}

void AttentionPlan::make(const AttentionOp& op, int threads) {
  visible_ = op.visible;
  rows_ = op.rows, q_heads_ = op.q_heads, kv_heads_ = op.kv_heads, head_dim_ = op.head_dim, before_ = op.before, heads_ = op.heads;
  order_rows(op);
  cut(op, threads);
  number_pieces(op, threads);
  share_out(op, threads);
}

/// Rows of a tree are ordered by the cells that they see, a parent before its children: then most of the cells that are converted for one
/// row serve the next one, too. Picked cells are not known yet, and another unit may be writing them.
void AttentionPlan::order_rows(const AttentionOp& op) {
  const auto* cells = op.picked_of ? op.picked_of : op.visible;
  order_.resize(static_cast<std::size_t>(op.rows));
  std::iota(order_.begin(), order_.end(), 0);
  const auto fewer = [&](std::int32_t row, std::int32_t other) { return cells[row].size() < cells[other].size(); };
  if (std::ranges::is_sorted(order_, fewer) && std::ranges::adjacent_find(order_, std::not_fn(fewer)) == order_.end()) return;  // one text
  const std::size_t least = cells[std::ranges::min(order_, fewer)].size();
  const auto tail = [&](std::int32_t row) { return cells[row].subspan(least > 0 ? least - 1 : 0); };
  std::ranges::sort(order_, [&](std::int32_t row, std::int32_t other) {
    const auto one = tail(row), two = tail(other);
    const auto [at, there] = std::ranges::mismatch(one, two);
    if (there == two.end()) return at == one.end() && row < other;
    return at == one.end() || *at < *there;
  });
}

/// Makes items as large as possible while there are enough pieces for all threads.
void AttentionPlan::cut(const AttentionOp& op, int threads) {
  const std::int64_t group = op.heads_per_kv(), segments = segments_of(op, order_);
  const std::int64_t here = op.heads.count_of(op.q_heads), first = (op.before + op.heads.begin) / group;
  const std::int64_t kv_heads = here > 0 ? (op.before + op.heads.begin + here - 1) / group + 1 - first : 0;
  most_segments_ = segments;
  may_split_ = threads > 1 && segments > 1 && op.rows * op.q_heads * segments * (op.head_dim + 2) <= kMaxKeptFloats;
  std::int64_t rows = std::min(op.rows, kMaxRows), heads = std::min(group, cpu::kAttentionQueries);
  const auto pieces = [&] {
    return parts(op.rows, std::max<std::int64_t>(1, rows)) * kv_heads * parts(group, heads) * (may_split_ ? segments : 1);
  };
  while (threads > 1 && pieces() < kFewItems * threads && (rows > 1 || heads > 1)) {
    std::int64_t& larger = rows > 1 ? rows : heads;
    larger = parts(larger, 2);
  }
  items_.clear();
  for (std::int64_t row = 0; row < op.rows; row += rows) {
    const auto its_rows = std::span(order_).subspan(static_cast<std::size_t>(row), static_cast<std::size_t>(std::min(op.rows - row, rows)));
    for (std::int64_t kv_head = first; kv_head < first + kv_heads; ++kv_head) {
      const auto [begin, end] = group_heads(op, kv_head);
      for (std::int64_t head = begin; head < end; head += heads)
        items_.push_back({its_rows, kv_head, head, std::min(end, head + heads), segments_of(op, its_rows)});
    }
  }
}

void AttentionPlan::number_pieces(const AttentionOp& op, int threads) {
  const auto items = static_cast<std::int64_t>(items_.size());
  const bool split = may_split_ && (items < kFewItems * threads || (items < kSomeItems * threads && most_segments_ >= kManySegments));
  std::int64_t pieces = 0;
  kept_floats_ = 0, most_queries_ = 0;
  for (Item& item : items_) {
    item.first_piece = pieces;
    item.kept = kept_floats_;
    pieces += split ? item.segments : 1;
    kept_floats_ += split ? item.segments * item.queries() * (op.head_dim + 2) : 0;
    most_queries_ = std::max(most_queries_, item.queries());
  }
}

/// Gives each thread about the same cost. A piece belongs to the thread in whose share its middle lies.
void AttentionPlan::share_out(const AttentionOp& op, int threads) {
  std::int64_t total = 0, before = 0, piece = 0;
  for (const Item& item : items_) total += cost(op, item, 0, item.segments);
  begins_.assign(1, 0);
  const auto next_piece = [&](std::int64_t its_cost) {
    while (static_cast<int>(begins_.size()) < threads &&
           (2 * before + its_cost) * threads >= 2 * total * static_cast<std::int64_t>(begins_.size()))
      begins_.push_back(piece);
    before += its_cost;
    ++piece;
  };
  for (const Item& item : items_) {
    if (!split()) {
      next_piece(cost(op, item, 0, item.segments));
      continue;
    }
    for (std::int64_t segment = 0; segment < item.segments; ++segment) next_piece(cost(op, item, segment, 1));
  }
  begins_.resize(static_cast<std::size_t>(threads) + 1, piece);
}

}  // namespace yamata
