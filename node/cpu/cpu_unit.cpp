#include "node/cpu/cpu_unit.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/repack.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/lost_pages.hpp"
#include "node/memory.hpp"
#include "node/thread_time.hpp"

namespace yamata {
namespace {

/// Whether the members of a group, or the units of a machine, meet in the operation.
bool meets(const Op& op) {
  const auto* linear = std::get_if<LinearOp>(&op);
  return std::holds_alternative<AllGatherOp>(op) || std::holds_alternative<MeetOp>(op) || (linear && linear->share.group);
}

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

constexpr std::int64_t kRowGrain = 16;  // output rows are cut at multiples of this: a cache line of results, whole panels
// A piece of a product is about so many bytes of weights: some microseconds of reading where tokens are few. Where they are many it
// is what the kernels keep in a cache while all tokens pass by, but at most an eighth of a thread's share.
constexpr std::int64_t kPieceBytes = 64 << 10, kManyTokens = 32;

std::int64_t piece_rows(const Matrix& w, std::int64_t rows, std::int64_t tokens) {
  const auto row_bytes = static_cast<std::int64_t>(w.row_bytes);
  std::int64_t most = kPieceBytes / row_bytes;
  if (tokens >= kManyTokens) most = std::max(most, std::min(cpu::kPanelsBytes / row_bytes, rows / 8));
  return std::max(most / kRowGrain, std::int64_t{1}) * kRowGrain;
}

/// The rows of a product that are a thread's, in pieces; multiply(part, rows) is told of each.
template <class Multiply>
class ProductPieces {
 public:
  ProductPieces(const LinearOp& op, int owner, int threads, const Multiply& multiply) : op_(op), multiply_(multiply) {
    for (std::size_t i = 0; i < op.parts.size(); ++i) {
      if (!op.parts[i].weight) continue;
      const Matrix& w = *op.parts[i].weight;
      const OpRange& here = op.parts[i].outputs;
      const ThreadShare share = thread_share(here.count_of(w.rows), owner, threads, kRowGrain);
      rows_[i] = {here.begin + share.begin, here.begin + share.end};
      const std::int64_t rows = rows_[i].end - rows_[i].begin;
      step_[i] = piece_rows(w, rows, op.rows);
      counts_[i] = (rows + step_[i] - 1) / step_[i];
    }
  }
  std::int64_t count() const { return counts_[0] + counts_[1] + counts_[2]; }
  void compute(std::int64_t piece) const {
    std::size_t i = 0;
    for (; piece >= counts_[i]; ++i) piece -= counts_[i];
    const std::int64_t begin = rows_[i].begin + piece * step_[i];
    multiply_(op_.parts[i], ThreadShare{begin, std::min(begin + step_[i], rows_[i].end)});
  }

 private:
  const LinearOp& op_;
  const Multiply& multiply_;
  ThreadShare rows_[3]{};
  std::int64_t step_[3]{}, counts_[3]{};
};

}  // namespace

CpuUnit::CpuUnit(const std::vector<int>& cpus, cpu::Isa isa, std::vector<int> nodes)
    : kernels_(cpu::kernels(isa)),
      nodes_(std::move(nodes)),
      attention_(kernels_, static_cast<int>(cpus.size())),
      pieces_(static_cast<int>(cpus.size())),
      input_(kernels_, pool_, cpus.size()),
      pool_(cpus) {}

std::uint64_t CpuUnit::scratch_bytes(const ScratchNeeds& needs, int threads) {
  constexpr std::int64_t kSegments = 4096 / AttentionPlan::kSegment;
  const std::int64_t quantized = cpu::QuantizedRows::blocks_of(needs.widest) * cpu::kActivationBlockBytes * needs.rows;
  const std::int64_t partial =
      threads < 2 ? 0 : std::min(AttentionPlan::kMostKeptFloats, needs.rows * needs.heads * kSegments * (needs.head_dim + 2));
  return static_cast<std::uint64_t>(quantized) + static_cast<std::uint64_t>(partial) * sizeof(float);
}

std::size_t CpuUnit::packed_bytes(const Matrix& m) const {
  const bool packs = kernels_.panel_rows > 0 && cpu::has_panels(m.type);
  return packs ? cpu::packed_bytes(m.rows, m.row_bytes, kernels_.panel_rows) : 0;
}

/// The cache is spread over the memories of all threads, before a page of it is touched.
std::unique_ptr<Buffer> CpuUnit::allocate(std::size_t bytes, BufferUse use) {
  auto buffer = ComputeUnit::allocate(bytes, use);
  if (use == BufferUse::kCache && nodes_.size() > 1) interleave(buffer->host(), nodes_);
  return buffer;
}

/// Room for the threads to pack rows of matrices that are not.
void CpuUnit::reserve_panels(std::span<const Op> ops) {
  std::size_t panel = 0;
  for (const Op& op : ops) {
    const auto* linear = std::get_if<LinearOp>(&op);
    if (!linear) continue;
    for (const LinearOp::Part& part : linear->parts) {
      if (part.weight && !part.weight->packed) panel = std::max(panel, packed_bytes(*part.weight) ? part.weight->row_bytes : 0);
    }
  }
  panel *= static_cast<std::size_t>(kernels_.panel_rows);
  if (panel <= thread_panel_bytes_) return;
  panels_.resize(panel * static_cast<std::size_t>(threads()));
  thread_panel_bytes_ = panel;
}

void CpuUnit::start(std::span<const Op> ops, const std::atomic<bool>* stop) {
  in_group_ = std::any_of(ops.begin(), ops.end(), meets);
  declined_ = in_group_ && stop && stop->load();
  reserve_panels(ops);
  input_.prepare(ops, stop, declined_);
  attention_.prepare(ops);
  ops_ = ops;
  stop_ = stop;
  left_ = false;
  counted_ = false;
  pieces_.fill();
  began_ = std::chrono::steady_clock::now();
  pool_.start([this](int thread) { work(thread); });
}

bool CpuUnit::wait_for(std::chrono::microseconds limit) {
  if (!pool_.wait_for(limit)) return false;
  if (!counted_) {
    busy_seconds_ += 1e-9 * static_cast<double>(ended_ns_.load());
    counted_ = true;
  }
  require_pages();
  return true;
}

void CpuUnit::work(int thread) {
  // Thread 0 alone decides to stop, before the barrier, and all read its decision after it. Two flags in turn: a thread that
  // reads late never sees the decision of the operation after. In a group the members decide together.
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const double began_cpu_s = slowness_ > 1 ? thread_cpu_s() : 0;
    if (!declined_ || meets(ops_[i])) std::visit([&](const auto& op) { run(op, thread); }, ops_[i]);
    if (thread == 0) {
      if (slowness_ > 1) pause(began_cpu_s);
      progress_.fetch_add(1, std::memory_order_relaxed);
      stopped_[i % 2] = in_group_ ? input_.left() : stop_ && stop_->load(std::memory_order_relaxed);
    }
    pieces_.next_operation(thread);
    pool_.barrier();
    if (!stopped_[i % 2]) continue;
    if (thread == 0) left_ = in_group_ || i + 1 < ops_.size();
    break;
  }
  if (thread == 0) {
    const auto took = std::chrono::steady_clock::now() - began_;
    ended_ns_.store(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  }
}

/// For so many times the processor time that the operation has taken, which other hosts on the same core do not add to; its meeting is not
/// slowed down. What a pause is longer than it should be, the next ones are shorter.
void CpuUnit::pause(double began_cpu_s) {
  const auto ended = std::chrono::steady_clock::now();
  owed_s_ += (thread_cpu_s() - began_cpu_s - input_.take_exchange_cpu_s()) * (slowness_ - 1);
  if (owed_s_ <= 0) return;
  std::this_thread::sleep_for(std::chrono::duration<double>(owed_s_));
  owed_s_ -= std::chrono::duration<double>(std::chrono::steady_clock::now() - ended).count();
}

void CpuUnit::run(const EmbedOp& op, int thread) {
  const Matrix& table = *op.table;
  const auto [begin, end] = thread_share(static_cast<std::int64_t>(op.tokens.size()), thread, threads());
  for (std::int64_t t = begin; t < end; ++t) {
    const auto id = static_cast<std::size_t>(op.tokens[static_cast<std::size_t>(t)]);
    cpu::dequantize(table.type, table.data + id * table.row_bytes, table.cols, op.out + t * table.cols);
  }
}

void CpuUnit::run(const LinearOp& op, int thread) {
  if (!input_.make(op, thread)) return;
  const cpu::QuantizedRows x8 = input_.quantized(op);
  const float* input = input_.floats(op);
  std::byte* panel = panels_.data() + static_cast<std::size_t>(thread) * thread_panel_bytes_;
  const auto multiply = [&](const LinearOp::Part& part, ThreadShare rows) {
    const Matrix& w = *part.weight;
    const bool packed = w.packed != nullptr;
    const std::int64_t stride = part.stride > 0 ? part.stride : w.rows;
    kernels_.matmul[static_cast<std::size_t>(w.type)](
        {packed ? w.packed : w.data, w.row_bytes, packed, rows.begin, rows.end, w.cols, input, x8, op.rows, part.y, stride, op.add, panel});
  };
  pieces_.drain(thread, [&](int owner) { return ProductPieces(op, owner, threads(), multiply); });
}

void CpuUnit::run(const AllGatherOp& op, int thread) { input_.gather(op, thread); }

void CpuUnit::run(const MeetOp& op, int thread) { input_.meet(op, thread); }

void CpuUnit::run(const StoreOp& op, int thread) {
  const std::int64_t q_dim = op.q_heads * op.head_dim, kv_dim = op.kv_heads * op.head_dim;
  const std::int64_t q_heads = op.queries.count_of(op.q_heads), heads = q_heads + op.keys.count_of(op.kv_heads);
  const auto [begin, end] = thread_share(op.rows * heads, thread, threads());
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t t = i / heads, h = i % heads;
    const float* angles = op.cos_sin + t * op.rotary_dim;
    if (h < q_heads) {
      rotate(op.q + t * q_dim + (op.queries.begin + h) * op.head_dim, angles, op.rotary_dim, op.interleaved);
      continue;
    }
    const std::int64_t kv = op.keys.begin + h - q_heads;
    float* k = op.k + t * kv_dim + kv * op.head_dim;
    rotate(k, angles, op.rotary_dim, op.interleaved);
    kernels_.store_cell(k, op.head_dim, op.k_type, op.cache_k[kv], op.cells[t]);
    kernels_.store_cell(op.v + t * kv_dim + kv * op.head_dim, op.head_dim, op.v_type, op.cache_v[kv], op.cells[t]);
  }
}

void CpuUnit::run(const AttentionOp& op, int thread) { attention_.run(op, thread, pool_, pieces_); }

void CpuUnit::run(const AttentionPartOp& op, int thread) { attention_.run(op, thread); }

void CpuUnit::run(const MergeAttentionOp& op, int thread) { attention_.run(op, thread); }

void CpuUnit::run(const ReadOp& op, int thread) {
  constexpr std::int64_t kPage = 4096;
  const auto [begin, end] = thread_share(static_cast<std::int64_t>(op.bytes.size()), thread, threads(), kPage);
  const volatile std::byte* bytes = op.bytes.data();
  for (std::int64_t at = begin; at < end; at += kPage) static_cast<void>(bytes[at]);
}

/// Each thread packs the rows that are its own: so their memory is that of its NUMA node.
void CpuUnit::run(const PackOp& op, int thread) {
  const Matrix& m = *op.matrix;
  const auto [begin, end] = thread_share(op.rows.count_of(m.rows), thread, threads(), kRowGrain);
  if (begin < end) cpu::repack(m.type, m.data, m.row_bytes, op.rows.begin + begin, op.rows.begin + end, kernels_.panel_rows, op.to);
}

void CpuUnit::run(const GatherOp& op, int thread) {
  const auto [begin, end] = thread_share(static_cast<std::int64_t>(op.rows.size()), thread, threads());
  for (std::int64_t i = begin; i < end; ++i) {
    const float* row = op.x + op.rows[static_cast<std::size_t>(i)] * op.dim;
    std::copy(row, row + op.dim, op.out + i * op.dim);
  }
}

}  // namespace yamata
