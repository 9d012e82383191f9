#include "node/cpu/pick_cells.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "node/head_dim.hpp"

namespace yamata {
namespace {

constexpr std::int64_t kPiece = 128;  // cells

std::int64_t most_cells(const PickOp& op) {
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < op.rows; ++row) most = std::max(most, std::ssize(op.visible[row]));
  return most;
}

std::int64_t rows_at_once(const PickOp& op, std::int64_t most) {
  return std::clamp<std::int64_t>(PickCells::kMostScores / std::max<std::int64_t>(1, most), 1, std::max<std::int64_t>(1, op.rows));
}

/// A whole number that is greater for a greater score. Both zeros are equal; what is no number has a place, too.
std::uint32_t in_order(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

}  // namespace

void PickCells::prepare(std::span<const Op> ops) {
  std::size_t scores = 0;
  for (const Op& any : ops) {
    const auto* op = std::get_if<PickOp>(&any);
    if (!op) continue;
    const std::int64_t most = most_cells(*op);
    scores = std::max(scores, static_cast<std::size_t>(rows_at_once(*op, most) * most));
  }
  if (scores > scores_.size()) scores_.resize(scores);
}

/// The thread's part of the scores of rows `first` up to `last`.
void PickCells::score(const PickOp& op, std::int64_t first, std::int64_t last, std::int64_t most, int thread) {
  const std::int64_t pieces = (most + kPiece - 1) / kPiece;
  const auto [begin, end] = thread_share((last - first) * pieces, thread, threads_);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t row = first + i / pieces, cell = i % pieces * kPiece, seen = std::ssize(op.visible[row]);
    if (cell >= seen) continue;
    kernels_.index_scores({op.q + row * op.heads * op.dim, op.weights + row * op.weight_row(), op.visible[row].data() + cell,
                           std::min(kPiece, seen - cell), op.cache[0], op.type, op.heads, op.dim,
                           scores_.data() + (row - first) * most + cell});
  }
}

void PickCells::run(const PickOp& op, int thread, ThreadPool& pool) {
  const std::int64_t most = most_cells(op), step = rows_at_once(op, most);
  for (std::int64_t first = 0; first < op.rows; first += step) {
    const std::int64_t last = std::min(first + step, op.rows);
    if (first > 0) pool.barrier();
    score(op, first, last, most, thread);
    pool.barrier();
    const auto [begin, end] = thread_share(last - first, thread, threads_);
    for (std::int64_t row = first + begin; row < first + end; ++row) {
      const std::size_t seen = op.visible[row].size();
      const std::span<const std::int32_t> cells = op.all()[row];
      const std::int64_t tail = op.tail(row), picks = (std::ssize(op.picked[row]) - tail) / op.block;
      auto* const out = const_cast<std::int32_t*>(op.picked[row].data());
      pick_highest({scores_.data() + (row - first) * most, seen}, cells, op.block, picks, keys_[static_cast<std::size_t>(thread)], out);
      std::ranges::copy(cells.last(static_cast<std::size_t>(tail)), out + picks * op.block);
    }
  }
}

void pick_highest(std::span<const float> scores, std::span<const std::int32_t> cells, std::int64_t block, std::int64_t count,
                  std::vector<std::uint32_t>& keys, std::int32_t* out) {
  if (count == 0) return;
  keys.resize(scores.size());
  std::ranges::transform(scores, keys.begin(), in_order);
  std::ranges::nth_element(keys, keys.begin() + (count - 1), std::greater());
  const std::uint32_t least = keys[static_cast<std::size_t>(count - 1)];
  auto equal = count - std::ranges::count_if(keys, [&](std::uint32_t key) { return key > least; });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::uint32_t key = in_order(scores[i]);
    if (key > least || (key == least && equal-- > 0)) out = std::copy_n(cells.begin() + static_cast<std::ptrdiff_t>(i) * block, block, out);
  }
}

void pool_keys(const PoolOp& op, ThreadShare rows) {
  std::array<float, kMaxHeadDim> key{};
  const auto plane = static_cast<const std::byte*>(op.cache[0]);
  const std::size_t bytes = row_bytes(op.type, op.dim);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* const out = op.out + row * op.dim;
    std::fill_n(out, op.dim, 0.0f);
    for (const std::int32_t cell : op.cells[row]) {
      cpu::dequantize(op.type, plane + static_cast<std::size_t>(cell) * bytes, op.dim, key.data());
      for (std::int64_t i = 0; i < op.dim; ++i) out[i] += key[static_cast<std::size_t>(i)];
    }
    const float part = 1.0f / static_cast<float>(op.cells[row].size());
    for (std::int64_t i = 0; i < op.dim; ++i) out[i] *= part;
  }
}

}  // namespace yamata
