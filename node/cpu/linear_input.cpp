#include "node/cpu/linear_input.hpp"

#include <algorithm>
#include <variant>

#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/slice_layout.hpp"
#include "node/cpu/thread_share.hpp"
#include "node/unit_barrier.hpp"

namespace yamata {

namespace {

using cpu::EncodedBlock;

constexpr std::int64_t kBlock = 32;

std::int64_t blocks_of(std::int64_t cols) { return cpu::QuantizedRows::blocks_of(cols); }

/// Calls piece(row, from, to) for the thread's part of `rows` rows of `cols` columns; parts are whole blocks, except at the end of a row.
template <class Piece>
void for_pieces(std::int64_t rows, std::int64_t cols, int thread, int threads, Piece piece) {
  const std::int64_t blocks = blocks_of(cols);
  const auto [begin, end] = thread_share(rows * blocks, thread, threads);
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t row = i / blocks, first = i % blocks, last = std::min(blocks, first + end - i);
    piece(row, first * kBlock, std::min(last * kBlock, cols));
    i += last - first;
  }
}

std::int64_t x_stride(const LinearOp& op) { return op.x_stride > 0 ? op.x_stride : op.share.end(op.cols) - op.share.begin(); }

/// Computes activation(gate) * up in pieces that stay in a cache, and calls use(at, n, values) for each.
template <class Use>
void for_activated(const cpu::KernelTable& kernels, Activation activation, const float* gate, const float* up, std::int64_t n, Use use) {
  constexpr std::int64_t kPiece = 1024;
  alignas(64) float values[kPiece];
  for (std::int64_t at = 0; at < n; at += kPiece) {
    const std::int64_t count = std::min(kPiece, n - at);
    kernels.activate(activation, gate + at, up ? up + at : nullptr, count, values);
    use(at, count, values);
  }
}

}  // namespace

/// Each expert's rows begin a new tile.
cpu::QuantizedRows LinearInput::quantized(const LinearOp& op, Rows rows) const {
  const std::int64_t blocks = blocks_of(op.cols), before = rows.begin * blocks * cpu::kActivationBlockBytes;
  return {const_cast<std::byte*>(quantized_.data()) + before, blocks, rows.count()};
}

LinearInput::Place LinearInput::place(const LinearOp& op, std::int64_t row) const {
  if (!op.experts.any()) return {quantized(op, {0, op.rows}), row};
  const std::int32_t* first = op.experts.first + op.experts.chosen[row];
  return {quantized(op, {first[0], first[1]}), row - first[0]};
}

void LinearInput::prepare(std::span<const Op> ops, const std::atomic<bool>* stop, bool declined) {
  std::size_t quantized = 0, slices = 0, whole = 0, squares = 0, members = 0;
  const auto share = [&](const SliceLayout& layout) {
    slices = std::max(slices, layout.bytes());
    members = std::max(members, static_cast<std::size_t>(layout.share.group->members()));
  };
  for (const Op& any : ops) {
    if (const auto* gather = std::get_if<AllGatherOp>(&any)) share(slices_of(*gather));
    if (const auto* norm = std::get_if<NormOp>(&any)) {
      squares = std::max(squares, static_cast<std::size_t>(blocks_of(norm->cols)));
      if (!norm->share.group) continue;
      share(float_slices(norm->share, norm->rows));
      whole = std::max(whole, static_cast<std::size_t>(norm->rows * norm->cols));
    }
    const auto* op = std::get_if<LinearOp>(&any);
    if (!op) continue;
    if (op->norm) squares = std::max(squares, static_cast<std::size_t>(blocks_of(op->cols)));
    if (needs_quantized(*op))
      quantized = std::max(quantized, static_cast<std::size_t>(op->rows * blocks_of(op->cols) * cpu::kActivationBlockBytes));
    if (!op->share.group) continue;
    share(slices_of(*op));
    if (needs_floats(*op)) whole = std::max(whole, static_cast<std::size_t>(op->rows * op->cols));
  }
  const auto grow = [](auto& memory, std::size_t size) {
    if (memory.size() < size) memory.resize(size);
  };
  grow(quantized_, quantized);
  grow(slices_, slices);
  grow(whole_, whole);
  grow(ends_, members);
  for (auto& own : squares_) grow(own, squares);
  stop_ = stop;
  declined_ = declined;
  goes_on_ = true;
}

bool LinearInput::make(const LinearOp& op, int thread) {
  if (op.share.group) return make_together(op, thread);
  if (!op.input && !needs_quantized(op)) return true;
  make_alone(op, {op.x, op.up, x_stride(op), op.activation}, thread);
  pool_.barrier();
  return true;
}

float LinearInput::inverse_rms(const LinearOp& op, const float* x, int thread) {
  float* squares = squares_[static_cast<std::size_t>(thread)].data();
  kernels_.block_squares(x, op.cols, squares);
  return kernels_.inverse_rms(squares, op.cols, op.epsilon);
}

/// Makes the thread's part of the input from whole rows. Each thread computes the root mean square of its rows itself.
void LinearInput::make_alone(const LinearOp& op, const Source& source, int thread) {
  const bool quantizes = needs_quantized(op), floats = needs_floats(op) && op.input;
  for_pieces(op.rows, op.cols, thread, pool_.size(), [&](std::int64_t row, std::int64_t from, std::int64_t to) {
    const std::int64_t each = op.x_each > 0 ? op.experts.chosen[row] * op.x_each : 0;
    const std::int64_t at = (op.x_of_tokens ? op.experts.tokens[row] : row) * source.stride + each;
    const float* x = source.x + at;
    const Place q8 = place(op, row);
    float* input = floats ? op.input + row * op.cols + from : nullptr;
    if (op.norm) {
      const float factor = inverse_rms(op, x, thread);
      if (quantizes) kernels_.quantize(x + from, op.norm + from, factor, from, to, q8.rows, q8.row);
      if (input) kernels_.scale_mul(x + from, factor, op.norm + from, to - from, input);
    } else if (source.activation != Activation::kNone) {
      for_activated(kernels_, source.activation, x + from, source.up ? source.up + at + from : nullptr, to - from,
                    [&](std::int64_t i, std::int64_t n, const float* values) {
                      if (quantizes) kernels_.quantize(values, nullptr, 1, from + i, from + i + n, q8.rows, q8.row);
                      if (input) std::copy_n(values, n, input + i);
                    });
    } else {
      if (quantizes) kernels_.quantize(x + from, nullptr, 1, from, to, q8.rows, q8.row);
      if (input && input != x + from) std::copy_n(x + from, to - from, input);
    }
  });
}

/// The memory of the slices: the group's, or this unit's own.
std::byte* LinearInput::memory(const SliceLayout& layout) {
  const std::span<std::byte> shared = layout.share.group->shared_slices(layout.bytes());
  return shared.empty() ? slices_.data() : shared.data();
}

/// Whether this unit wants to continue the run. Called by one thread.
bool LinearInput::wants() const { return !declined_ && !(stop_ && stop_->load(std::memory_order_relaxed)); }

/// Exchanges the slices, after all threads have written to the own slice.
bool LinearInput::exchange(const SliceLayout& layout, std::byte* slices, int thread) {
  pool_.barrier();
  if (thread == 0) {
    GroupExchange& group = *layout.share.group;
    for (int m = 0; m < group.members(); ++m) ends_[static_cast<std::size_t>(m)] = layout.begin(m + 1);
    slowdown_.begin_exchange();
    goes_on_ = group.all_gather({slices, layout.bytes()}, {ends_.data(), static_cast<std::size_t>(group.members())}, wants());
    slowdown_.end_exchange();
  }
  pool_.barrier();
  return goes_on_;
}

void LinearInput::wait(const BarrierOp& op, int thread) {
  if (thread != 0) return;  // the other threads wait until thread 0 has ended the operation
  slowdown_.begin_exchange();
  goes_on_ = op.barrier->wait(op.own, wants());
  slowdown_.end_exchange();
}

bool LinearInput::make_together(const LinearOp& op, int thread) {
  const SliceLayout layout = slices_of(op);
  std::byte* slices = memory(layout);
  const bool floats = needs_floats(op);
  if (!declined_) floats ? write_floats(op, layout, slices, thread) : encode(op, layout, slices, thread);
  if (!exchange(layout, slices, thread)) return false;
  if (floats) {
    read_floats(layout, slices, op.cols, {0, op.rows}, whole_.data(), thread);
    pool_.barrier();
    make_alone(op, {whole_.data(), nullptr, op.cols, Activation::kNone}, thread);
  } else {
    decode(op, layout, slices, thread);
  }
  pool_.barrier();
  return true;
}

namespace {

/// Writes the own columns as floats, for an exchange.
void write_columns(const float* x, std::int64_t stride, std::int64_t own, const SliceLayout& layout, std::byte* slices, int thread,
                   int threads) {
  const int member = layout.share.group->own();
  const std::int64_t width = layout.blocks(member);
  auto* slice = reinterpret_cast<float*>(slices + layout.payload(member)) + layout.own_first();
  for_pieces(layout.rows, own, thread, threads, [&](std::int64_t row, std::int64_t from, std::int64_t to) {
    std::copy_n(x + row * stride + from, to - from, slice + row * width + from);
  });
}

}  // namespace

bool LinearInput::gather(const AllGatherOp& op, int thread) {
  const SliceLayout layout = slices_of(op);
  std::byte* slices = memory(layout);
  if (!declined_)
    write_columns(op.x + op.share.begin(), op.cols, op.share.end(op.cols) - op.share.begin(), layout, slices, thread, pool_.size());
  if (!exchange(layout, slices, thread)) return false;
  read_floats(layout, slices, op.cols, op.brings, op.x, thread);
  return true;
}

const float* LinearInput::whole_rows(const NormOp& op, int thread) {
  const SliceLayout layout = float_slices(op.share, op.rows);
  std::byte* slices = memory(layout);
  if (!declined_) write_columns(op.x, op.x_stride, op.share.end(op.cols) - op.share.begin(), layout, slices, thread, pool_.size());
  if (!exchange(layout, slices, thread)) return nullptr;
  read_floats(layout, slices, op.cols, {0, op.rows}, whole_.data(), thread);  // each thread reads the rows that it normalizes
  return whole_.data();
}

/// Writes the own columns, gated if the operation gates them, without the norm, which needs the whole row.
void LinearInput::write_floats(const LinearOp& op, const SliceLayout& layout, std::byte* slices, int thread) {
  const int member = op.share.group->own();
  const std::int64_t own = op.share.end(op.cols) - op.share.begin(), width = layout.blocks(member), stride = x_stride(op);
  auto* slice = reinterpret_cast<float*>(slices + layout.payload(member)) + layout.own_first();
  for_pieces(op.rows, own, thread, pool_.size(), [&](std::int64_t row, std::int64_t from, std::int64_t to) {
    const std::int64_t at = row * stride + from;
    float* into = slice + row * width + from;
    if (op.activation != Activation::kNone)
      kernels_.activate(op.activation, op.x + at, op.up ? op.up + at : nullptr, to - from, into);
    else
      std::copy_n(op.x + at, to - from, into);
  });
}

/// Reads some rows of all members' columns.
void LinearInput::read_floats(const SliceLayout& layout, const std::byte* slices, std::int64_t cols, OpRange rows, float* all,
                              int thread) const {
  const auto [begin, end] = thread_share(rows.count_of(layout.rows), thread, pool_.size());
  for (int m = 0; m < layout.share.group->members(); ++m) {
    const auto* slice = reinterpret_cast<const float*>(slices + layout.payload(m));
    const std::int64_t width = layout.blocks(m);
    for (std::int64_t row = rows.begin + begin; row < rows.begin + end; ++row)
      std::copy_n(slice + row * width, width, all + row * cols + layout.cut(m));
  }
}

/// Writes the own columns in blocks, not divided by the root mean square.
void LinearInput::encode(const LinearOp& op, const SliceLayout& layout, std::byte* slices, int thread) {
  const int member = op.share.group->own();
  const std::int64_t begin = op.share.begin(), own = op.share.end(op.cols) - begin, stride = x_stride(op);
  const std::int64_t blocks = layout.blocks(member), first = layout.own_first();
  auto* squares = reinterpret_cast<float*>(slices + layout.payload(member));
  auto* encoded = reinterpret_cast<EncodedBlock*>(squares + (op.norm ? op.rows * blocks : 0));
  for_pieces(op.rows, own, thread, pool_.size(), [&](std::int64_t row, std::int64_t from, std::int64_t to) {
    const float* x = op.x + row * stride + from;
    const std::int64_t block = row * blocks + first + from / kBlock;
    if (op.norm) {
      kernels_.block_squares(x, to - from, squares + block);
      kernels_.encode_blocks(x, op.norm + begin + from, to - from, encoded + block);
    } else if (op.activation != Activation::kNone) {
      const float* up = op.up ? op.up + row * stride + from : nullptr;
      for_activated(kernels_, op.activation, x, up, to - from, [&](std::int64_t at, std::int64_t n, const float* values) {
        kernels_.encode_blocks(values, nullptr, n, encoded + block + at / kBlock);
      });
    } else {
      kernels_.encode_blocks(x, nullptr, to - from, encoded + block);
    }
  });
}

/// Reads every member's blocks and divides them by the root mean square of the whole row.
void LinearInput::decode(const LinearOp& op, const SliceLayout& layout, const std::byte* slices, int thread) {
  const int members = op.share.group->members();
  const auto slice = [&](int m) { return reinterpret_cast<const float*>(slices + layout.payload(m)); };
  float* squares = squares_[static_cast<std::size_t>(thread)].data();
  // A thread has a part of all members' blocks of all rows. Each thread computes the factors of its rows itself.
  const std::int64_t blocks = layout.blocks_before(members);
  const auto [begin, end] = thread_share(op.rows * blocks, thread, pool_.size());
  for (std::int64_t row = begin / blocks; row * blocks < end; ++row) {
    const Place q8 = place(op, row);
    float factor = 1;
    for (int m = 0; op.norm && m < members; ++m)
      std::copy_n(slice(m) + row * layout.blocks(m), layout.blocks(m), squares + layout.blocks_before(m));
    if (op.norm) factor = kernels_.inverse_rms(squares, op.cols, op.epsilon);
    for (int m = 0; m < members; ++m) {
      const std::int64_t before = layout.blocks_before(m), count = layout.blocks(m);
      const std::int64_t from = std::clamp<std::int64_t>(begin - row * blocks - before, 0, count);
      const std::int64_t to = std::clamp<std::int64_t>(end - row * blocks - before, 0, count);
      const auto* encoded = reinterpret_cast<const EncodedBlock*>(slice(m) + (op.norm ? op.rows * count : 0));
      if (from < to) kernels_.decode_blocks(encoded + row * count + from, to - from, factor, q8.rows, q8.row, before + from);
    }
  }
}

}  // namespace yamata
