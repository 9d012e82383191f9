// Divides attention, and what is written into the cache, among the units: by heads, or by segments of the cells.
#include <algorithm>
#include <cmath>

#include "node/units/op_cutter.hpp"

namespace yamata {
namespace {

// A unit may have this fraction of the work too much or too little if that saves synchronizations, which cost less than this part of a
// layer.
constexpr double kUneven = 0.02;
// The same for attention, where segments would have to be merged.
constexpr double kUnevenHeads = 0.05;

/// Cells before the first token of the run.
std::int64_t cells_before(const AttentionOp& op) {
  std::int64_t least = std::ssize(op.visible[0]);
  for (std::int64_t row = 1; row < op.rows; ++row) least = std::min(least, std::ssize(op.visible[row]));
  return std::max<std::int64_t>(0, least - 1);
}

std::int64_t most_cells(const AttentionOp& op) {
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < op.rows; ++row) most = std::max(most, static_cast<std::int64_t>(op.visible[row].size()));
  return most;
}

/// The largest difference between a unit's part and its share.
double unevenness(const Cut& cut, std::span<const double> shares) {
  double before = 0, most = 0;
  const auto count = static_cast<double>(cut.at[shares.size()]);
  for (std::size_t unit = 0; unit < shares.size(); ++unit) {
    before += shares[unit];
    most = std::max(most, std::abs(static_cast<double>(cut.at[unit + 1]) / count - before));
  }
  return most;
}

}  // namespace

// Heads.

const AttentionOp* OpCutter::attention_of(const float* q) const {
  for (std::size_t i = at_; i < ops_.size(); ++i) {
    const auto* attention = std::get_if<AttentionOp>(&ops_[i]);
    if (attention && attention->q == q) return attention;
  }
  return nullptr;
}

/// How the heads computed by `op` are divided; null if it computes none.
const OpCutter::Heads* OpCutter::heads_of(const LinearOp& op, std::span<const double> shares) {
  constexpr std::size_t kFar = 8;  // operations between the product and the cache
  for (std::size_t i = at_ + 1; i < std::min(ops_.size(), at_ + kFar); ++i) {
    const auto* store = std::get_if<StoreOp>(&ops_[i]);
    if (!store || !store->v) continue;
    const bool makes = std::ranges::any_of(op.parts, [&](const LinearOp::Part& part) {
      return part.weight && (part.y == store->q || part.y == store->k || part.y == store->v);
    });
    if (makes && (!heads_ || heads_->store != store)) heads_ = heads_of(*store, shares);
    return makes ? &*heads_ : nullptr;
  }
  return nullptr;
}

/// Query heads that share a key/value head stay together, unless that would be too uneven or divide panels, or attention has its own
/// shares.
OpCutter::Heads OpCutter::heads_of(const StoreOp& store, std::span<const double> shares) const {
  Heads heads{&store, cut_of(store.q_heads, 1, shares), cut_of(store.kv_heads, 1, shares), false};
  const AttentionOp* attention = attention_of(store.q);
  const std::int64_t group = attention ? attention->heads_per_kv() : std::max<std::int64_t>(1, store.q_heads / store.kv_heads);
  const std::int64_t before = attention ? attention->before : 0;
  Cut groups = heads.keys;
  for (std::size_t unit = 0; unit <= units_.size(); ++unit)
    groups.at[unit] = std::clamp<std::int64_t>(groups.at[unit] * group - before, 0, store.q_heads);
  groups.at[units_.size()] = store.q_heads;
  if (apart_ || store.head_dim % 16 != 0 || unevenness(groups, shares) > kUneven) return heads;
  heads.queries = groups;
  heads.whole_groups = true;
  return heads;
}

void OpCutter::cut_op(const StoreOp& op) {
  if (!op.v) return cut_alone(op);  // one cell for all heads
  if (!heads_ || heads_->store != &op) heads_ = heads_of(op, shares_.of(UnitShares::kOther));
  const Cut &queries = heads_->queries, &keys = heads_->keys;
  const std::int64_t q_dim = op.q_heads * op.head_dim, kv_dim = op.kv_heads * op.head_dim;
  const Cut q_columns = queries.scaled(op.head_dim), kv_columns = keys.scaled(op.head_dim);
  access(std::array{UnitAccess::columns(op.q, op.rows, q_dim, q_dim, q_columns, true),
                    UnitAccess::columns(op.k, op.rows, kv_dim, kv_dim, kv_columns, true),
                    UnitAccess::columns(op.v, op.rows, kv_dim, kv_dim, kv_columns, false),
                    UnitAccess::cells(op.cache_k, op.kv_heads, keys, true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    StoreOp part = op;
    part.queries = queries.of(unit), part.keys = keys.of(unit);
    lists_[unit].push_back(part);
  }
}

// Attention.

void OpCutter::divide_attention(AttentionCut cut, std::size_t dense) { attention_cut_ = cut, dense_unit_ = dense; }

/// Number of the cache's segments to divide among the units; 0: whole heads are divided.
std::int64_t OpCutter::segments_of(const AttentionOp& op, std::span<const double> shares) const {
  constexpr std::int64_t kMaxFloats = 4 << 20;  // the limit is that of a single unit
  const std::int64_t segments = (most_cells(op) + kAttentionSegment - 1) / kAttentionSegment;
  if (op.rows * op.q_heads * segments * (op.head_dim + 2) > kMaxFloats) return 0;
  if (units_.size() > 1 && attention_cut_ == AttentionCut::kStatic) return segments;
  if (attention_cut_ == AttentionCut::kDynamic) return segments < 2 ? 0 : segments;
  return segments < 2 * std::ssize(units_) || unevenness(cut_of(op.q_heads, 1, shares), shares) <= kUnevenHeads ? 0 : segments;
}

/// Divides segments by the shares. The first ones are those of the dense unit: before `boundary`, if there is one.
OpCutter::Segments OpCutter::cut_of_segments(std::int64_t count, std::span<const double> shares,
                                             std::optional<std::int64_t> boundary) const {
  std::array<std::size_t, kMaxUnits> order{dense_unit_};
  std::size_t next = 1;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (unit != dense_unit_) order[next++] = unit;
  }
  Segments segments{};
  if (boundary) segments[dense_unit_] = {0, *boundary};
  const auto those = std::span(order).first(next).subspan(boundary ? 1 : 0);
  std::array<double, kMaxUnits> of_those{};
  for (std::size_t i = 0; i < those.size(); ++i) of_those[i] = shares[those[i]];
  const std::int64_t first = boundary.value_or(0);
  const Cut cut = cut_of(count - first, 1, std::span(of_those).first(those.size()));
  for (std::size_t i = 0; i < those.size(); ++i) segments[those[i]] = {first + cut.at[i], first + cut.at[i + 1]};
  return segments;
}

int OpCutter::label_of(const AttentionOp& op) {
  return shares_.label({.what = WorkKind::What::kAttention,
                        .outputs = op.q_heads,
                        .inputs = op.head_dim,
                        .width_class = width_class_of(op.rows),
                        .context = context_bucket_of(most_cells(op))});
}

/// Each unit picks for its rows.
void OpCutter::cut_op(const PickOp& op) {
  const Cut rows = cut_of(op.rows, 1, shares_.of(UnitShares::kOther));
  const auto floats = [&](std::int64_t width) { return static_cast<std::size_t>(op.rows * width) * sizeof(float); };
  access(std::array{UnitAccess::whole(op.q, floats(op.heads * op.dim), false),
                    UnitAccess::whole(op.weights, static_cast<std::size_t>(op.weight_count()) * sizeof(float), false),
                    UnitAccess::whole(op.cache, sizeof(void*), false),
                    UnitAccess::whole(op.to(), static_cast<std::size_t>(op.picks()) * sizeof(std::int32_t), true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (rows.count(unit) == 0) continue;
    PickOp part = op;
    part.rows = rows.count(unit);
    part.q += rows.at[unit] * op.heads * op.dim, part.weights += rows.at[unit] * op.weight_row();
    part.visible += rows.at[unit], part.picked += rows.at[unit];
    if (op.blocks) part.blocks += rows.at[unit];
    lists_[unit].push_back(part);
  }
}

/// All units attend to what each has picked.
void OpCutter::wait_for_picks(const AttentionOp& op) {
  if (!op.picked_of) return;
  std::size_t bytes = 0;
  for (std::int64_t row = 0; row < op.rows; ++row) bytes += op.visible[row].size_bytes();
  access(std::array{UnitAccess::whole(op.visible[0].data(), bytes, false)});
}

void OpCutter::cut_op(const AttentionOp& op) {
  wait_for_picks(op);
  const bool as_products = heads_ && heads_->whole_groups && heads_->store->q == op.q && heads_->queries.at[units_.size()] == op.q_heads;
  const int label = label_of(op);
  const auto shares = shares_.of(label);
  const std::int64_t segments = as_products && attention_cut_ == AttentionCut::kHeads ? 0 : segments_of(op, shares);
  if (as_products && segments == 0) return cut_heads(op, heads_->queries, UnitAccess::cells(op.cache_k, op.kv_heads, heads_->keys, false));
  begin_labelled();
  if (segments > 0) return cut_segments(op, segments, label);
  const Cut heads = cut_of(op.q_heads, 1, shares);
  cut_heads(op, heads, UnitAccess::whole(op.cache_k, static_cast<std::size_t>(op.kv_heads) * sizeof(void*), false));
  labelled(label, heads, op.q_heads);
}

void OpCutter::cut_heads(const AttentionOp& op, const Cut& heads, const UnitAccess& cells) {
  const std::int64_t width = op.q_heads * op.head_dim;
  const Cut own = heads.scaled(op.head_dim);
  access(std::array{UnitAccess::columns(op.q, op.rows, width, width, own, false), cells,
                    UnitAccess::columns(op.out, op.rows, width, width, own, true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    AttentionOp part = op;
    part.heads = heads.of(unit);
    if (heads.count(unit) > 0) lists_[unit].push_back(part);
  }
}

void OpCutter::cut_segments(const AttentionOp& op, std::int64_t segments, int label) {
  const std::int64_t states = segments * op.rows * op.q_heads;
  float* out = partials_.data();
  const AttentionPartials partials{0, segments, out, out + states * op.head_dim, out + states * (op.head_dim + 1)};
  const bool fixed = attention_cut_ == AttentionCut::kStatic;
  const Segments cut =
      cut_of_segments(segments, shares_.of(label), fixed ? std::optional(cells_before(op) / kAttentionSegment) : std::nullopt);
  cut_parts({op, partials}, cut);
  std::array<double, kMaxUnits> fractions{};
  for (std::size_t unit = 0; unit < units_.size(); ++unit)
    fractions[unit] = static_cast<double>(cut[unit].end - cut[unit].begin) / static_cast<double>(segments);
  labelled(label, fractions);
  cut_op(MergeAttentionOp{op, partials});
}

void OpCutter::cut_op(const AttentionPartOp& op) {
  cut_parts(op, cut_of_segments(op.partials.last - op.partials.first, shares_.of(label_of(op.attention)), std::nullopt));
}

/// `segments`: those of each unit, counted from the first of the operation.
void OpCutter::cut_parts(const AttentionPartOp& op, const Segments& segments) {
  const AttentionOp& a = op.attention;
  const std::int64_t width = a.q_heads * a.head_dim, states = a.rows * a.q_heads, count = op.partials.last - op.partials.first;
  access(std::array{UnitAccess::whole(a.q, static_cast<std::size_t>(a.rows * width) * sizeof(float), false),
                    UnitAccess::whole(a.cache_k, static_cast<std::size_t>(a.kv_heads) * sizeof(void*), false),
                    UnitAccess::whole(op.partials.out, static_cast<std::size_t>(count * states * a.head_dim) * sizeof(float), true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const auto [begin, end] = segments[unit];
    if (begin == end) continue;
    const AttentionPartials part{op.partials.first + begin, op.partials.first + end, op.partials.out + begin * states * a.head_dim,
                                 op.partials.peak + begin * states, op.partials.total + begin * states};
    lists_[unit].push_back(AttentionPartOp{a, part});
  }
}

/// By heads: each unit merges those that its next product uses.
void OpCutter::cut_op(const MergeAttentionOp& op) {
  const AttentionOp& a = op.attention;
  const std::int64_t width = a.q_heads * a.head_dim, states = a.rows * a.q_heads * op.partials.last;
  const Cut heads = cut_of(a.q_heads, 1, shares_.of(UnitShares::kOther));
  access(std::array{UnitAccess::whole(op.partials.out, static_cast<std::size_t>(states * a.head_dim) * sizeof(float), false),
                    UnitAccess::columns(a.out, a.rows, width, width, heads.scaled(a.head_dim), true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    MergeAttentionOp part = op;
    part.attention.heads = heads.of(unit);
    lists_[unit].push_back(part);
  }
}

}  // namespace yamata
