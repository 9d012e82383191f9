#pragma once
// N-gram embeddings (node/state_op.hpp), in the order of the CPU's operations (node/cpu/ngram_ops.cpp).
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

/// A channel of a column, by the numbers of StateStep.
YAMATA_DEVICE float far_column(const FarConvolutionArgs& a, std::int32_t column, std::int64_t channel) {
  if (column >= 0) return a.columns[column * a.channels + channel];
  return column == DeviceStep::kZero ? 0.0f : a.x[(DeviceStep::kZero - 1 - column) * a.channels + channel];
}

/// A thread for a channel in one step.
YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) convolve_far_channels(const FarConvolutionArgs a) {
  const std::int64_t channel = static_cast<std::int64_t>(simt::block_x()) * simt::kWarp + simt::thread();
  if (!simt::within(channel, a.channels)) return;
  const DeviceStep step = a.steps[simt::block_y()];
  const std::int32_t* columns = a.far_columns + simt::block_y() * (a.far_kept + 1);
  if (step.row >= 0) {
    float sum = 0;
    for (std::int64_t tap = 0; tap < a.tap_count; ++tap) {
      const std::int32_t column = columns[(a.tap_count - 1 - tap) * a.dilation];
      if (column != DeviceStep::kZero) sum += a.taps[channel * a.tap_count + tap] * far_column(a, column, channel);
    }
    a.out[step.row * a.channels + channel] = activated(Activation::kSilu, sum, 1.0f, false);
    if (step.input >= 0) a.columns[step.input * a.channels + channel] = far_column(a, columns[0], channel);
  }
  if (step.keep < 0) return;
  for (std::int64_t back = 1; back <= a.far_kept; ++back)
    a.columns[(a.inputs + a.far_kept * (step.keep + 1) - back) * a.channels + channel] = far_column(a, columns[back - 1], channel);
}

/// A thread for a row.
YAMATA_KERNEL void YAMATA_BOUNDS(simt::kWarp) compare_row(const LikenessArgs args) {
  const std::int64_t row = static_cast<std::int64_t>(simt::block_x()) * simt::kWarp + simt::thread();
  if (!simt::within(row, args.rows)) return;
  const float *a = args.a + row * args.cols, *b = args.b + row * args.cols;
  double sums[8] = {};
  for (std::int64_t i = 0; i < args.cols; ++i) sums[i % 8] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double sum = 0;
  for (const double part : sums) sum += part;
  const auto product = static_cast<float>(sum * static_cast<double>(args.scale));
  const double size = product < 0 ? -static_cast<double>(product) : static_cast<double>(product);
  const auto root = static_cast<float>(simt::square_root(size > 1e-6 ? size : 1e-6));
  args.out[row] = product > 0 ? root : product < 0 ? -root : 0.0f;
}

void convolve_far(const FarConvolutionArgs& a, Stream stream) {
  const simt::Grid grid{static_cast<unsigned>(divide_up(a.channels, simt::kWarp)), static_cast<unsigned>(a.step_count)};
  if (grid.x > 0 && grid.y > 0) simt::launch(&convolve_far_channels, grid, simt::kWarp, 0, stream, a);
}

void compare_rows(const LikenessArgs& a, Stream stream) {
  const simt::Grid grid{static_cast<unsigned>(divide_up(a.rows, simt::kWarp)), 1};
  if (grid.x > 0) simt::launch(&compare_row, grid, simt::kWarp, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
