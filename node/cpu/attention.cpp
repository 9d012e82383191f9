#include "node/cpu/attention.hpp"

#include <algorithm>

namespace yamata {
namespace {

using cpu::AttentionRow;
using cpu::kAttentionChunk;
using cpu::kAttentionQueries;

constexpr std::int64_t kSegment = AttentionPlan::kSegment;
constexpr std::int64_t kLine = 16;  // floats per cache line: threads do not share lines

/// The query and the cells of the item's row i, for heads from `head` on, and where its results go.
AttentionRow row_of(const AttentionOp& op, const AttentionPlan::Item& item, std::int64_t i, std::int64_t head = 0) {
  const std::int64_t row = item.rows[static_cast<std::size_t>(i)];
  const std::int64_t first = item.kv_head * op.heads_per_kv() - op.before + item.head_begin + head;
  const std::int64_t at = (row * op.q_heads + first) * op.head_dim;
  const auto& cells = op.visible[row];
  return {op.q + at, cells.data(), static_cast<std::int64_t>(cells.size()), nullptr, nullptr, op.out + at};
}

void grow(std::vector<float>& floats, std::int64_t n) {
  if (static_cast<std::int64_t>(floats.size()) < n) floats.resize(static_cast<std::size_t>(n));
}

}  // namespace

void Attention::prepare(std::span<const Op> ops) {
  plan_count_ = 0;
  std::int64_t kept = 0, segment = 0, chunk = 0, sums = 0;
  for (const Op& any : ops) {
    if (const auto* part = std::get_if<AttentionPartOp>(&any)) {
      chunk = std::max(chunk, kAttentionQueries * (part->attention.head_dim + 2));
      while (std::ssize(rows_) < part->attention.rows) rows_.push_back(static_cast<std::int32_t>(rows_.size()));
    }
    const auto* op = std::get_if<AttentionOp>(&any);
    if (!op ||
        std::any_of(plans_.begin(), plans_.begin() + static_cast<std::ptrdiff_t>(plan_count_), [&](const auto& p) { return p.fits(*op); }))
      continue;
    if (plan_count_ == plans_.size()) plans_.emplace_back();
    AttentionPlan& plan = plans_[plan_count_++];
    plan.make(*op, threads_);
    kept = std::max(kept, plan.kept_floats());
    chunk = std::max(chunk, kAttentionQueries * (op->head_dim + 2));
    if (plan.split()) continue;
    sums = std::max(sums, plan.most_queries() * (op->head_dim + 2));
    if (plan.most_segments() > 1) segment = std::max(segment, plan.most_queries() * (op->head_dim + 2));
  }
  grow(kept_, kept);
  for (Scratch& scratch : scratch_) {
    grow(scratch.chunk, chunk + kLine);
    grow(scratch.segment, segment + kLine);
    grow(scratch.sums, sums + kLine);
  }
}

const AttentionPlan& Attention::plan_of(const AttentionOp& op) const {
  return *std::find_if(plans_.begin(), plans_.end(), [&](const AttentionPlan& plan) { return plan.fits(op); });
}

/// A thread's pieces of an operation. They may be computed by this thread or by another one.
class Attention::Pieces {
 public:
  Pieces(Attention& attention, const AttentionOp& op, const AttentionPlan& plan, int owner, Scratch& scratch)
      : attention_(attention), op_(op), plan_(plan), owner_(owner), scratch_(scratch) {}

  std::int64_t count() const { return plan_.begin(owner_ + 1) - plan_.begin(owner_); }
  void compute(std::int64_t i) const {
    const std::int64_t piece = plan_.begin(owner_) + i;
    const Item& item = plan_.item_of(piece);
    const std::int64_t segment = piece - item.first_piece;
    if (plan_.split())
      attention_.run_segment(op_, item, segment, attention_.kept(op_, item, segment), scratch_);
    else
      attention_.run_whole(op_, item, scratch_);
  }

 private:
  Attention& attention_;
  const AttentionOp& op_;
  const AttentionPlan& plan_;
  int owner_;
  Scratch& scratch_;
};

void Attention::run(const AttentionOp& op, int thread, ThreadPool& pool, PieceQueues& pieces) {
  const AttentionPlan& plan = plan_of(op);
  Scratch& scratch = scratch_[static_cast<std::size_t>(thread)];
  pieces.drain(thread, [&](int owner) { return Pieces(*this, op, plan, owner, scratch); });
  if (!plan.split()) return;
  pool.barrier();
  merge_split(op, plan, thread);
}

Attention::Sums Attention::sums_in(float* floats, const Item& item, std::int64_t queries, std::int64_t head_dim) {
  float* peak = floats + queries * head_dim;
  return {floats, item.heads() * head_dim, peak, peak + queries, item.heads()};
}

Attention::Sums Attention::kept(const AttentionOp& op, const Item& item, std::int64_t segment) {
  return sums_in(kept_.data() + item.kept + segment * item.queries() * (op.head_dim + 2), item, item.queries(), op.head_dim);
}

void Attention::run_segment(const AttentionOp& op, const Item& item, std::int64_t segment, const Sums& into, Scratch& scratch) const {
  const std::int64_t first = segment * AttentionPlan::kSegmentChunks;
  for (std::int64_t chunk = first; chunk < first + AttentionPlan::kSegmentChunks; ++chunk) run_chunk(op, item, chunk, into, scratch);
}

/// Computes a chunk for every row of the item that has cells in it. The first chunk of a segment sets the result; later chunks are merged
/// into it.
void Attention::run_chunk(const AttentionOp& op, const Item& item, std::int64_t chunk, const Sums& into, Scratch& scratch) const {
  const std::int64_t heads = item.heads(), most = kAttentionQueries / heads;
  const bool first = chunk % AttentionPlan::kSegmentChunks == 0;
  const Sums more = sums_in(scratch.chunk.data(), item, kAttentionQueries, op.head_dim);
  AttentionRow rows[kAttentionQueries], merged[kAttentionQueries];
  for (std::int64_t row = 0; row < std::ssize(item.rows);) {
    std::int64_t count = 0;
    for (; row < std::ssize(item.rows) && count < most; ++row) {
      const AttentionRow next = row_of(op, item, row);
      if (next.count <= chunk * kAttentionChunk) continue;
      merged[count] = into.place(next, row);
      rows[count] = first ? merged[count] : more.place(next, count);
      ++count;
    }
    if (count == 0) continue;
    kernels_.attention({rows, count, chunk, op.cache_k[item.kv_head], op.cache_v[item.kv_head], op.k_type, op.v_type, op.scale, heads,
                        op.head_dim, op.softcap});
    for (std::int64_t i = 0; !first && i < count; ++i) kernels_.merge_attention(merged[i], rows[i], heads, op.head_dim);
  }
}

/// Computes all segments of an item, one after another. Later ones are merged into the first. The sums are in memory of their own: parts of
/// rows of the output would be far from each other, often in the same sets of the L1 cache.
void Attention::run_whole(const AttentionOp& op, const Item& item, Scratch& scratch) const {
  const std::int64_t heads = item.heads();
  const Sums sums = sums_in(scratch.sums.data(), item, item.queries(), op.head_dim);
  const Sums more = sums_in(scratch.segment.data(), item, item.queries(), op.head_dim);
  for (std::int64_t segment = 0; segment < item.segments; ++segment) {
    run_segment(op, item, segment, segment == 0 ? sums : more, scratch);
    for (std::int64_t i = 0; segment > 0 && i < std::ssize(item.rows); ++i) {
      const AttentionRow row = row_of(op, item, i);
      if (row.count > segment * kSegment) kernels_.merge_attention(sums.place(row, i), more.place(row, i), heads, op.head_dim);
    }
  }
  const std::int64_t first = item.kv_head * op.heads_per_kv() - op.before + item.head_begin;
  for (std::int64_t i = 0; i < std::ssize(item.rows); ++i) {
    const AttentionRow row = row_of(op, item, i);
    finish(op, sums.place(row, i), first, heads, row.out);
  }
}

/// The items cover all rows and heads; each thread computes its share of the pairs of item and segment.
void Attention::run(const AttentionPartOp& part, int thread) {
  const AttentionOp& op = part.attention;
  const AttentionPartials& partials = part.partials;
  const std::int64_t heads = std::min(op.heads_per_kv(), kAttentionQueries);
  const std::int64_t segments = partials.last - partials.first, states = op.rows * op.q_heads;
  std::int64_t piece = 0;
  for (std::int64_t kv_head = 0; kv_head < op.kv_heads; ++kv_head) {
    const auto [begin, end] = AttentionPlan::group_heads(op, kv_head);
    for (std::int64_t head = begin; head < end; head += heads) {
      const Item item{std::span(rows_).first(static_cast<std::size_t>(op.rows)), kv_head, head, std::min(end, head + heads), segments};
      const std::int64_t first_head = kv_head * op.heads_per_kv() - op.before + head;
      for (std::int64_t s = 0; s < segments; ++s) {
        if (piece++ % threads_ != thread) continue;
        const std::int64_t at = s * states + first_head;
        const Sums into{partials.out + at * op.head_dim, op.q_heads * op.head_dim, partials.peak + at, partials.total + at, op.q_heads};
        run_segment(op, item, partials.first + s, into, scratch_[static_cast<std::size_t>(thread)]);
      }
    }
  }
}

void Attention::run(const MergeAttentionOp& merge, int thread) const {
  const AttentionOp& op = merge.attention;
  const AttentionPartials& partials = merge.partials;
  const std::int64_t states = op.rows * op.q_heads, heads = op.heads.count_of(op.q_heads);
  for (std::int64_t i = op.rows * heads * thread / threads_; i < op.rows * heads * (thread + 1) / threads_; ++i) {
    const std::int64_t row = i / heads, query = row * op.q_heads + op.heads.begin + i % heads;
    const auto seen = static_cast<std::int64_t>(op.visible[row].size());
    float peak = 0, total = 0;
    const AttentionRow into{nullptr, nullptr, seen, &peak, &total, op.out + query * op.head_dim};
    for (std::int64_t s = 0; s < partials.last && s * kSegment < seen; ++s) {
      const std::int64_t at = s * states + query;
      const AttentionRow next{nullptr, nullptr, 0, partials.peak + at, partials.total + at, partials.out + at * op.head_dim};
      if (s == 0) {
        peak = *next.peak, total = *next.total;
        std::copy_n(next.out, op.head_dim, into.out);
      } else {
        kernels_.merge_attention(into, next, 1, op.head_dim);
      }
    }
    finish(op, into, query % op.q_heads, 1, into.out);
  }
}

/// Finishes `heads` heads of the row, from `first` on, and writes the results to `out`.
void Attention::finish(const AttentionOp& op, const AttentionRow& row, std::int64_t first, std::int64_t heads, float* out) const {
  if (row.count == 0) {
    std::fill_n(out, heads * op.head_dim, 0.0f);
  } else {
    kernels_.finish_attention(row, heads, op.head_dim, op.sinks ? op.sinks + first : nullptr, out);
  }
}

/// Merges the segments of all queries. Each query is merged by one thread, in the order of run_whole.
void Attention::merge_split(const AttentionOp& op, const AttentionPlan& plan, int thread) {
  std::int64_t all = 0, before = 0;
  for (const Item& item : plan.items()) all += item.queries();
  const std::int64_t begin = all * thread / threads_, end = all * (thread + 1) / threads_;
  for (const Item& item : plan.items()) {
    const std::int64_t last = std::min(end - before, item.queries());
    for (std::int64_t query = std::max<std::int64_t>(begin - before, 0); query < last; ++query) merge_query(op, item, query);
    before += item.queries();
  }
}

void Attention::merge_query(const AttentionOp& op, const Item& item, std::int64_t query) {
  AttentionRow into = row_of(op, item, query / item.heads(), query % item.heads());
  for (std::int64_t segment = 0; segment * kSegment < into.count; ++segment) {
    const Sums sums = kept(op, item, segment);
    const AttentionRow next{nullptr, nullptr, 0, sums.peak + query, sums.total + query, sums.out + query * op.head_dim};
    if (segment == 0) {
      into.peak = next.peak, into.total = next.total;
      std::copy_n(next.out, op.head_dim, into.out);
    } else {
      kernels_.merge_attention(into, next, 1, op.head_dim);
    }
  }
  finish(op, into, item.kv_head * op.heads_per_kv() - op.before + item.head_begin + query % item.heads(), 1, into.out);
}

}  // namespace yamata
