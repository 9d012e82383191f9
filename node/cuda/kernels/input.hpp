#pragma once
// Inputs of products: normalized or gated; quantized, as floats, or as blocks for an exchange (node/cpu/linear_input.cpp).
#include "node/cpu/kernels/kernels.hpp"
#include "node/cuda/device_kernels.hpp"
#include "node/cuda/kernels/arithmetic.hpp"

namespace yamata::cuda {
namespace {

// A warp has four blocks of 32 at a time, eight lanes for each: with one element per lane, shuffles would take most of the time.
constexpr unsigned kBlockLanes = 8, kWarpBlocks = simt::kWarp / kBlockLanes;
constexpr unsigned kInputThreads = 128, kInputBlocks = kInputThreads / kBlockLanes;
constexpr unsigned kNormThreads = 1024, kNormBlocks = kNormThreads / kBlockLanes;
// Of few rows, a thread block quantizes so many blocks of one; of more, whole rows.
constexpr std::int64_t kPartBlocks = 32, kManyRows = 16;

/// Of the thread block's blocks of 32, the number of this thread's.
YAMATA_DEVICE std::int64_t nth_block() { return simt::thread() / kBlockLanes; }
YAMATA_DEVICE bool first_of_block() { return simt::lane() % kBlockLanes == 0; }
/// The sum of a block's lanes, for each of them: [l] + [l + 4], then + 2, + 1.
template <class T>
YAMATA_DEVICE T sum_of_block(T value) {
  for (unsigned distance = kBlockLanes / 2; distance > 0; distance /= 2) value += simt::shuffle_xor(value, distance);
  return value;
}

/// Four elements of a block: lane l of its eight has elements l, l + 8, l + 16 and l + 24.
struct LaneValues {
  float x[4];

  static YAMATA_DEVICE unsigned place(int j) { return simt::lane() % kBlockLanes + kBlockLanes * static_cast<unsigned>(j); }
  /// value(column), or 0 after the last one.
  template <class Value>
  YAMATA_DEVICE LaneValues(std::int64_t block, std::int64_t cols, Value value) {
    for (int j = 0; j < 4; ++j) {
      const std::int64_t col = block * 32 + place(j);
      x[j] = simt::within(col, cols) ? value(col) : 0.0f;
    }
  }
  YAMATA_DEVICE void multiply(const LaneValues& by) {
    for (int j = 0; j < 4; ++j) x[j] *= by.x[j];
  }
  /// The sum of squares of the block: lanes as in the CPU's, the upper 16 elements are added to the lower 16.
  YAMATA_DEVICE float square() const { return sum_of_block(simt::fma(x[2], x[2], x[0] * x[0]) + simt::fma(x[3], x[3], x[1] * x[1])); }
  YAMATA_DEVICE float largest() const {
    float most = larger(larger(magnitude(x[0]), magnitude(x[1])), larger(magnitude(x[2]), magnitude(x[3])));
    for (unsigned distance = kBlockLanes / 2; distance > 0; distance /= 2) most = larger(most, simt::shuffle_xor(most, distance));
    return most;
  }
};

/// A quantized block: its lane's elements, rounded, the sums of both halves, and the scale.
struct LaneBlock {
  int rounded[4], sums[2];
  float scale;

  YAMATA_DEVICE explicit LaneBlock(const LaneValues& values) : scale(values.largest() / 127.0f) {
    if (scale < 1.17549435e-38f) scale = 0.0f;
    const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
    for (int j = 0; j < 4; ++j) rounded[j] = static_cast<int>(round_whole(values.x[j] * inverse));
    add_up();
  }
  YAMATA_DEVICE explicit LaneBlock(const cpu::EncodedBlock& block) : scale(block.scale) {
    for (int j = 0; j < 4; ++j) rounded[j] = block.values[LaneValues::place(j)];
    add_up();
  }
  /// Stores the block without its scale.
  YAMATA_DEVICE void put(const DeviceRows& x8, std::int64_t row, std::int64_t block) const {
    const std::int64_t at = row * x8.blocks + block;
    for (int j = 0; j < 4; ++j) x8.values[at * 32 + LaneValues::place(j)] = static_cast<std::int8_t>(rounded[j]);
    if (!first_of_block()) return;
    for (int half = 0; half < 2; ++half) x8.sub_sums[2 * at + half] = static_cast<std::int16_t>(sums[half]);
  }

 private:
  YAMATA_DEVICE void add_up() {
    for (int half = 0; half < 2; ++half) sums[half] = sum_of_block(rounded[2 * half] + rounded[2 * half + 1]);
  }
};

/// The part of a row's blocks that a thread block quantizes; a multiple of a warp's blocks, so that a warp is in one part.
struct RowPart {
  std::int64_t row, blocks, begin, end;

  YAMATA_DEVICE explicit RowPart(std::int64_t cols) : row(simt::block_y()), blocks(divide_up(cols, 32)) {
    const std::int64_t part = divide_up(blocks, kWarpBlocks * simt::grid_x()) * kWarpBlocks;
    begin = simt::block_x() * part, end = begin + part < blocks ? begin + part : blocks;
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
};

/// Thread blocks of a row quantize a part each, and all add up the squares of the whole row.
YAMATA_KERNEL void YAMATA_BOUNDS(kNormThreads) norm_input(const InputArgs a) {
  RowShared& shared = *simt::shared<RowShared>();
  const RowPart part(a.cols);
  const float* x = a.x + part.row * a.x_stride;
  for (std::int64_t first = 0; first < part.blocks; first += kNormBlocks) {
    const std::int64_t block = first + nth_block();
    const bool own = block >= part.begin && block < divide_up(part.end, kWarpBlocks) * kWarpBlocks;
    LaneValues values(block, a.cols, [&](std::int64_t col) { return x[col]; });
    const LaneValues weights(block, own ? a.cols : 0, [&](std::int64_t col) { return a.norm[col]; });
    const float square = values.square();
    if (first_of_block() && simt::within(block, part.blocks)) shared.blocks()[block].square = square;
    if (!own) continue;
    values.multiply(weights);
    const LaneBlock quantized(values);
    if (!simt::within(block, part.blocks)) break;
    if (a.x8.values) quantized.put(a.x8, part.row, block);
    if (first_of_block()) shared.blocks()[block].scale = quantized.scale;
  }
  const float factor = shared.inverse_root(a.cols, a.epsilon);
  for (std::int64_t i = part.begin + simt::thread(); a.x8.values && i < part.end; i += kNormThreads)
    a.x8.scales[part.row * part.blocks + i] = shared.blocks()[i].scale * factor;
  const std::int64_t end = part.end * 32 < a.cols ? part.end * 32 : a.cols;
  for (std::int64_t col = part.begin * 32 + simt::thread(); a.floats && col < end; col += kNormThreads)
    a.floats[part.row * a.cols + col] = x[col] * factor * a.norm[col];
}

/// A row, or its activation times `up`. Without `up`, the row is read twice, so that no branch comes between the loads.
template <class Args>
YAMATA_DEVICE LaneValues activated_values(const Args& a, std::int64_t row, std::int64_t block) {
  const float *x = a.x + row * a.x_stride, *up = a.up ? a.up + row * a.x_stride : x;
  LaneValues values(block, a.cols, [&](std::int64_t col) { return x[col]; });
  const LaneValues ups(block, a.cols, [&](std::int64_t col) { return up[col]; });
  for (int j = 0; j < 4; ++j) values.x[j] = activated(a.activation, values.x[j], ups.x[j], a.up);
  return values;
}

/// Without a norm.
YAMATA_KERNEL void YAMATA_BOUNDS(kInputThreads) plain_input(const InputArgs a) {
  const std::int64_t row = simt::block_y(), block = static_cast<std::int64_t>(simt::block_x()) * kInputBlocks + nth_block();
  const LaneValues values = activated_values(a, row, block);
  const LaneBlock quantized(values);
  if (a.x8.values && simt::within(block, a.x8.blocks)) {
    quantized.put(a.x8, row, block);
    if (first_of_block()) a.x8.scales[row * a.x8.blocks + block] = quantized.scale;
  }
  for (int j = 0; a.floats && j < 4; ++j) {
    const std::int64_t col = block * 32 + LaneValues::place(j);
    if (simt::within(col, a.cols)) a.floats[row * a.cols + col] = values.x[j];
  }
}

YAMATA_KERNEL void YAMATA_BOUNDS(kInputThreads) encode_input(const EncodeArgs a) {
  const std::int64_t row = simt::block_y(), block = static_cast<std::int64_t>(simt::block_x()) * kInputBlocks + nth_block();
  LaneValues values = activated_values(a, row, block);
  const float square = values.square();
  if (a.norm) values.multiply(LaneValues(block, a.cols, [&](std::int64_t col) { return a.norm[col]; }));
  const LaneBlock encoded(values);
  if (!simt::within(block * 32, a.cols)) return;
  const std::int64_t at = row * a.row_blocks + block;
  cpu::EncodedBlock& out = reinterpret_cast<cpu::EncodedBlock*>(a.blocks)[at];
  for (int j = 0; j < 4; ++j) out.values[LaneValues::place(j)] = static_cast<std::int8_t>(encoded.rounded[j]);
  if (!first_of_block()) return;
  out.scale = encoded.scale;
  if (a.norm) a.squares[at] = square;
}

/// One thread block per row.
YAMATA_KERNEL void YAMATA_BOUNDS(kNormThreads) decode_input(const DecodeArgs a) {
  RowShared& shared = *simt::shared<RowShared>();
  const std::int64_t row = simt::block_x();
  for (int m = 0; m < a.member_count; ++m) {
    const DecodeArgs::Member& member = a.members[m];
    const auto* encoded = reinterpret_cast<const cpu::EncodedBlock*>(member.blocks) + row * member.count;
    for (std::int64_t first = 0; first < member.count; first += kNormBlocks) {
      const std::int64_t i = first + nth_block(), block = member.before + i;
      const bool has = simt::within(i, member.count);
      const LaneBlock decoded(encoded[has ? i : 0]);
      if (!has) break;
      decoded.put(a.x8, row, block);
      if (first_of_block()) shared.blocks()[block] = {a.normed ? member.squares[row * member.count + i] : 0.0f, decoded.scale};
    }
  }
  const float factor = a.normed ? shared.inverse_root(a.cols, a.epsilon) : 1.0f;
  if (!a.normed) simt::sync_block();
  for (std::int64_t block = simt::thread(); block < a.x8.blocks; block += kNormThreads)
    a.x8.scales[row * a.x8.blocks + block] = shared.blocks()[block].scale * factor;
}

/// Thread blocks for a row of so many columns.
constexpr unsigned row_blocks(std::int64_t cols) { return static_cast<unsigned>(divide_up(divide_up(cols, 32), kInputBlocks)); }

void make_input(const InputArgs& a, Stream stream) {
  if (a.rows == 0) return;
  if (a.norm) {
    const std::int64_t blocks = divide_up(a.cols, 32);
    const auto parts = static_cast<unsigned>(a.rows < kManyRows ? divide_up(blocks, kPartBlocks) : 1);
    const std::size_t bytes = RowShared::bytes(blocks);
    simt::launch(&norm_input, {parts, static_cast<unsigned>(a.rows)}, kNormThreads, bytes, stream, a);
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
