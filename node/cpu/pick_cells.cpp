#include "node/cpu/pick_cells.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "node/cpu/thread_share.hpp"

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
    kernels_.index_scores({op.q + row * op.heads * op.dim, op.weights + row * op.heads, op.visible[row].data() + cell,
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
      const auto seen = static_cast<std::size_t>(std::ssize(op.visible[row]));
      pick_highest({scores_.data() + (row - first) * most, seen}, op.visible[row], std::ssize(op.picked[row]),
                   keys_[static_cast<std::size_t>(thread)], const_cast<std::int32_t*>(op.picked[row].data()));
    }
  }
}

void pick_highest(std::span<const float> scores, std::span<const std::int32_t> cells, std::int64_t count, std::vector<std::uint32_t>& keys,
                  std::int32_t* out) {
  if (count == 0) return;
  keys.resize(scores.size());
  std::ranges::transform(scores, keys.begin(), in_order);
  std::ranges::nth_element(keys, keys.begin() + (count - 1), std::greater());
  const std::uint32_t least = keys[static_cast<std::size_t>(count - 1)];
  auto equal = count - std::ranges::count_if(keys, [&](std::uint32_t key) { return key > least; });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::uint32_t key = in_order(scores[i]);
    if (key > least || (key == least && equal-- > 0)) *out++ = cells[i];
  }
}

}  // namespace yamata
