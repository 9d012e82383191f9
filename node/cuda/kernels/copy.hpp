#pragma once
// Copies rows.
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kCopyThreads = 256;

YAMATA_KERNEL void YAMATA_BOUNDS(kCopyThreads) copy_columns(const CopyArgs a) {
  const std::int64_t row = simt::block_y(), col = static_cast<std::int64_t>(simt::block_x()) * kCopyThreads + simt::thread();
  if (!simt::within(col, a.cols)) return;
  const std::int64_t at = row * a.from_stride + col;
  a.to[row * a.to_stride + col] = activated(a.activation, a.from[at], a.up ? a.up[at] : 1.0f, a.up);
}

YAMATA_KERNEL void YAMATA_BOUNDS(kCopyThreads) gather_rows(const GatherArgs a) {
  const std::int64_t i = simt::block_y(), col = static_cast<std::int64_t>(simt::block_x()) * kCopyThreads + simt::thread();
  const std::int64_t part = a.parts ? a.parts[i] * a.each : 0;
  if (simt::within(col, a.dim)) a.out[i * a.dim + col] = a.x[a.rows[i] * a.stride + part + col];
}

/// Thread blocks along a row; rows.
inline simt::Grid copy_grid(std::int64_t cols, std::int64_t rows) {
  return {static_cast<unsigned>(divide_up(cols, kCopyThreads)), static_cast<unsigned>(rows)};
}

void copy(const CopyArgs& a, Stream stream) {
  if (a.rows > 0 && a.cols > 0) simt::launch(&copy_columns, copy_grid(a.cols, a.rows), kCopyThreads, 0, stream, a);
}

void gather(const GatherArgs& a, Stream stream) {
  if (a.count > 0 && a.dim > 0) simt::launch(&gather_rows, copy_grid(a.dim, a.count), kCopyThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
