#pragma once
// Other operations on rows, which some families need: separate norms, biases, sums, soft-caps (node/cpu/row_ops.cpp).
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kRowThreads = 256;
constexpr int kNormLanes = 8, kTermsAhead = 8, kSumsAhead = 16;
constexpr std::int64_t kNormTile = kTermsAhead * kRowThreads;

/// Shared memory of a norm.
struct NormShared {
  double terms[kNormTile];
  double lanes[kNormLanes];
};

/// The sum over a row, in the CPU's order: lane l adds columns l, l + 8, ...; then lanes 0 to 7 are added. All threads get it.
/// The terms of a tile are computed by all threads, and added by eight.
template <class Term>
YAMATA_DEVICE double sum_of_row(NormShared& shared, const float* x, std::int64_t n, Term term) {
  double lane = 0;
  for (std::int64_t begin = 0; begin < n; begin += kNormTile) {
    float values[kTermsAhead];
    for (int j = 0; j < kTermsAhead; ++j) {
      const std::int64_t i = begin + j * kRowThreads + simt::thread();
      values[j] = simt::within(i, n) ? x[i] : 0.0f;
    }
    simt::sync_block();  // what is there may still be read
    for (int j = 0; j < kTermsAhead; ++j) {
      const std::int64_t at = j * kRowThreads + simt::thread();
      shared.terms[at] = begin + at < n ? term(values[j]) : -0.0;  // which changes no sum
    }
    simt::sync_block();
    const std::int64_t count = n - begin < kNormTile ? n - begin : kNormTile;
    for (std::int64_t i = simt::thread(); simt::thread() < kNormLanes && i < count; i += kNormLanes * kSumsAhead) {
      for (int k = 0; k < kSumsAhead; ++k) lane += shared.terms[i + k * kNormLanes];
    }
  }
  if (simt::thread() < kNormLanes) shared.lanes[simt::thread()] = lane;
  simt::sync_block();
  double sum = 0;
  for (const double one : shared.lanes) sum += one;
  return sum;
}

/// One thread block per row. If out is x, each thread has read what it overwrites before the next barrier.
YAMATA_KERNEL void YAMATA_BOUNDS(kRowThreads) norm_row(const NormArgs a) {
  NormShared& shared = *simt::shared<NormShared>();
  const float* x = a.x + static_cast<std::int64_t>(simt::block_x()) * a.x_stride;
  float* out = a.out + static_cast<std::int64_t>(simt::block_x()) * a.out_stride;
  double mean = 0;
  if (a.centered) mean = sum_of_row(shared, x, a.cols, [](float v) { return static_cast<double>(v); }) / static_cast<double>(a.cols);
  const double squares = sum_of_row(shared, x, a.cols, [&](float v) {
    const double away = static_cast<double>(v) - mean;
    return away * away;
  });
  const float* weight = a.weight + static_cast<std::int64_t>(simt::block_x()) % a.weight_rows * a.cols;
  const float center = static_cast<float>(mean), factor = inverse_rms(squares, a.cols, a.epsilon);
  for (std::int64_t i = simt::thread(); i < a.out_cols; i += kRowThreads) {
    const std::int64_t col = a.out_begin + i;
    const float normed = (x[col] - center) * factor * weight[col];
    out[i] = a.bias ? normed + a.bias[col] : normed;
  }
}

YAMATA_KERNEL void YAMATA_BOUNDS(kRowThreads) add_bias_to_rows(const BiasArgs a) {
  const std::int64_t col = a.begin + static_cast<std::int64_t>(simt::block_x()) * kRowThreads + simt::thread();
  if (!simt::within(col, a.end)) return;
  float& y = a.y[static_cast<std::int64_t>(simt::block_y()) * a.stride + col];
  const float scaled = a.scale ? y * *a.scale : y;
  y = a.bias ? scaled + a.bias[col] : scaled;
}

YAMATA_KERNEL void YAMATA_BOUNDS(kRowThreads) resize_rows(const ResizeArgs a) {
  const std::int64_t row = simt::block_x();
  for (std::int64_t col = simt::thread(); col < a.to_cols; col += kRowThreads)
    a.to[row * a.to_cols + col] = simt::within(col, a.from_cols) ? a.from[row * a.from_cols + col] : 0.0f;
}

/// One thread per value: there may be more rows than a grid has blocks in y.
YAMATA_KERNEL void YAMATA_BOUNDS(kRowThreads) add_to_rows(const AddArgs a) {
  const std::int64_t i = static_cast<std::int64_t>(simt::block_x()) * kRowThreads + simt::thread();
  if (!simt::within(i, a.rows * a.cols)) return;
  const std::int64_t row = i / a.cols, col = i % a.cols;
  float& to = a.to[row * a.to_stride + col];
  if (!a.pairs) {
    const float scale = a.gate ? a.scale * by_sigmoid(1.0f, a.gate[row]) : a.scale;
    to += scale * a.from[row / a.each * a.from_stride + col];
    return;
  }
  float sum = 0;
  for (std::int64_t e = row * a.used; e < (row + 1) * a.used; ++e)
    sum += (a.weights ? a.weights[e] : 1.0f) * a.from[a.pairs[e] * a.from_stride + col];
  to += a.scale * sum;
}

YAMATA_KERNEL void YAMATA_BOUNDS(kRowThreads) scale_each(const ScaleArgs a) {
  const std::int64_t i = static_cast<std::int64_t>(simt::block_x()) * kRowThreads + simt::thread();
  if (!simt::within(i, a.n)) return;
  if (a.pairs) {
    const std::int64_t pair = i / a.cols;
    std::int64_t slot = a.tokens[pair] * a.used;
    while (a.pairs[slot] != pair) ++slot;
    a.x[i] *= a.weights[slot];
    return;
  }
  const float x = a.x[i] * a.scale;
  a.x[i] = a.cap == 0 ? x : soft_cap(x, a.cap);
}

inline simt::Grid row_grid(std::int64_t cols, std::int64_t rows) {
  return {static_cast<unsigned>(divide_up(cols, kRowThreads)), static_cast<unsigned>(rows)};
}

void norm(const NormArgs& a, Stream stream) {
  if (a.rows > 0) simt::launch(&norm_row, {static_cast<unsigned>(a.rows), 1}, kRowThreads, sizeof(NormShared), stream, a);
}

void add_bias(const BiasArgs& a, Stream stream) {
  if (a.rows > 0 && a.begin < a.end) simt::launch(&add_bias_to_rows, row_grid(a.end - a.begin, a.rows), kRowThreads, 0, stream, a);
}

void resize(const ResizeArgs& a, Stream stream) {
  if (a.rows > 0) simt::launch(&resize_rows, {static_cast<unsigned>(a.rows), 1}, kRowThreads, 0, stream, a);
}

void add(const AddArgs& a, Stream stream) {
  if (a.rows > 0 && a.cols > 0) simt::launch(&add_to_rows, row_grid(a.rows * a.cols, 1), kRowThreads, 0, stream, a);
}

void scale(const ScaleArgs& a, Stream stream) {
  if (a.n > 0) simt::launch(&scale_each, row_grid(a.n, 1), kRowThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
