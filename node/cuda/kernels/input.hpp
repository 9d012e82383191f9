#pragma once
// Inputs of products: normalized or gated; quantized, as floats, or as blocks for an exchange (node/cpu/linear_input.cpp).
#include "node/cpu/kernels/kernels.hpp"
#include "node/cuda/device_kernels.hpp"
#include "node/cuda/kernels/arithmetic.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kInputThreads = 256, kInputWarps = kInputThreads / simt::kWarp;

/// A quantized block of 32, one element per lane of a warp: the rounded element, and the scale of the block.
struct LaneBlock {
  float rounded, scale;

  YAMATA_DEVICE explicit LaneBlock(float x) {
    scale = largest_of_warp(magnitude(x)) / 127.0f;
    if (scale < 1.17549435e-38f) scale = 0.0f;
    rounded = round_whole(x * (scale == 0.0f ? 0.0f : 1.0f / scale));
  }
  YAMATA_DEVICE LaneBlock(const cpu::EncodedBlock& block, unsigned lane) : rounded(block.values[lane]), scale(block.scale) {}

  /// Stores the block; its scale is multiplied by `factor`.
  YAMATA_DEVICE void put(const DeviceRows& x8, std::int64_t row, std::int64_t block, float factor) const {
    const std::int64_t at = row * x8.blocks + block;
    const float half_sum = sum_of_16(rounded);  // integers: exact
    x8.values[at * 32 + simt::lane()] = static_cast<std::int8_t>(rounded);
    if (simt::lane() % 16 == 0) x8.sub_sums[2 * at + simt::lane() / 16] = static_cast<std::int16_t>(half_sum);
    if (simt::lane() == 0) x8.scales[at] = scale * factor;
  }
};

/// One thread block per row. Shared memory: 1 / root mean square, then the blocks' sums of squares.
YAMATA_KERNEL void YAMATA_BOUNDS(kInputThreads) norm_input(const InputArgs a) {
  float* shared = simt::shared<float>();
  const std::int64_t row = simt::block_x(), blocks = divide_up(a.cols, 32);
  const float* x = a.x + row * a.x_stride;
  for (std::int64_t block = simt::warp(); block < blocks; block += kInputWarps) {
    const std::int64_t col = block * 32 + simt::lane();
    const float square = block_square(simt::within(col, a.cols) ? x[col] : 0.0f);
    if (simt::lane() == 0) shared[1 + block] = square;
  }
  simt::sync_block();
  if (simt::thread() == 0) {
    double sum = 0;
    for (std::int64_t block = 0; block < blocks; ++block) sum += static_cast<double>(shared[1 + block]);
    shared[0] = inverse_rms(sum, a.cols, a.epsilon);
  }
  simt::sync_block();
  const float factor = shared[0];
  for (std::int64_t block = simt::warp(); block < blocks; block += kInputWarps) {
    const std::int64_t col = block * 32 + simt::lane();
    const bool has = simt::within(col, a.cols);
    const float value = has ? x[col] : 0.0f, weight = has ? a.norm[col] : 0.0f;
    if (a.x8.values) LaneBlock(value * weight).put(a.x8, row, block, factor);
    if (a.floats && has) a.floats[row * a.cols + col] = value * factor * weight;
  }
}

/// Without a norm: one warp per block of 32.
YAMATA_KERNEL void YAMATA_BOUNDS(kInputThreads) plain_input(const InputArgs a) {
  const std::int64_t row = simt::block_y(), block = static_cast<std::int64_t>(simt::block_x()) * kInputWarps + simt::warp();
  const std::int64_t col = block * 32 + simt::lane();
  if (!simt::within(block * 32, a.cols)) return;
  const bool has = simt::within(col, a.cols);
  const float value = has ? activated(a.activation, a.x, a.up, row * a.x_stride + col) : 0.0f;
  if (a.x8.values) LaneBlock(value).put(a.x8, row, block, 1);
  if (a.floats && has) a.floats[row * a.cols + col] = value;
}

YAMATA_KERNEL void YAMATA_BOUNDS(kInputThreads) encode_input(const EncodeArgs a) {
  const std::int64_t row = simt::block_y(), block = static_cast<std::int64_t>(simt::block_x()) * kInputWarps + simt::warp();
  const std::int64_t col = block * 32 + simt::lane(), at = row * a.row_blocks + block;
  if (!simt::within(block * 32, a.cols)) return;
  const bool has = simt::within(col, a.cols);
  const float value = has ? activated(a.activation, a.x, a.up, row * a.x_stride + col) : 0.0f;
  if (a.norm) {
    const float square = block_square(value);
    if (simt::lane() == 0) a.squares[at] = square;
  }
  const LaneBlock encoded(a.norm && has ? value * a.norm[col] : value);
  cpu::EncodedBlock& out = reinterpret_cast<cpu::EncodedBlock*>(a.blocks)[at];
  out.values[simt::lane()] = static_cast<std::int8_t>(encoded.rounded);
  if (simt::lane() == 0) out.scale = encoded.scale;
}

/// One thread block per row. Shared memory: 1 / root mean square.
YAMATA_KERNEL void YAMATA_BOUNDS(kInputThreads) decode_input(const DecodeArgs a) {
  float* factor = simt::shared<float>();
  const std::int64_t row = simt::block_x();
  if (simt::thread() == 0) {
    double sum = 0;
    for (int m = 0; m < a.member_count && a.normed; ++m) {
      const DecodeArgs::Member& member = a.members[m];
      for (std::int64_t i = 0; i < member.count; ++i) sum += static_cast<double>(member.squares[row * member.count + i]);
    }
    *factor = a.normed ? inverse_rms(sum, a.cols, a.epsilon) : 1.0f;
  }
  simt::sync_block();
  for (int m = 0; m < a.member_count; ++m) {
    const DecodeArgs::Member& member = a.members[m];
    for (std::int64_t i = simt::warp(); i < member.count; i += kInputWarps) {
      const auto& block = reinterpret_cast<const cpu::EncodedBlock*>(member.blocks)[row * member.count + i];
      LaneBlock(block, simt::lane()).put(a.x8, row, member.before + i, *factor);
    }
  }
}

/// Thread blocks for a row of so many columns, one warp for 32 columns.
constexpr unsigned row_blocks(std::int64_t cols) { return static_cast<unsigned>(divide_up(divide_up(cols, 32), kInputWarps)); }

void make_input(const InputArgs& a, Stream stream) {
  if (a.rows == 0) return;
  if (a.norm) {
    const std::size_t bytes = static_cast<std::size_t>(1 + divide_up(a.cols, 32)) * sizeof(float);
    simt::launch(&norm_input, {static_cast<unsigned>(a.rows), 1}, kInputThreads, bytes, stream, a);
  } else {
    simt::launch(&plain_input, {row_blocks(a.cols), static_cast<unsigned>(a.rows)}, kInputThreads, 0, stream, a);
  }
}

void encode(const EncodeArgs& a, Stream stream) {
  if (a.rows == 0 || a.cols == 0) return;
  simt::launch(&encode_input, {row_blocks(a.cols), static_cast<unsigned>(a.rows)}, kInputThreads, 0, stream, a);
}

void decode(const DecodeArgs& a, Stream stream) {
  if (a.x8.rows == 0) return;
  simt::launch(&decode_input, {static_cast<unsigned>(a.x8.rows), 1}, kInputThreads, sizeof(float), stream, a);
}

}  // namespace
}  // namespace yamata::cuda
