#pragma once
// The highest value of a row, as in node/cpu/row_ops.cpp: of equal values the first; NaN is never the highest.
#include "node/cuda/device_kernels.hpp"
#include "node/cuda/kernels/arithmetic.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kHighestThreads = 512, kHighestWarps = kHighestThreads / simt::kWarp;

YAMATA_DEVICE Highest higher(const Highest& a, const Highest& b) {
  return a.value > b.value || (a.value == b.value && a.column < b.column) ? a : b;
}

/// The highest of a warp's lanes, for every lane.
YAMATA_DEVICE Highest highest_of_warp(Highest own) {
  for (unsigned distance = simt::kWarp / 2; distance > 0; distance /= 2)
    own = higher(own, {simt::shuffle_xor(own.column, distance), simt::shuffle_xor(own.value, distance)});
  return own;
}

/// One thread block per row. Each thread goes through its columns in ascending order, so that the first of equal values remains.
YAMATA_KERNEL void YAMATA_BOUNDS(kHighestThreads) highest_of_rows(const HighestArgs a) {
  const std::int64_t row = simt::block_x();
  const float* x = a.x + row * a.cols;
  Highest own{-1, simt::float_of_bits(0xff800000u)};
  for (std::int64_t i = a.begin + simt::thread(); simt::within(i, a.end); i += kHighestThreads) {
    if (x[i] > own.value) own = {static_cast<std::int32_t>(i), x[i]};
  }
  own = highest_of_warp(own);
  Highest* of_warps = simt::shared<Highest>();
  if (simt::lane() == 0) of_warps[simt::warp()] = own;
  simt::sync_block();
  if (simt::thread() != 0) return;
  for (unsigned warp = 1; warp < kHighestWarps; ++warp) own = higher(own, of_warps[warp]);
  a.out[row] = own;
}

void highest(const HighestArgs& a, Stream stream) {
  if (a.rows > 0)
    simt::launch(&highest_of_rows, {static_cast<unsigned>(a.rows), 1}, kHighestThreads, kHighestWarps * sizeof(Highest), stream, a);
}

}  // namespace
}  // namespace yamata::cuda
