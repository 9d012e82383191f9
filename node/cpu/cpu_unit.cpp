#include "node/cpu/cpu_unit.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/repack.hpp"
#include "node/cpu/ngram_ops.hpp"
#include "node/cpu/row_ops.hpp"
#include "node/cpu/state_ops.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/lost_pages.hpp"
#include "node/memory.hpp"

namespace yamata {
namespace {

void rotate(float* head, const float* cos_sin, std::int64_t rotary_dim, bool interleaved) {
  const std::int64_t half = rotary_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    float& a = head[interleaved ? 2 * i : i];
    float& b = head[interleaved ? 2 * i + 1 : i + half];
    const float c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
    const float x = a * c - b * s;
    b = a * s + b * c;
    a = x;
  }
}

/// Divides a head by its root mean square and multiplies it with weights.
void norm_head(const cpu::KernelTable& kernels, float* head, const float* weight, const StoreOp& op) {
  float squares[kMaxHeadDim / 32];  // of blocks of 32
  kernels.block_squares(head, op.head_dim, squares);
  const float factor = kernels.inverse_rms(squares, op.head_dim, op.epsilon);
  if (weight) return kernels.scale_mul(head, factor, weight, op.head_dim, head);
  for (std::int64_t d = 0; d < op.head_dim; ++d) head[d] *= factor;
}

void rotate_and_norm(const cpu::KernelTable& kernels, float* head, const float* weight, const float* angles, const StoreOp& op) {
  const bool norms = weight || op.unit_norm;
  if (norms && !op.norm_last) norm_head(kernels, head, weight, op);
  rotate(head, angles, op.rotary_dim, op.interleaved);
  if (norms && op.norm_last) norm_head(kernels, head, weight, op);
}

constexpr std::int64_t kRowGrain = 16;  // output rows are divided at multiples of this: a cache line of results, whole panels
// A piece of a product has about this many bytes of weights, which are read in some microseconds if there are few tokens. With many tokens,
// a piece is what the kernels keep in a cache while all tokens are multiplied with it, but at most an eighth of a thread's share.
constexpr std::int64_t kPieceBytes = 64 << 10, kManyTokens = 32;

std::int64_t piece_rows(const Matrix& w, std::int64_t rows, std::int64_t tokens) {
  const auto row_bytes = static_cast<std::int64_t>(w.row_bytes);
  std::int64_t most = kPieceBytes / row_bytes;
  if (tokens >= kManyTokens) most = std::max(most, std::min(cpu::kPanelsBytes / row_bytes, rows / 8));
  return std::max(most / kRowGrain, std::int64_t{1}) * kRowGrain;
}

/// A thread's output rows of a product of `tokens` tokens, in pieces.
class ProductPieces {
 public:
  ProductPieces(const LinearOp& op, std::int64_t tokens, int owner, int threads) {
    for (std::size_t i = 0; i < op.parts.size(); ++i) {
      if (!op.parts[i].weight) continue;
      const Matrix& w = *op.parts[i].weight;
      const OpRange& here = op.parts[i].outputs;
      const ThreadShare share = thread_share(here.count_of(w.rows), owner, threads, kRowGrain);
      rows_[i] = {here.begin + share.begin, here.begin + share.end};
      const std::int64_t rows = rows_[i].end - rows_[i].begin;
      step_[i] = piece_rows(w, rows, tokens);
      counts_[i] = (rows + step_[i] - 1) / step_[i];
    }
  }
  std::int64_t count() const { return std::accumulate(std::begin(counts_), std::end(counts_), std::int64_t{0}); }
  /// Calls multiply(part, rows of it).
  template <class Multiply>
  void compute(std::int64_t piece, const Multiply& multiply) const {
    std::size_t i = 0;
    for (; piece >= counts_[i]; ++i) piece -= counts_[i];
    const std::int64_t begin = rows_[i].begin + piece * step_[i];
    multiply(i, ThreadShare{begin, std::min(begin + step_[i], rows_[i].end)});
  }

 private:
  ThreadShare rows_[LinearOp::kMostParts]{};
  std::int64_t step_[LinearOp::kMostParts]{}, counts_[LinearOp::kMostParts]{};
};

std::int64_t pairs_of(const ExpertChoice& choice, std::int64_t expert) { return choice.first[expert + 1] - choice.first[expert]; }

std::int64_t chosen_experts(const ExpertChoice& choice) {
  std::int64_t chosen = 0;
  for (std::int64_t e = 0; e < choice.experts; ++e) chosen += pairs_of(choice, e) > 0;
  return chosen;
}

/// Computes a thread's pieces of a product; with experts, those of each chosen expert, one after another. Calls multiply(part, rows,
/// expert).
template <class Multiply>
class Pieces {
 public:
  Pieces(const LinearOp& op, int owner, int threads, const Multiply& multiply)
      : choice_(op.experts),
        products_(choice_.any() ? chosen_experts(choice_) : 1),
        pieces_(op, op.rows / std::max<std::int64_t>(1, products_), owner, threads),
        multiply_(multiply) {}

  std::int64_t count() const { return products_ * pieces_.count(); }
  void compute(std::int64_t piece) const {
    std::int64_t expert = 0;
    for (std::int64_t before = piece / pieces_.count(); choice_.any(); ++expert) {
      if (pairs_of(choice_, expert) > 0 && before-- == 0) break;
    }
    pieces_.compute(piece % pieces_.count(), [&](std::size_t part, ThreadShare rows) { multiply_(part, rows, expert); });
  }

 private:
  const ExpertChoice& choice_;
  std::int64_t products_;
  ProductPieces pieces_;
  const Multiply& multiply_;
};

}  // namespace

CpuUnit::CpuUnit(const std::vector<int>& cpus, cpu::Isa isa, std::vector<int> nodes)
    : kernels_(cpu::kernels(isa)),
      nodes_(std::move(nodes)),
      rules_(cpus.size()),
      attention_(kernels_, static_cast<int>(cpus.size())),
      picks_(kernels_, static_cast<int>(cpus.size())),
      pieces_(static_cast<int>(cpus.size())),
      input_(kernels_, pool_, cpus.size(), slowdown_),
      pool_(cpus) {}

std::uint64_t CpuUnit::scratch_bytes(const ScratchNeeds& needs, int threads) {
  constexpr std::int64_t kSegments = 4096 / AttentionPlan::kSegment;
  const std::int64_t quantized = cpu::QuantizedRows::blocks_of(needs.widest) * cpu::kActivationBlockBytes * needs.rows;
  const std::int64_t partial =
      threads < 2 ? 0 : std::min(AttentionPlan::kMaxKeptFloats, needs.rows * needs.heads * kSegments * (needs.head_dim + 2));
  const std::int64_t scores = needs.scores ? PickCells::kMostScores : 0;
  return static_cast<std::uint64_t>(quantized) + static_cast<std::uint64_t>(partial + scores) * sizeof(float);
}

std::size_t CpuUnit::packed_bytes(const Matrix& m) const {
  const bool packs = kernels_.panel_rows > 0 && cpu::has_panels(m.type);
  return packs ? cpu::packed_bytes(m.type, m.rows, m.row_bytes, kernels_.panel_rows) : 0;
}

/// The cache is distributed over the NUMA nodes of all threads before any of its pages is touched.
std::unique_ptr<Buffer> CpuUnit::allocate(std::size_t bytes, BufferUse use) {
  auto buffer = ComputeUnit::allocate(bytes, use);
  if (use == BufferUse::kCache && nodes_.size() > 1) interleave(buffer->host(), nodes_);
  return buffer;
}

/// Memory in which threads pack rows of matrices that are not packed.
void CpuUnit::reserve_panels(std::span<const Op> ops) {
  std::size_t panel = 0;
  for (const Op& op : ops) {
    const auto* linear = std::get_if<LinearOp>(&op);
    if (!linear) continue;
    for (const LinearOp::Part& part : linear->parts) {
      if (!part.weight || part.weight->packed) continue;
      Matrix rows = *part.weight;
      rows.rows = kernels_.panel_rows;
      panel = std::max(panel, packed_bytes(rows));
    }
  }
  if (panel <= thread_panel_bytes_) return;
  panels_.resize(panel * static_cast<std::size_t>(threads()));
  thread_panel_bytes_ = panel;
}

void CpuUnit::slow_down(double factor) {
  const char* turns = std::getenv("YAMATA_TURNS");
  slowdown_ = Slowdown(factor, turns ? turns : "");
}

void CpuUnit::start(std::span<const Op> ops, const std::atomic<bool>* stop) {
  in_group_ = std::any_of(ops.begin(), ops.end(), synchronizes);
  declined_ = in_group_ && stop && stop->load();
  reserve_panels(ops);
  input_.prepare(ops, stop, declined_);
  attention_.prepare(ops);
  picks_.prepare(ops);
  ops_ = ops;
  stop_ = stop;
  was_stopped_ = false;
  pieces_.fill();
  busy_.begin();
  pool_.start([this](int thread) { work(thread); });
}

bool CpuUnit::wait_for(std::chrono::microseconds limit) {
  if (!pool_.wait_for(limit)) return false;
  busy_.count();
  require_pages();
  return true;
}

void CpuUnit::work(int thread) {
  // Only thread 0 decides whether to stop, before the barrier; all threads read its decision after it. Two flags alternate, so that a
  // thread that reads late does not see the decision of the next operation. In a group, the members decide together.
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (thread == 0) slowdown_.begin_operation();
    if (!declined_ || synchronizes(ops_[i])) std::visit([&](const auto& op) { run(op, thread); }, ops_[i]);
    if (thread == 0) {
      slowdown_.end_operation();
      progress_.fetch_add(1, std::memory_order_relaxed);
      stopped_[i % 2] = in_group_ ? input_.was_stopped() : stop_ && stop_->load(std::memory_order_relaxed);
    }
    pieces_.next_operation(thread);
    pool_.barrier();
    if (!stopped_[i % 2]) continue;
    if (thread == 0) was_stopped_ = in_group_ || i + 1 < ops_.size();
    break;
  }
  if (thread == 0) busy_.end();
}

void CpuUnit::run(const EmbedOp& op, int thread) {
  const Matrix& table = *op.table;
  const auto [begin, end] = thread_share(static_cast<std::int64_t>(op.tokens.size()), thread, threads());
  for (std::int64_t t = begin; t < end; ++t) {
    const auto id = static_cast<std::size_t>(op.tokens[static_cast<std::size_t>(t)]);
    float* out = op.out + t * table.cols;
    cpu::dequantize(table.type, table.data + id * table.row_bytes, table.cols, out);
    if (op.scale == 1) continue;
    for (std::int64_t i = 0; i < table.cols; ++i) out[i] *= op.scale;
  }
}

void CpuUnit::run(const LinearOp& op, int thread) {
  if (!input_.make(op, thread)) return;
  std::byte* panel = panels_.data() + static_cast<std::size_t>(thread) * thread_panel_bytes_;
  const auto multiply_rows = [&](std::size_t part, ThreadShare rows, std::int64_t expert) {
    multiply(op, op.parts[part], rows, expert, panel);
  };
  pieces_.drain(thread, [&](int owner) { return Pieces(op, owner, threads(), multiply_rows); });
}

/// Multiplies rows `outputs` of a matrix with all tokens, or with those that chose the expert.
void CpuUnit::multiply(const LinearOp& op, const LinearOp::Part& part, ThreadShare outputs, std::int64_t expert, std::byte* panel) {
  const Matrix& w = part.weight[expert];
  const LinearInput::Rows rows =
      op.experts.any() ? LinearInput::Rows{op.experts.first[expert], op.experts.first[expert + 1]} : LinearInput::Rows{0, op.rows};
  const bool packed = w.packed != nullptr;
  const std::int64_t stride = part.stride > 0 ? part.stride : w.rows;
  float* y = part.y + (part.y_each > 0 ? expert * part.y_each : rows.begin * stride);
  kernels_.matmul[static_cast<std::size_t>(w.type)]({packed ? w.packed : w.data, w.row_bytes, packed, outputs.begin, outputs.end, w.cols,
                                                     input_.floats(op) + rows.begin * op.cols, input_.quantized(op, rows), rows.count(), y,
                                                     stride, op.add, panel});
  if (w.scale) {
    for (std::int64_t t = 0; t < rows.count(); ++t) {
      for (std::int64_t r = outputs.begin; r < outputs.end; ++r) y[t * stride + r] *= *w.scale;
    }
  }
  if (!part.bias) return;
  const float* bias = part.bias + expert * part.bias_stride;
  for (std::int64_t t = 0; t < rows.count(); ++t) {
    for (std::int64_t r = outputs.begin; r < outputs.end; ++r) y[t * stride + r] += bias[r];
  }
}

void CpuUnit::run(const AllGatherOp& op, int thread) { input_.gather(op, thread); }

void CpuUnit::run(const BarrierOp& op, int thread) { input_.wait(op, thread); }

void CpuUnit::run(const StoreOp& op, int thread) {
  const std::int64_t q_dim = op.q_heads * op.head_dim, kv_dim = op.kv_heads * op.head_dim;
  const std::int64_t q_heads = op.queries.count_of(op.q_heads), heads = q_heads + op.keys.count_of(op.kv_heads);
  const auto [begin, end] = thread_share(op.rows * heads, thread, threads());
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t t = i / heads, h = i % heads;
    const float* angles = op.cos_sin + t * op.rotary_dim;
    if (h < q_heads) {
      float* q = op.q + t * q_dim + (op.queries.begin + h) * op.head_dim;
      if (op.q_rotary) std::copy_n(op.q_rotary + (t * op.q_heads + op.queries.begin + h) * op.q_rotary_stride, op.rotary_dim, q);
      rotate_and_norm(kernels_, q, op.q_norm, angles, op);
      for (std::int64_t d = 0; op.q_scale && d < op.head_dim; ++d) q[d] *= op.q_scale[t];
      continue;
    }
    const std::int64_t kv = op.keys.begin + h - q_heads;
    float* k = op.k + t * kv_dim + kv * op.head_dim;
    rotate_and_norm(kernels_, k, op.k_norm, angles, op);
    kernels_.store_cell(k, op.head_dim, op.k_type, op.cache_k[kv], op.cells[t]);
    if (op.v) kernels_.store_cell(op.v + t * kv_dim + kv * op.head_dim, op.head_dim, op.v_type, op.cache_v[kv], op.cells[t]);
  }
}

void CpuUnit::run(const AttentionOp& op, int thread) { attention_.run(op, thread, pool_, pieces_); }

void CpuUnit::run(const PickOp& op, int thread) { picks_.run(op, thread, pool_); }

void CpuUnit::run(const PoolOp& op, int thread) { pool_keys(op, thread_share(op.rows, thread, threads())); }

void CpuUnit::run(const FarConvolutionOp& op, int thread) {
  cpu::convolve_far(kernels_, op, thread_share(op.channels, thread, threads(), kRowGrain));
}

void CpuUnit::run(const LikenessOp& op, int thread) { cpu::compare_rows(op, thread_share(op.rows, thread, threads())); }

void CpuUnit::run(const AttentionPartOp& op, int thread) { attention_.run(op, thread); }

void CpuUnit::run(const MergeAttentionOp& op, int thread) { attention_.run(op, thread); }

void CpuUnit::run(const ReadOp& op, int thread) {
  constexpr std::int64_t kPage = 4096;
  const auto [begin, end] = thread_share(op.own.count_of(std::ssize(op.bytes)), thread, threads(), kPage);
  const volatile std::byte* bytes = op.bytes.data() + op.own.begin;
  for (std::int64_t at = begin; at < end; at += kPage) static_cast<void>(bytes[at]);
}

/// Each thread packs the rows that it multiplies with, so that they are in the memory of its NUMA node.
void CpuUnit::run(const PackOp& op, int thread) {
  const Matrix& m = *op.matrix;
  const auto [begin, end] = thread_share(op.rows.count_of(m.rows), thread, threads(), kRowGrain);
  if (begin < end) cpu::repack(m.type, m.data, m.row_bytes, op.rows.begin + begin, op.rows.begin + end, kernels_.panel_rows, op.to);
}

void CpuUnit::run(const NormOp& op, int thread) {
  const float* x = op.share.group ? input_.whole_rows(op, thread) : op.x;
  if (!x) return;
  cpu::norm_rows(kernels_, op, x, op.share.group ? op.cols : op.x_stride, thread_share(op.rows, thread, threads()));
}

void CpuUnit::run(const ResizeOp& op, int thread) { cpu::resize_rows(op, thread_share(op.rows, thread, threads())); }

void CpuUnit::run(const AddOp& op, int thread) { cpu::add_columns(kernels_, op, thread_share(op.cols, thread, threads(), kRowGrain)); }

void CpuUnit::run(const RouterOp& op, int thread) {
  cpu::choose_experts(kernels_, op, thread_share(op.rows, thread, threads()));
  pool_.barrier();
  if (thread == 0) cpu::number_pairs(op);
}

void CpuUnit::run(const ScaleOp& op, int thread) { cpu::scale_elements(kernels_, op, thread_share(op.n, thread, threads(), kRowGrain)); }

void CpuUnit::run(const HighestOp& op, int thread) { cpu::find_highest(op, thread_share(op.rows, thread, threads())); }

void CpuUnit::run(const StateInputsOp& op, int thread) {
  cpu::make_state_inputs(kernels_, op, thread_share(cpu::convolved_heads(op), thread, threads()));
}

template <class AnyRule>
void CpuUnit::run_rule(const AnyRule& op, int thread) {
  RuleMemory& own = rules_[static_cast<std::size_t>(thread)];
  own.states.resize(std::max(own.states.size(), cpu::rule_floats(op.shape, *op.plan)));
  const std::int64_t blocks = op.which.count_of(op.shape.heads) * (op.shape.dim / StateShape::kBlock);
  cpu::apply_rule(cpu::state_kernels(kernels_.isa), op, thread_share(blocks, thread, threads()), own.rows, own.states.data());
  if (thread == 0 && op.finished) *op.finished = true;
}

void CpuUnit::run(const DeltaRuleOp& op, int thread) { run_rule(op, thread); }

void CpuUnit::run(const ScanOp& op, int thread) { run_rule(op, thread); }

void CpuUnit::run(const GatedConvolutionOp& op, int thread) {
  cpu::convolve_gated(kernels_, op, thread_share(op.which.count_of(op.shape.heads), thread, threads()));
  if (thread == 0 && op.finished) *op.finished = true;
}

void CpuUnit::run(const HeadGateOp& op, int thread) {
  cpu::gate_heads(kernels_, op, thread_share(op.rows * op.which.count_of(op.heads), thread, threads()));
}

void CpuUnit::run(const UngateOp& op, int thread) {
  const std::int64_t heads = op.which.count_of(op.heads);
  const auto [begin, end] = thread_share(op.rows * heads, thread, threads());
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t i = item / heads * op.heads + op.which.begin + item % heads;
    std::copy_n(op.x + 2 * i * op.dim, op.dim, op.out + i * op.dim);
  }
}

void CpuUnit::run(const GatherOp& op, int thread) {
  const auto [begin, end] = thread_share(static_cast<std::int64_t>(op.rows.size()), thread, threads());
  for (std::int64_t i = begin; i < end; ++i) {
    const float* row = op.x + op.rows[static_cast<std::size_t>(i)] * op.dim;
    std::copy(row, row + op.dim, op.out + i * op.dim);
  }
}

}  // namespace yamata
