#pragma once
// Inputs of products: normalized or gated; quantized, as floats, or as blocks for an exchange (node/cpu/linear_input.cpp).
#include "node/cpu/kernels/kernels.hpp"
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

// A block of 32 is one warp's, with an element for each lane; or, where a thread block has a whole row, that of eight lanes, with four
// elements for each, because shuffles would take most of the time.
constexpr int kRowLanes = 8;
constexpr unsigned kInputThreads = 256, kInputWarps = kInputThreads / simt::kWarp;
constexpr unsigned kNormThreads = 1024, kNormBlocks = kNormThreads / kRowLanes;

/// The values of a block: lane l has elements l, l + kLanes, ...
template <int kLanes>
struct LaneValues {
  static constexpr int kOwn = 32 / kLanes;
  float x[kOwn];

  static YAMATA_DEVICE int place(int j) { return static_cast<int>(simt::lane() % kLanes) + kLanes * j; }
  static YAMATA_DEVICE bool first_lane() { return simt::lane() % kLanes == 0; }
  /// Combines the lanes of a block, for each of them: those that are kLanes / 2 apart first.
  template <class T, class Combine>
  static YAMATA_DEVICE T of_lanes(T value, Combine combine) {
    for (unsigned distance = kLanes / 2; distance > 0; distance /= 2) value = combine(value, simt::shuffle_xor(value, distance));
    return value;
  }

  /// The block's columns of a row, and 0 after its last one.
  YAMATA_DEVICE LaneValues(const float* row, int block, std::int64_t cols) {
    for (int j = 0; j < kOwn; ++j) {
      const int col = block * 32 + place(j);
      x[j] = simt::within(col, cols) ? row[col] : 0.0f;
    }
  }
  YAMATA_DEVICE void multiply(const LaneValues& by) {
    for (int j = 0; j < kOwn; ++j) x[j] *= by.x[j];
  }
  /// The sum of squares of the block, in the CPU's order: the upper 16 elements are added to the lower 16, then [l + 8] to [l], and so on.
  YAMATA_DEVICE float square() const {
    if constexpr (kOwn == 1) {
      return block_square(x[0]);
    } else {
      static_assert(kOwn == 4, "two elements of each half");
      const float own = simt::fma(x[2], x[2], x[0] * x[0]) + simt::fma(x[3], x[3], x[1] * x[1]);
      return of_lanes(own, [](float a, float b) { return a + b; });
    }
  }
  YAMATA_DEVICE float largest() const {
    float most = magnitude(x[0]);
    for (int j = 1; j < kOwn; ++j) most = larger(most, magnitude(x[j]));
    return of_lanes(most, [](float a, float b) { return larger(a, b); });
  }
};

/// A quantized block: its lane's elements, rounded, the sum of the lower half + 65536 times that of the upper half, and the scale.
template <int kLanes>
struct LaneBlock {
  using Values = LaneValues<kLanes>;
  int rounded[Values::kOwn], sums;
  float scale;

  YAMATA_DEVICE explicit LaneBlock(const Values& values) : scale(values.largest() / 127.0f) {
    if (scale < 1.17549435e-38f) scale = 0.0f;
    const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    for (int j = 0; j < Values::kOwn; ++j) rounded[j] = simt::to_int(round_whole(values.x[j] * inverse));
    add_up();
  }
  YAMATA_DEVICE explicit LaneBlock(const cpu::EncodedBlock& block) : scale(block.scale) {
    for (int j = 0; j < Values::kOwn; ++j) rounded[j] = block.values[Values::place(j)];
    add_up();
  }
  /// Stores the block without its scale.
  YAMATA_DEVICE void put(const DeviceRows& x8, std::int64_t block) const {
    for (int j = 0; j < Values::kOwn; ++j) x8.values[block * 32 + Values::place(j)] = static_cast<std::int8_t>(rounded[j]);
    if (!Values::first_lane()) return;
    const auto lower = static_cast<std::int16_t>(sums);
    x8.sub_sums[2 * block] = lower, x8.sub_sums[2 * block + 1] = static_cast<std::int16_t>((sums - lower) >> 16);
  }

 private:
  YAMATA_DEVICE void add_up() {
    sums = 0;
    for (int j = 0; j < Values::kOwn; ++j) sums += Values::place(j) < 16 ? rounded[j] : rounded[j] * 65536;
    sums = Values::of_lanes(sums, [](int a, int b) { return a + b; });
  }
};

/// Shared memory of a norm: for each block of the row, the sum of squares, and the scale before it is divided by the root mean square.
/// What is rounded does not depend on that, so a row is read once.
struct RowShared {
  struct Block {
    float square, scale;
  };
  float factor, unused;

  static constexpr std::size_t bytes(std::int64_t blocks) { return sizeof(RowShared) + static_cast<std::size_t>(blocks) * sizeof(Block); }
  YAMATA_DEVICE Block* blocks() { return reinterpret_cast<Block*>(this + 1); }

  /// The sum of all squares in ascending order, in double precision; by a warp, for each of its lanes. If all are within 2^18 of each
  /// other, as usual, no bit of any sum is lost (24 + 18 bits, and 11 for their number), so the order does not matter.
  YAMATA_DEVICE double sum_of_squares(std::int64_t count) {
    double sum = 0;
    float most = 0, least = simt::float_of_bits(0x7f800000u);
    for (std::int64_t i = simt::lane(); i < count; i += simt::kWarp) {
      const float square = blocks()[i].square;
      sum += static_cast<double>(square), most = larger(most, square);
      if (square != 0) least = smaller(least, square);
    }
    for (unsigned distance = simt::kWarp / 2; distance > 0; distance /= 2) {
      sum += simt::shuffle_xor(sum, distance);
      most = larger(most, simt::shuffle_xor(most, distance)), least = smaller(least, simt::shuffle_xor(least, distance));
    }
    if (count <= 1 << 11 && most <= least * (1 << 18)) return sum;
    sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(blocks()[i].square);
    return sum;
  }
  /// When all blocks are there: 1 / root mean square, for all threads.
  YAMATA_DEVICE float inverse_root(std::int64_t cols, float epsilon) {
    simt::sync_block();
    if (simt::warp() == 0) {
      const double sum = sum_of_squares(divide_up(cols, 32));
      if (simt::lane() == 0) factor = inverse_rms(sum, cols, epsilon);
    }
    simt::sync_block();
    return factor;
  }
  YAMATA_DEVICE void put_scales(const DeviceRows& x8, std::int64_t row, float times) {
    for (std::int64_t block = simt::thread(); block < x8.blocks; block += kNormThreads)
      x8.scales[row * x8.blocks + block] = blocks()[block].scale * times;
  }
};

/// One thread block per row; each warp has four blocks at a time, which begin at `first`.
YAMATA_KERNEL void YAMATA_BOUNDS(kNormThreads) norm_input(const InputArgs a) {
  using Values = LaneValues<kRowLanes>;
  RowShared& shared = *simt::shared<RowShared>();
  const std::int64_t row = simt::block_x();
  const int blocks = static_cast<int>(divide_up(a.cols, 32));
  const float* x = a.x + row * a.x_stride;
  for (int first = static_cast<int>(simt::warp()) * Values::kOwn; first < blocks; first += kNormBlocks) {
    const int block = first + static_cast<int>(simt::lane()) / kRowLanes;
    Values values(x, block, a.cols);
    const Values weights(a.norm, block, a.cols);
    const float square = values.square();
    values.multiply(weights);
    const LaneBlock<kRowLanes> quantized(values);
    if (!simt::within(block, blocks)) break;
    if (a.x8.values) quantized.put(a.x8, row * blocks + block);
    if (Values::first_lane()) shared.blocks()[block] = {square, quantized.scale};
  }
  const float factor = shared.inverse_root(a.cols, a.epsilon);
  if (a.x8.values) shared.put_scales(a.x8, row, factor);
  for (std::int64_t col = simt::thread(); a.floats && col < a.cols; col += kNormThreads)
    a.floats[row * a.cols + col] = x[col] * factor * a.norm[col];
}

using WarpValues = LaneValues<simt::kWarp>;
using WarpBlock = LaneBlock<simt::kWarp>;

/// The block of this warp, where several thread blocks have a row.
YAMATA_DEVICE int own_block() { return static_cast<int>(simt::block_x() * kInputWarps + simt::warp()); }

/// A block of a row, or of its activation times `up`.
template <class Args>
YAMATA_DEVICE WarpValues activated_values(const Args& a, std::int64_t row, int block) {
  WarpValues values(a.x + row * a.x_stride, block, a.cols);
  // Without `up`, x is loaded twice, so that no branch comes between the loads.
  const WarpValues up((a.up ? a.up : a.x) + row * a.x_stride, block, a.cols);
  values.x[0] = activated(a.activation, values.x[0], up.x[0], a.up);
  return values;
}

/// Without a norm.
YAMATA_KERNEL void YAMATA_BOUNDS(kInputThreads) plain_input(const InputArgs a) {
  const std::int64_t row = simt::block_y();
  const int block = own_block(), col = block * 32 + WarpValues::place(0);
  if (!simt::within(block * 32, a.cols)) return;
  const WarpValues values = activated_values(a, row, block);
  if (a.x8.values) {
    const WarpBlock quantized(values);
    quantized.put(a.x8, row * a.x8.blocks + block);
    if (WarpValues::first_lane()) a.x8.scales[row * a.x8.blocks + block] = quantized.scale;
  }
  if (a.floats && simt::within(col, a.cols)) a.floats[row * a.cols + col] = values.x[0];
}

YAMATA_KERNEL void YAMATA_BOUNDS(kInputThreads) encode_input(const EncodeArgs a) {
  const std::int64_t row = simt::block_y();
  const int block = own_block();
  if (!simt::within(block * 32, a.cols)) return;
  WarpValues values = activated_values(a, row, block);
  const float square = values.square();
  if (a.norm) values.multiply(WarpValues(a.norm, block, a.cols));
  const WarpBlock encoded(values);
  const std::int64_t at = row * a.row_blocks + block;
  cpu::EncodedBlock& out = reinterpret_cast<cpu::EncodedBlock*>(a.blocks)[at];
  out.values[WarpValues::place(0)] = static_cast<std::int8_t>(encoded.rounded[0]);
  if (!WarpValues::first_lane()) return;
  out.scale = encoded.scale;
  if (a.norm) a.squares[at] = square;
}

/// One thread block per row.
YAMATA_KERNEL void YAMATA_BOUNDS(kNormThreads) decode_input(const DecodeArgs a) {
  using Values = LaneValues<kRowLanes>;
  RowShared& shared = *simt::shared<RowShared>();
  const std::int64_t row = simt::block_x();
  for (int m = 0; m < a.member_count; ++m) {
    const DecodeArgs::Member& member = a.members[m];
    const auto* encoded = reinterpret_cast<const cpu::EncodedBlock*>(member.blocks) + row * member.count;
    for (std::int64_t first = simt::warp() * Values::kOwn; first < member.count; first += kNormBlocks) {
      const std::int64_t i = first + simt::lane() / kRowLanes, block = member.before + i;
      const bool has = simt::within(i, member.count);
      const LaneBlock<kRowLanes> decoded(encoded[has ? i : 0]);
      if (!has) break;
      decoded.put(a.x8, row * a.x8.blocks + block);
      if (Values::first_lane()) shared.blocks()[block] = {a.normed ? member.squares[row * member.count + i] : 0.0f, decoded.scale};
    }
  }
  const float factor = a.normed ? shared.inverse_root(a.cols, a.epsilon) : 1.0f;
  if (!a.normed) simt::sync_block();
  shared.put_scales(a.x8, row, factor);
}

/// Thread blocks for a row of so many columns, one warp for 32 columns.
constexpr unsigned row_blocks(std::int64_t cols) { return static_cast<unsigned>(divide_up(divide_up(cols, 32), kInputWarps)); }

void make_input(const InputArgs& a, Stream stream) {
  if (a.rows == 0) return;
  if (a.norm) {
    const std::size_t bytes = RowShared::bytes(divide_up(a.cols, 32));
    simt::launch(&norm_input, {static_cast<unsigned>(a.rows), 1}, kNormThreads, bytes, stream, a);
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
  simt::launch(&decode_input, {static_cast<unsigned>(a.x8.rows), 1}, kNormThreads, RowShared::bytes(a.x8.blocks), stream, a);
}

}  // namespace
}  // namespace yamata::cuda
