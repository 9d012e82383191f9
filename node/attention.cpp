#include "node/attention.hpp"

#include <algorithm>

namespace yamata {
namespace {

using cpu::AttentionRow;
using cpu::kAttentionChunk;
using cpu::kAttentionQueries;

constexpr std::size_t kStateFloats = 2 * AttentionPlan::kMostRows * kAttentionQueries;  // whole cache lines, a thread's own

/// The query and the cells of row `row`, heads of the item from `head` on; no place for results yet.
AttentionRow row_of(const AttentionOp& op, const AttentionPlan::Item& item, std::int64_t row, std::int64_t head = 0) {
  const std::int64_t first = item.kv_head * (op.q_heads / op.kv_heads) + item.head_begin + head;
  const std::int64_t at = (row * op.q_heads + first) * op.head_dim;
  const auto& cells = op.visible[row];
  return {op.q + at, cells.data(), static_cast<std::int64_t>(cells.size()), nullptr, nullptr, op.out + at};
}

}  // namespace

void Attention::prepare(std::span<const Op> ops) {
  plan_count_ = 0;
  std::int64_t kept = 0, head_dim = 0;
  for (const Op& any : ops) {
    const auto* op = std::get_if<AttentionOp>(&any);
    if (!op ||
        std::any_of(plans_.begin(), plans_.begin() + static_cast<std::ptrdiff_t>(plan_count_), [&](const auto& p) { return p.fits(*op); }))
      continue;
    if (plan_count_ == plans_.size()) plans_.emplace_back();
    AttentionPlan& plan = plans_[plan_count_++];
    plan.make(*op, threads_);
    kept = std::max(kept, plan.kept_floats());
    head_dim = std::max(head_dim, op->head_dim);
  }
  const auto grow = [](std::vector<float>& floats, std::size_t n) {
    if (floats.size() < n) floats.resize(n);
  };
  const auto threads = static_cast<std::size_t>(threads_);
  block_floats_ = static_cast<std::size_t>(kAttentionQueries * (std::max<std::int64_t>(head_dim, 16) + 2));
  grow(kept_, static_cast<std::size_t>(kept));
  grow(block_, threads * block_floats_);
  grow(state_, threads * kStateFloats);
}

const AttentionPlan& Attention::plan_of(const AttentionOp& op) const {
  return *std::find_if(plans_.begin(), plans_.end(), [&](const AttentionPlan& plan) { return plan.fits(op); });
}

void Attention::run(const AttentionOp& op, int thread, ThreadPool& pool) {
  const AttentionPlan& plan = plan_of(op);
  const AttentionPlan::Place end = plan.end(thread);
  for (AttentionPlan::Place at = plan.begin(thread); at.item < end.item || (at.item == end.item && at.chunk < end.chunk);) {
    const Item& item = plan.items()[at.item];
    if (item.kept < 0) {
      run_whole(op, item, thread);
      at = {at.item + 1, 0};
      continue;
    }
    run_chunk(op, item, at.chunk);
    if (++at.chunk == item.chunks) at = {at.item + 1, 0};
  }
  if (!plan.split()) return;
  pool.barrier();
  merge_split(op, plan, thread);
}

template <class Place, class Done>
void Attention::compute(const AttentionOp& op, const Item& item, std::int64_t chunk, Place place, Done done) const {
  const std::int64_t heads = item.heads(), most = kAttentionQueries / heads;
  AttentionRow rows[kAttentionQueries];
  std::int64_t row = item.row_begin;
  while (row < item.row_end) {
    std::int64_t count = 0;
    for (; row < item.row_end && count < most; ++row) {
      AttentionRow next = row_of(op, item, row);
      if (next.count <= chunk * kAttentionChunk) continue;
      place(row - item.row_begin, count, next);
      rows[count++] = next;
    }
    if (count == 0) continue;
    kernels_.attention(
        {rows, count, chunk, op.cache_k[item.kv_head], op.cache_v[item.kv_head], op.k_type, op.v_type, op.scale, heads, op.head_dim});
    done(std::span<const AttentionRow>(rows, static_cast<std::size_t>(count)));
  }
}

/// All chunks of an item, one after another: the first goes to the output, each further one is added to it.
void Attention::run_whole(const AttentionOp& op, const Item& item, int thread) {
  const std::int64_t heads = item.heads();
  float* peaks = state_.data() + static_cast<std::size_t>(thread) * kStateFloats;
  float* totals = peaks + kStateFloats / 2;
  float* block_out = block_.data() + static_cast<std::size_t>(thread) * block_floats_;
  float* block_peaks = block_out + kAttentionQueries * op.head_dim;
  float* block_totals = block_peaks + kAttentionQueries;
  AttentionRow merged[kAttentionQueries];
  for (std::int64_t chunk = 0; chunk < item.chunks; ++chunk) {
    const auto place = [&](std::int64_t r, std::int64_t in_block, AttentionRow& row) {
      row.peak = peaks + r * heads, row.total = totals + r * heads;
      merged[in_block] = row;
      if (chunk == 0) return;
      const std::int64_t at = in_block * heads;
      row.out = block_out + at * op.head_dim, row.peak = block_peaks + at, row.total = block_totals + at;
    };
    compute(op, item, chunk, place, [&](std::span<const AttentionRow> rows) {
      for (std::size_t i = 0; chunk > 0 && i < rows.size(); ++i) kernels_.merge_attention(merged[i], rows[i], heads, op.head_dim);
    });
  }
  for (std::int64_t row = item.row_begin; row < item.row_end; ++row) {
    AttentionRow done = row_of(op, item, row);
    done.total = totals + (row - item.row_begin) * heads;
    finish(op, done, heads);
  }
}

void Attention::finish(const AttentionOp& op, const AttentionRow& row, std::int64_t heads) const {
  if (row.count == 0) {
    std::fill_n(row.out, heads * op.head_dim, 0.0f);
  } else {
    kernels_.finish_attention(row, heads, op.head_dim);
  }
}

Attention::Sums Attention::kept(const AttentionOp& op, const Item& item, std::int64_t chunk) {
  float* out = kept_.data() + item.kept + chunk * item.queries() * (op.head_dim + 2);
  float* peak = out + item.queries() * op.head_dim;
  return {out, peak, peak + item.queries()};
}

void Attention::run_chunk(const AttentionOp& op, const Item& item, std::int64_t chunk) {
  const Sums sums = kept(op, item, chunk);
  const auto place = [&](std::int64_t r, std::int64_t, AttentionRow& row) {
    const std::int64_t at = r * item.heads();
    row.out = sums.out + at * op.head_dim, row.peak = sums.peak + at, row.total = sums.total + at;
  };
  compute(op, item, chunk, place, [](std::span<const AttentionRow>) {});
}

/// Merges the queries of split items, each by one thread and in the order of run_whole.
void Attention::merge_split(const AttentionOp& op, const AttentionPlan& plan, int thread) {
  std::int64_t all = 0, before = 0;
  for (const Item& item : plan.items()) all += item.kept < 0 ? 0 : item.queries();
  const std::int64_t begin = all * thread / threads_, end = all * (thread + 1) / threads_;
  for (const Item& item : plan.items()) {
    if (item.kept < 0) continue;
    const std::int64_t last = std::min(end - before, item.queries());
    for (std::int64_t query = std::max<std::int64_t>(begin - before, 0); query < last; ++query) merge_query(op, item, query);
    before += item.queries();
  }
}

void Attention::merge_query(const AttentionOp& op, const Item& item, std::int64_t query) {
  AttentionRow into = row_of(op, item, item.row_begin + query / item.heads(), query % item.heads());
  for (std::int64_t chunk = 0; chunk * kAttentionChunk < into.count; ++chunk) {
    const Sums sums = kept(op, item, chunk);
    const AttentionRow next{nullptr, nullptr, 0, sums.peak + query, sums.total + query, sums.out + query * op.head_dim};
    if (chunk == 0) {
      into.peak = next.peak, into.total = next.total;
      std::copy_n(next.out, op.head_dim, into.out);
    } else {
      kernels_.merge_attention(into, next, 1, op.head_dim);
    }
  }
  finish(op, into, 1);
}

}  // namespace yamata
