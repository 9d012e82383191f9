#pragma once
// The highest value of a row, as in node/cpu/row_ops.cpp: of equal values the first; NaN is never the highest.
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kHighestThreads = 1024, kHighestWarps = kHighestThreads / simt::kWarp;
constexpr int kHighestAhead = 8;  // values of a thread that are loaded before they are compared

YAMATA_DEVICE Highest higher(const Highest& a, const Highest& b) {
  return a.value > b.value || (a.value == b.value && a.column < b.column) ? a : b;
}

/// The highest of a warp's lanes, for every lane.
YAMATA_DEVICE Highest highest_of_warp(Highest own) {
  for (unsigned distance = simt::kWarp / 2; distance > 0; distance /= 2)
    own = higher(own, {simt::shuffle_xor(own.column, distance), simt::shuffle_xor(own.value, distance)});
  return own;
}

static_assert(kHighestWarps == simt::kWarp, "one lane for each warp");

/// One thread block per row. Each thread goes through its columns in ascending order, so that the first of equal values remains.
YAMATA_KERNEL void YAMATA_BOUNDS(kHighestThreads) highest_of_rows(const HighestArgs a) {
  const std::int64_t row = simt::block_x();
  const float* x = a.x + row * a.cols;
  Highest own{-1, simt::float_of_bits(0xff800000u)};
  for (std::int64_t first = a.begin + simt::thread(); first < a.end; first += kHighestThreads * kHighestAhead) {
    float values[kHighestAhead];
    for (int j = 0; j < kHighestAhead; ++j) {
      const std::int64_t i = first + j * kHighestThreads;
      values[j] = simt::within(i, a.end) ? x[i] : own.value;
    }
    for (int j = 0; j < kHighestAhead; ++j) {
      if (values[j] > own.value) own = {static_cast<std::int32_t>(first + j * kHighestThreads), values[j]};
    }
  }
  own = highest_of_warp(own);
  Highest* of_warps = simt::shared<Highest>();
  if (simt::lane() == 0) of_warps[simt::warp()] = own;
  simt::sync_block();
  if (simt::warp() != 0) return;
  own = highest_of_warp(of_warps[simt::lane()]);
  if (simt::lane() == 0) a.out[row] = own;
}

void highest(const HighestArgs& a, Stream stream) {
  if (a.rows > 0)
    simt::launch(&highest_of_rows, {static_cast<unsigned>(a.rows), 1}, kHighestThreads, kHighestWarps * sizeof(Highest), stream, a);
}

}  // namespace
}  // namespace yamata::cuda
