#include "node/cpu/kernels/repack.hpp"

#include <algorithm>
#include <cstring>

#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/row_group.hpp"

namespace yamata::cpu {
namespace {

/// The bits from kShift on of a block's numbers, 8/kBits steps to a vector.
template <int kBits, int kShift, int kLanes>
inline void write_plane(const std::uint32_t* steps, int row, std::uint8_t* plane) {
  constexpr int kSteps = 8 / kBits;
  constexpr std::uint32_t kMask = 0x01010101u * ((1 << kBits) - 1);
  for (int vector = 0; vector < kBits; ++vector) {
    std::uint32_t word = 0;
    for (int i = 0; i < kSteps; ++i) word |= (steps[vector * kSteps + i] >> kShift & kMask) << kBits * i;
    std::memcpy(plane + (vector * kLanes + row) * 4, &word, sizeof word);
  }
}

/// Number i of n; the planes are zeros before.
void write_six(std::uint8_t number, int i, int n, std::uint8_t* planes) {
  std::uint8_t* high = planes + n / 2;
  planes[i % (n / 2)] |= static_cast<std::uint8_t>((number & 15) << i / (n / 2) * 4);
  high[i % (n / 4)] |= static_cast<std::uint8_t>((number >> 4) << i / (n / 4) * 2);
}

template <Scales kScales, int kLanes>
inline void write_scales(const RowGroup& g, int row, std::uint8_t* out) {
  for (int block = 0; block < 8; ++block) {
    const int at = block * kLanes + row;
    if constexpr (kScales == Scales::kBlockSixMin) {
      write_six(g.scales[block], at, 16 * kLanes, out);
      write_six(g.mins[block], at + 8 * kLanes, 16 * kLanes, out);
    } else if constexpr (kScales == Scales::kBlockSix) {
      write_six(g.scales[block], at, 8 * kLanes, out);
    } else {
      for (int sub = 0; sub < 2; ++sub) {
        const std::uint8_t scale = g.scales[2 * block + sub];
        if constexpr (kScales == Scales::kSubSix) write_six(scale, 2 * at + sub, 16 * kLanes, out);
        if constexpr (kScales == Scales::kSubByte) out[2 * at + sub] = scale;
        if constexpr (kScales == Scales::kSubFourMin) out[2 * at + sub] = static_cast<std::uint8_t>(scale | g.mins[2 * block + sub] << 4);
      }
    }
  }
}

template <class Block, int kLanes>
inline void write_row(const RowGroup& g, int row, std::uint8_t* out) {
  constexpr PanelFormat kFormat = kPanelFormat<Block>;
  std::memcpy(out + 2 * row, &g.d, sizeof g.d);
  if constexpr (kFormat.has_min()) std::memcpy(out + 2 * (kLanes + row), &g.m, sizeof g.m);
  out += kFormat.half_bytes() * kLanes;
  if constexpr (kFormat.grouped()) write_scales<kFormat.scales, kLanes>(g, row, out);
  out += kFormat.scale_bytes() * kLanes;
  for (int block = 0; block < kFormat.blocks(); ++block, out += kFormat.block_bytes() * kLanes) {
    write_plane<kFormat.low_bits, 0, kLanes>(g.steps[block], row, out);
    if constexpr (kFormat.high_bits != 0) {
      write_plane<kFormat.high_bits, kFormat.low_bits, kLanes>(g.steps[block], row, out + 4 * kFormat.low_bits * kLanes);
    }
  }
}

template <class Block, int kLanes>
void write_panel(const std::byte* source, std::size_t row_bytes, int rows, std::int64_t groups, std::byte* panel) {
  static_assert(sizeof(Block) == kPanelFormat<Block>.group_bytes());
  constexpr std::size_t kGroupBytes = sizeof(Block) * kLanes;
  auto* out = reinterpret_cast<std::uint8_t*>(panel);
  for (std::int64_t i = 0; i < groups; ++i, out += kGroupBytes) {
    if (rows < kLanes || kPanelFormat<Block>.grouped()) std::memset(out, 0, kGroupBytes);
    for (int row = 0; row < rows; ++row) {
      Block block;
      std::memcpy(&block, source + static_cast<std::size_t>(row) * row_bytes + static_cast<std::size_t>(i) * sizeof block, sizeof block);
      RowGroup group;
      unpack(block, group);
      write_row<Block, kLanes>(group, row, out);
    }
  }
}

template <class Block>
void repack_rows(const std::byte* source, std::size_t row_bytes, std::int64_t row_begin, std::int64_t row_end, int lanes,
                 std::byte* panels) {
  for (std::int64_t row = row_begin; row < row_end; row += lanes) {
    const std::size_t at = static_cast<std::size_t>(row) * row_bytes;
    const auto rows = static_cast<int>(std::min<std::int64_t>(lanes, row_end - row));
    repack_panel<Block>(source + at, row_bytes, rows, static_cast<std::int64_t>(row_bytes / sizeof(Block)), lanes, panels + at);
  }
}

using RepackRows = void (*)(const std::byte*, std::size_t, std::int64_t, std::int64_t, int, std::byte*);

RepackRows repack_rows_of(TensorType type) {
  switch (type) {
    case TensorType::Q4_0:
      return repack_rows<BlockQ4_0>;
    case TensorType::Q4_1:
      return repack_rows<BlockQ4_1>;
    case TensorType::Q5_0:
      return repack_rows<BlockQ5_0>;
    case TensorType::Q5_1:
      return repack_rows<BlockQ5_1>;
    case TensorType::Q8_0:
      return repack_rows<BlockQ8_0>;
    case TensorType::Q2_K:
      return repack_rows<BlockQ2K>;
    case TensorType::Q3_K:
      return repack_rows<BlockQ3K>;
    case TensorType::Q4_K:
      return repack_rows<BlockQ4K>;
    case TensorType::Q5_K:
      return repack_rows<BlockQ5K>;
    case TensorType::Q6_K:
      return repack_rows<BlockQ6K>;
    case TensorType::IQ4_NL:
      return repack_rows<BlockIQ4NL>;
    case TensorType::IQ4_XS:
      return repack_rows<BlockIQ4XS>;
    case TensorType::F32:
    case TensorType::F16:
    case TensorType::BF16:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

template <class Block>
void repack_panel(const std::byte* source, std::size_t row_bytes, int rows, std::int64_t groups, int lanes, std::byte* panel) {
  if (lanes == 4)
    write_panel<Block, 4>(source, row_bytes, rows, groups, panel);
  else if (lanes == 8)
    write_panel<Block, 8>(source, row_bytes, rows, groups, panel);
  else
    write_panel<Block, 16>(source, row_bytes, rows, groups, panel);
}

template void repack_panel<BlockQ4_0>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ4_1>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ5_0>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ5_1>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ8_0>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ2K>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ3K>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ4K>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ5K>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockQ6K>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ4NL>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ4XS>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);

bool has_panels(TensorType type) { return repack_rows_of(type) != nullptr; }

void repack(TensorType type, const std::byte* source, std::size_t row_bytes, std::int64_t row_begin, std::int64_t row_end, int lanes,
            std::byte* panels) {
  repack_rows_of(type)(source, row_bytes, row_begin, row_end, lanes, panels);
}

std::size_t packed_bytes(std::int64_t rows, std::size_t row_bytes, int lanes) {
  return static_cast<std::size_t>((rows + lanes - 1) / lanes * lanes) * row_bytes;
}

}  // namespace yamata::cpu
