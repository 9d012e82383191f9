#include "node/cpu/ngram_ops.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace yamata::cpu {
namespace {

constexpr std::int64_t kFarPiece = 256;  // channels

/// Some channels of a column, by the numbers of StateStep; null: zeros.
const float* far_column(const FarConvolutionOp& op, std::int32_t column, std::int64_t begin) {
  if (column >= 0) return op.columns + column * op.channels + begin;
  return column == StateStep::kZero ? nullptr : op.x + StateStep::row_of(column) * op.channels + begin;
}

void convolve_piece(const KernelTable& kernels, const FarConvolutionOp& op, std::size_t number, std::int64_t begin, std::int64_t count) {
  const StateStep& step = op.plan->steps[number];
  const std::int32_t* columns = op.plan->far_columns_of(number);
  if (step.row >= 0) {
    std::array<float, kFarPiece> sums{};
    for (std::int64_t tap = 0; tap < op.tap_count; ++tap) {
      const float* column = far_column(op, columns[(op.tap_count - 1 - tap) * op.dilation], begin);
      const float* weights = op.taps + begin * op.tap_count + tap;
      for (std::int64_t i = 0; column && i < count; ++i) sums[static_cast<std::size_t>(i)] += weights[i * op.tap_count] * column[i];
    }
    kernels.activate(Activation::kSilu, sums.data(), nullptr, count, op.out + step.row * op.channels + begin);
    if (step.input >= 0) std::copy_n(far_column(op, columns[0], begin), count, op.columns + step.input * op.channels + begin);
  }
  for (std::int32_t back = 1; step.keep >= 0 && back <= op.plan->far_kept; ++back) {
    const float* column = far_column(op, columns[back - 1], begin);
    float* const to = op.columns + op.plan->far_column_of(step.keep, back) * op.channels + begin;
    column ? std::copy_n(column, count, to) : std::fill_n(to, count, 0.0f);
  }
}

}  // namespace

void convolve_far(const KernelTable& kernels, const FarConvolutionOp& op, ThreadShare share) {
  for (std::int64_t begin = share.begin; begin < share.end; begin += kFarPiece) {
    for (std::size_t step = 0; step < op.plan->steps.size(); ++step)
      convolve_piece(kernels, op, step, begin, std::min(kFarPiece, share.end - begin));
  }
}

void compare_rows(const LikenessOp& op, ThreadShare share) {
  for (std::int64_t row = share.begin; row < share.end; ++row) {
    const float *a = op.a + row * op.cols, *b = op.b + row * op.cols;
    std::array<double, 8> sums{};
    for (std::int64_t i = 0; i < op.cols; ++i)
      sums[static_cast<std::size_t>(i % 8)] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    double sum = 0;
    for (const double part : sums) sum += part;
    const auto product = static_cast<float>(sum * static_cast<double>(op.scale));
    const auto root = static_cast<float>(std::sqrt(std::max(1e-6, std::abs(static_cast<double>(product)))));
    op.out[row] = product > 0 ? root : product < 0 ? -root : 0.0f;
  }
}

}  // namespace yamata::cpu
