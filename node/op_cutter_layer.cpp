// Divides the products and the attention of a layer among the units.
#include <algorithm>

#include "node/cpu/slice_layout.hpp"
#include "node/cuts.hpp"
#include "node/op_cutter.hpp"

namespace yamata {
namespace {

// Outputs are divided at multiples of this: whole panels, and whole blocks, so that each unit can quantize what it has written.
constexpr std::int64_t kGrain = 32;
// A unit may have this fraction of the work too much or too little if that saves synchronizations, which cost less than this part of a
// layer.
constexpr double kUneven = 0.02;
// The same for attention, where segments would have to be merged.
constexpr double kUnevenHeads = 0.05;

std::int64_t stride_of(const LinearOp::Part& part) { return part.stride > 0 ? part.stride : part.weight->rows; }

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

// Products.

int OpCutter::label_of(const LinearOp& op) {
  WorkKind kind{.what = WorkKind::What::kProduct, .outputs = 0, .inputs = op.cols, .width_class = width_class_of(op.rows), .context = 0};
  for (const LinearOp::Part& part : op.parts) kind.outputs += part.weight ? part.weight->rows : 0;
  return shares_.label(kind);
}

/// The cut of a matrix's rows: at whole heads, if they are heads of a layer that is divided by heads.
Cut OpCutter::cut_of_part(const LinearOp::Part& part, const Heads* heads, std::span<const double> shares) const {
  if (heads && heads->whole_groups) {
    const StoreOp& store = *heads->store;
    if (part.y == store.q) return scaled(heads->queries, store.head_dim);
    if (part.y == store.k || part.y == store.v) return scaled(heads->keys, store.head_dim);
  }
  return cut_of(part.weight->rows, kGrain, shares);
}

void OpCutter::cut_op(const LinearOp& op) {
  if (std::ranges::none_of(op.parts, [](const auto& part) { return part.weight != nullptr; })) return cut_input_alone(op);
  if (op.x_each > 0) {
    LinearOp own = op;  // for the first unit, whose layout may differ from the others'
    for (LinearOp::Part& part : own.parts) part.weight = matrices_for(0, part.weight, std::max<std::int64_t>(1, op.experts.experts));
    return cut_alone(own);
  }
  const int label = label_of(op);
  const std::vector<double> shares(shares_.of(label).begin(), shares_.of(label).end());
  const Heads* heads = heads_of(op, shares);
  std::array<Cut, 3> outputs{};
  std::vector<Access> writes;
  Cut all{};
  std::int64_t count = 0;
  for (std::size_t i = 0; i < op.parts.size(); ++i) {
    const LinearOp::Part& part = op.parts[i];
    if (!part.weight) continue;
    outputs[i] = cut_of_part(part, heads, shares);
    writes.push_back(columns(part.y, op.rows, stride_of(part), part.weight->rows, outputs[i], true));
    for (std::size_t unit = 0; unit <= units_.size(); ++unit) all.at[unit] += outputs[i].at[unit];
    count += part.weight->rows;
  }
  if (op.share.group || (!op.experts.any() && (op.input || needs_quantized(op)))) {
    make_together(op, outputs, shares);
    accesses_.insert(accesses_.end(), writes.begin(), writes.end());
  } else {
    make_each(op, outputs, writes);
  }
  labelled(label, all, count);
}

/// The products of one unit.
LinearOp OpCutter::part_of(const LinearOp& op, std::size_t unit, const std::array<Cut, 3>& outputs) {
  LinearOp part = op;
  for (std::size_t i = 0; i < op.parts.size(); ++i) {
    if (!op.parts[i].weight) continue;
    part.parts[i].weight = matrices_for(unit, op.parts[i].weight, std::max<std::int64_t>(1, op.experts.experts));
    part.parts[i].outputs = outputs[i].of(unit);
  }
  return part;
}

/// The columns of the input that each unit provides: if possible, those that it has written itself.
Cut OpCutter::input_cut(const LinearOp& op, std::int64_t stride, std::int64_t width, std::span<const double> shares) {
  const auto parts_of = [&](const Cut& cut) {
    std::vector<Access> parts{columns(op.x, op.rows, stride, width, cut, false)};
    if (op.up) parts.push_back(columns(op.up, op.rows, stride, width, cut, false));
    return parts;
  };
  const auto* x = reinterpret_cast<const std::byte*>(op.x);
  for (const Access& before : accesses_) {
    if (!before.writes || before.begin != x || before.stride != stride || before.cut.at[units_.size()] != width) continue;
    const auto aligned = [&](std::int64_t at) { return at == width || (op.share.begin() + at) % kGrain == 0; };
    const auto cuts = std::span(before.cut.at).first(units_.size());
    if (std::ranges::all_of(cuts, aligned) && std::ranges::none_of(parts_of(before.cut), [&](const Access& a) { return conflicts(a); }))
      return before.cut;
  }
  const Cut cut = cut_of(width, kGrain, shares);
  access(parts_of(cut));
  return cut;
}

void OpCutter::make_together(const LinearOp& op, const std::array<Cut, 3>& outputs, std::span<const double> shares) {
  const std::int64_t begin = op.share.begin(), width = op.share.end(op.cols) - begin, stride = op.x_stride > 0 ? op.x_stride : width;
  const Cut own = input_cut(op, stride, width, shares);
  const std::span<const std::int64_t> cuts = op.share.group ? op.share.cuts : lone_cuts(op.cols);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    LinearOp part = part_of(op, unit, outputs);
    part.x = op.x + own.at[unit];
    if (op.up) part.up = op.up + own.at[unit];
    part.x_stride = stride;
    part.share = {&units_of(op.share, unit), cuts, {begin + own.at[unit], begin + own.at[unit + 1]}};
    part.input = !needs_floats(op) ? nullptr : unit == 0 && op.input ? op.input : inputs_[unit].data();
    lists_[unit].push_back(part);
    if (unit == 0) slice_bytes_ = std::max(slice_bytes_, slices_of(part).bytes());
  }
  after_barrier();
  if (op.input && needs_floats(op)) accesses_.push_back(whole(op.input, static_cast<std::size_t>(op.rows * op.cols) * sizeof(float), true));
}

/// Each unit makes the whole input for itself, if the input must be made.
void OpCutter::make_each(const LinearOp& op, const std::array<Cut, 3>& outputs, std::vector<Access>& accesses) {
  const std::int64_t stride = op.x_stride > 0 ? op.x_stride : op.cols;
  const auto bytes = static_cast<std::size_t>((op.rows - 1) * stride + op.cols) * sizeof(float);
  accesses.push_back(whole(op.x, bytes, false));
  if (op.up) accesses.push_back(whole(op.up, bytes, false));
  access(accesses);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    LinearOp part = part_of(op, unit, outputs);
    if (op.input && needs_floats(op)) part.input = inputs_[unit].data();
    lists_[unit].push_back(part);
  }
}

/// There is no product: only the input is made, by the first unit. In a group, all units provide their columns.
void OpCutter::cut_input_alone(const LinearOp& op) {
  if (op.share.group) return make_together(op, {}, shares_.of(UnitShares::kOther));
  add_barrier();
  lists_[0].push_back(op);
  accesses_.push_back(whole(op.input, static_cast<std::size_t>(op.rows * op.cols) * sizeof(float), true));
}

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

/// Query heads that share a key/value head stay together, unless that would be too uneven or divide panels.
OpCutter::Heads OpCutter::heads_of(const StoreOp& store, std::span<const double> shares) const {
  Heads heads{&store, cut_of(store.q_heads, 1, shares), cut_of(store.kv_heads, 1, shares), false};
  const AttentionOp* attention = attention_of(store.q);
  const std::int64_t group = attention ? attention->heads_per_kv() : std::max<std::int64_t>(1, store.q_heads / store.kv_heads);
  const std::int64_t before = attention ? attention->before : 0;
  Cut groups = heads.keys;
  for (std::size_t unit = 0; unit <= units_.size(); ++unit)
    groups.at[unit] = std::clamp<std::int64_t>(groups.at[unit] * group - before, 0, store.q_heads);
  groups.at[units_.size()] = store.q_heads;
  if (store.head_dim % 16 != 0 || unevenness(groups, shares) > kUneven) return heads;
  heads.queries = groups;
  heads.whole_groups = true;
  return heads;
}

void OpCutter::cut_op(const StoreOp& op) {
  if (!op.v) return cut_alone(op);  // one cell for all heads
  if (!heads_ || heads_->store != &op) heads_ = heads_of(op, shares_.of(UnitShares::kOther));
  const Cut &queries = heads_->queries, &keys = heads_->keys;
  const std::int64_t q_dim = op.q_heads * op.head_dim, kv_dim = op.kv_heads * op.head_dim;
  const Cut q_columns = scaled(queries, op.head_dim), kv_columns = scaled(keys, op.head_dim);
  access(std::array{columns(op.q, op.rows, q_dim, q_dim, q_columns, true), columns(op.k, op.rows, kv_dim, kv_dim, kv_columns, true),
                    columns(op.v, op.rows, kv_dim, kv_dim, kv_columns, false), cache(op.cache_k, op.kv_heads, keys, true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    StoreOp part = op;
    part.queries = queries.of(unit), part.keys = keys.of(unit);
    lists_[unit].push_back(part);
  }
}

OpCutter::Access OpCutter::cache(void* const* planes, std::int64_t kv_heads, const Cut& keys, bool writes) {
  const auto* begin = reinterpret_cast<const std::byte*>(planes);
  return {begin, begin + static_cast<std::size_t>(kv_heads) * sizeof(void*), 1, keys, writes};
}

// Attention.

/// Number of the cache's segments to divide among the units; 0: whole heads are divided.
std::int64_t OpCutter::segments_of(const AttentionOp& op, std::span<const double> shares) const {
  constexpr std::int64_t kMaxFloats = 4 << 20;  // the limit is that of a single unit
  const std::int64_t segments = (most_cells(op) + kAttentionSegment - 1) / kAttentionSegment;
  const bool few = segments < 2 * std::ssize(units_) || op.rows * op.q_heads * segments * (op.head_dim + 2) > kMaxFloats;
  return few || unevenness(cut_of(op.q_heads, 1, shares), shares) <= kUnevenHeads ? 0 : segments;
}

int OpCutter::label_of(const AttentionOp& op) {
  return shares_.label({.what = WorkKind::What::kAttention,
                        .outputs = op.q_heads,
                        .inputs = op.head_dim,
                        .width_class = width_class_of(op.rows),
                        .context = context_bucket_of(most_cells(op))});
}

void OpCutter::cut_op(const AttentionOp& op) {
  if (heads_ && heads_->whole_groups && heads_->store->q == op.q && heads_->queries.at[units_.size()] == op.q_heads)
    return cut_heads(op, heads_->queries, cache(op.cache_k, op.kv_heads, heads_->keys, false));
  const int label = label_of(op);
  const auto shares = shares_.of(label);
  if (const std::int64_t segments = segments_of(op, shares); segments > 0) return cut_segments(op, segments, label);
  const Cut heads = cut_of(op.q_heads, 1, shares);
  cut_heads(op, heads, whole(op.cache_k, static_cast<std::size_t>(op.kv_heads) * sizeof(void*), false));
  labelled(label, heads, op.q_heads);
}

void OpCutter::cut_heads(const AttentionOp& op, const Cut& heads, const Access& cells) {
  const std::int64_t width = op.q_heads * op.head_dim;
  const Cut own = scaled(heads, op.head_dim);
  access(std::array{columns(op.q, op.rows, width, width, own, false), cells, columns(op.out, op.rows, width, width, own, true)});
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
  const Cut cut = cut_of(segments, 1, shares_.of(label));
  cut_parts({op, partials}, cut);
  labelled(label, cut, segments);
  cut_op(MergeAttentionOp{op, partials});
}

void OpCutter::cut_op(const AttentionPartOp& op) {
  cut_parts(op, cut_of(op.partials.last - op.partials.first, 1, shares_.of(label_of(op.attention))));
}

void OpCutter::cut_parts(const AttentionPartOp& op, const Cut& segments) {
  const AttentionOp& a = op.attention;
  const std::int64_t width = a.q_heads * a.head_dim, states = a.rows * a.q_heads, count = segments.at[units_.size()];
  access(std::array{whole(a.q, static_cast<std::size_t>(a.rows * width) * sizeof(float), false),
                    whole(a.cache_k, static_cast<std::size_t>(a.kv_heads) * sizeof(void*), false),
                    whole(op.partials.out, static_cast<std::size_t>(count * states * a.head_dim) * sizeof(float), true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (segments.count(unit) == 0) continue;
    const std::int64_t first = segments.at[unit];
    const AttentionPartials part{op.partials.first + first, op.partials.first + segments.at[unit + 1],
                                 op.partials.out + first * states * a.head_dim, op.partials.peak + first * states,
                                 op.partials.total + first * states};
    lists_[unit].push_back(AttentionPartOp{a, part});
  }
}

/// By heads: each unit merges those that its next product uses.
void OpCutter::cut_op(const MergeAttentionOp& op) {
  const AttentionOp& a = op.attention;
  const std::int64_t width = a.q_heads * a.head_dim, states = a.rows * a.q_heads * op.partials.last;
  const Cut heads = cut_of(a.q_heads, 1, shares_.of(UnitShares::kOther));
  access(std::array{whole(op.partials.out, static_cast<std::size_t>(states * a.head_dim) * sizeof(float), false),
                    columns(a.out, a.rows, width, width, scaled(heads, a.head_dim), true)});
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    MergeAttentionOp part = op;
    part.attention.heads = heads.of(unit);
    lists_[unit].push_back(part);
  }
}

}  // namespace yamata
