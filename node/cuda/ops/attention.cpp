// The KV cache and attention.
#include <algorithm>
#include <vector>

#include "node/cuda/ops/ops.hpp"
#include "node/device_scratch.hpp"

namespace yamata::cuda {
namespace {

using CellLists = std::span<const std::int32_t> const*;  ///< [rows]

/// `picked_of`: if the cells are picked by this list, those of which they are.
const OpContext::Visible& visible_of(OpContext& c, CellLists lists, std::int64_t rows, CellLists picked_of = nullptr) {
  const auto [at, is_new] = c.visible.try_emplace({lists, rows});
  OpContext::Visible& visible = at->second;
  if (!is_new) return visible;
  std::vector<std::int64_t> begins{0};
  for (std::int64_t row = 0; row < rows; ++row) {
    begins.push_back(begins.back() + std::ssize(lists[row]));
    visible.most = std::max<std::int64_t>(visible.most, std::ssize(lists[row]));
  }
  const auto count = static_cast<std::size_t>(begins.back());
  auto* const all = reinterpret_cast<std::int32_t*>(c.memory.arguments(picked_of ? 0 : count * sizeof(std::int32_t)));
  visible.begins = c.memory.own(c.memory.put(std::span<const std::int64_t>(begins)), begins.size());
  if (picked_of) {
    visible.highest = visible_of(c, picked_of, rows).highest;
    visible.cells = c.memory.at(lists[0].data(), count);
    return visible;
  }
  std::int32_t* cells = all;
  for (std::int64_t row = 0; row < rows; ++row) {
    cells = std::ranges::copy(lists[row], cells).out;
    for (const std::int32_t cell : lists[row]) visible.highest = std::max<std::int64_t>(visible.highest, cell);
  }
  visible.cells = c.memory.own(all, count);
  return visible;
}

const OpContext::Visible& visible_of(OpContext& c, const AttentionOp& op) { return visible_of(c, op.visible, op.rows, op.picked_of); }

/// The planes of some heads, with cells up to `highest`.
void* const* planes(OpContext& c, void* const* heads, std::int64_t count, TensorType type, std::int64_t head_dim, std::int64_t highest) {
  std::vector<void*> known;
  for (std::int64_t head = 0; head < count; ++head)
    known.push_back(c.memory.at(static_cast<std::byte*>(heads[head]), static_cast<std::size_t>(highest + 1) * row_bytes(type, head_dim)));
  return c.memory.kept_values(std::span<void* const>(known));
}

/// Arguments without rows, segments and results.
AttentionArgs args_of(OpContext& c, const AttentionOp& op) {
  const OpContext::Visible& visible = visible_of(c, op);
  AttentionArgs a{};
  a.q = c.memory.at(op.q, static_cast<std::size_t>(op.rows * op.q_heads * op.head_dim));
  a.rows = op.rows, a.q_heads = op.q_heads, a.kv_heads = op.kv_heads, a.head_dim = op.head_dim;
  a.group = op.heads_per_kv(), a.before = op.before;
  a.head_begin = op.heads.begin, a.head_end = op.heads.end_of(op.q_heads);
  a.scale = op.scale, a.softcap = op.softcap;
  a.begins = visible.begins, a.cells = visible.cells;
  a.cache_k = planes(c, op.cache_k, op.kv_heads, op.k_type, op.head_dim, visible.highest);
  a.cache_v = planes(c, op.cache_v, op.kv_heads, op.v_type, op.head_dim, visible.highest);
  a.k_type = op.k_type, a.v_type = op.v_type;
  return a;
}

MergeArgs merge_of(OpContext& c, const AttentionOp& op, const AttentionArgs& a, float* out) {
  const float* sinks = op.sinks ? c.memory.at(op.sinks, static_cast<std::size_t>(op.q_heads)) : nullptr;
  return {a.rows, a.q_heads, a.head_dim, a.head_begin, a.head_end, a.begins, a.out, a.peak, a.total, out, sinks};
}

}  // namespace

bool run(OpContext& c, const StoreOp& op) {
  std::int64_t highest = 0;
  for (std::int64_t row = 0; row < op.rows; ++row) highest = std::max<std::int64_t>(highest, op.cells[row]);
  const auto floats = [&](std::int64_t heads) { return static_cast<std::size_t>(op.rows * heads * op.head_dim); };
  StoreArgs a{};
  a.q = c.memory.at(op.q, floats(op.q_heads)), a.k = c.memory.at(op.k, floats(op.kv_heads));
  if (op.v) a.v = c.memory.at(op.v, floats(op.kv_heads));
  a.rows = op.rows, a.q_heads = op.q_heads, a.kv_heads = op.kv_heads, a.head_dim = op.head_dim, a.rotary_dim = op.rotary_dim;
  a.q_begin = op.queries.begin, a.q_end = op.queries.end_of(op.q_heads);
  a.kv_begin = op.keys.begin, a.kv_end = op.keys.end_of(op.kv_heads);
  a.interleaved = op.interleaved;
  a.cos_sin = c.memory.once(std::span(op.cos_sin, static_cast<std::size_t>(op.rows * op.rotary_dim)));
  a.cells = c.memory.once(std::span(op.cells, static_cast<std::size_t>(op.rows)));
  a.cache_k = planes(c, op.cache_k, op.kv_heads, op.k_type, op.head_dim, highest);
  a.cache_v = op.v ? planes(c, op.cache_v, op.kv_heads, op.v_type, op.head_dim, highest) : a.cache_k;
  a.k_type = op.k_type, a.v_type = op.v_type;
  const auto weights = static_cast<std::size_t>(op.head_dim);
  if (op.q_norm) a.q_norm = c.memory.at(op.q_norm, weights);
  if (op.k_norm) a.k_norm = c.memory.at(op.k_norm, weights);
  a.unit_norm = op.unit_norm, a.norm_last = op.norm_last, a.epsilon = op.epsilon;
  if (op.q_scale) a.q_scale = c.memory.once(std::span(op.q_scale, static_cast<std::size_t>(op.rows)));
  a.q_rotary_stride = op.q_rotary_stride;
  if (op.q_rotary && op.rows > 0)
    a.q_rotary = c.memory.at(op.q_rotary, static_cast<std::size_t>((op.rows * op.q_heads - 1) * op.q_rotary_stride + op.rotary_dim));
  c.kernels().store(a, c.stream());
  c.check("storing keys and values");
  return true;
}

bool run(OpContext& c, const PickOp& op) {
  const OpContext::Visible visible = visible_of(c, op.visible, op.rows), picked = visible_of(c, op.picked, op.rows, op.all()),
                           all = op.blocks ? visible_of(c, op.blocks, op.rows) : visible;
  const auto most = static_cast<std::int64_t>(kMaxDeviceScoreBytes / sizeof(float)) / std::max<std::int64_t>(1, visible.most);
  const std::int64_t step = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, op.rows));
  auto* scores =
      reinterpret_cast<float*>(c.memory.scratch(Scratch::kScores, static_cast<std::size_t>(step * visible.most) * sizeof(float)));
  const float *q = c.memory.at(op.q, static_cast<std::size_t>(op.rows * op.heads * op.dim)),
              *weights = c.memory.at(op.weights, static_cast<std::size_t>(op.weight_count()));
  const std::byte* cache =
      c.memory.at(static_cast<const std::byte*>(op.cache[0]), static_cast<std::size_t>(visible.highest + 1) * row_bytes(op.type, op.dim));
  std::int32_t* to = c.memory.at(op.to(), static_cast<std::size_t>(op.picks()));
  for (std::int64_t row = 0; row < op.rows; row += step) {
    const std::int64_t rows = std::min(step, op.rows - row);
    c.kernels().index_scores({q + row * op.heads * op.dim, weights + row * op.weight_row(), op.weight_row(), rows, op.heads, op.dim,
                              visible.begins + row, visible.cells, cache, op.type, scores, visible.most, visible.most},
                             c.stream());
    c.check("scores of an index");
    c.kernels().pick({scores, visible.most, rows, visible.begins + row, op.block, all.begins + row, all.cells, picked.begins + row, to},
                     c.stream());
    c.check("picking cells");
  }
  return true;
}

bool run(OpContext& c, const PoolOp& op) {
  const OpContext::Visible& visible = visible_of(c, op.cells, op.rows);
  const std::byte* cache =
      c.memory.at(static_cast<const std::byte*>(op.cache[0]), static_cast<std::size_t>(visible.highest + 1) * row_bytes(op.type, op.dim));
  c.kernels().pool(
      {cache, op.type, op.rows, op.dim, visible.begins, visible.cells, c.memory.at(op.out, static_cast<std::size_t>(op.rows * op.dim))},
      c.stream());
  c.check("means of keys");
  return true;
}

bool run(OpContext& c, const AttentionOp& op) {
  AttentionArgs all = args_of(c, op);
  float* out = c.memory.at(op.out, static_cast<std::size_t>(op.rows * op.q_heads * op.head_dim));
  const std::int64_t segments = (visible_of(c, op).most + kAttentionSegment - 1) / kAttentionSegment;
  const std::int64_t row_floats = std::max<std::int64_t>(1, segments * op.q_heads * (op.head_dim + 2));
  const auto most = static_cast<std::int64_t>(kMaxDevicePartialBytes / sizeof(float)) / row_floats;
  const std::int64_t step = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, op.rows));
  auto* partials =
      reinterpret_cast<float*>(c.memory.scratch(Scratch::kPartials, static_cast<std::size_t>(step * row_floats) * sizeof(float)));
  for (std::int64_t row = 0; row < op.rows; row += step) {
    AttentionArgs a = all;
    a.rows = std::min(step, op.rows - row);
    a.q += row * op.q_heads * op.head_dim;
    a.begins += row;
    a.first = 0, a.last = segments;
    const std::int64_t states = segments * a.rows * a.q_heads;
    a.out = partials, a.peak = partials + states * op.head_dim, a.total = a.peak + states;
    c.kernels().attend(a, c.stream());
    c.check("attention");
    c.kernels().merge(merge_of(c, op, a, out + row * op.q_heads * op.head_dim), c.stream());
    c.check("merging attention");
  }
  return true;
}

bool run(OpContext& c, const AttentionPartOp& op) {
  AttentionArgs a = args_of(c, op.attention);
  const AttentionPartials& partials = op.partials;
  const auto states = static_cast<std::size_t>((partials.last - partials.first) * a.rows * a.q_heads);
  a.first = partials.first, a.last = partials.last;
  a.out = c.memory.at(partials.out, states * static_cast<std::size_t>(a.head_dim));
  a.peak = c.memory.at(partials.peak, states), a.total = c.memory.at(partials.total, states);
  c.kernels().attend(a, c.stream());
  c.check("attention");
  return true;
}

bool run(OpContext& c, const MergeAttentionOp& op) {
  const AttentionOp& attention = op.attention;
  const AttentionPartials& partials = op.partials;
  const auto states = static_cast<std::size_t>(partials.last * attention.rows * attention.q_heads);
  AttentionArgs a{};
  a.rows = attention.rows, a.q_heads = attention.q_heads, a.head_dim = attention.head_dim;
  a.head_begin = attention.heads.begin, a.head_end = attention.heads.end_of(attention.q_heads);
  a.begins = visible_of(c, attention).begins;
  a.out = c.memory.at(partials.out, states * static_cast<std::size_t>(a.head_dim));
  a.peak = c.memory.at(partials.peak, states), a.total = c.memory.at(partials.total, states);
  const auto floats = static_cast<std::size_t>(attention.rows * attention.q_heads * attention.head_dim);
  c.kernels().merge(merge_of(c, attention, a, c.memory.at(attention.out, floats)), c.stream());
  c.check("merging attention");
  return true;
}

}  // namespace yamata::cuda
