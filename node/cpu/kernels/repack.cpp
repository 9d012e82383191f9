#include "node/cpu/kernels/repack.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "node/cpu/kernels/half.hpp"
#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/panel_writer.hpp"
#include "node/cpu/kernels/row_group.hpp"
#include "node/cpu/kernels/small_group.hpp"

namespace yamata::cpu {
namespace {

template <class Block, int kLanes>
void write_panel(const std::byte* source, std::size_t row_bytes, int rows, std::int64_t groups, std::byte* panel) {
  using Panel = PanelBlockOf<Block>;
  constexpr std::size_t kGroupBytes = static_cast<std::size_t>(kPanelFormat<Panel>.group_bytes()) * kLanes;
  static_assert(!std::is_same_v<Panel, Block> || sizeof(Block) * kLanes == kGroupBytes);
  auto* out = reinterpret_cast<std::uint8_t*>(panel);
  for (std::int64_t i = 0; i < groups; ++i, out += kGroupBytes) {
    if (rows < kLanes || kPanelFormat<Panel>.grouped()) std::memset(out, 0, kGroupBytes);
    for (int row = 0; row < rows; ++row) {
      Block block;
      std::memcpy(&block, source + static_cast<std::size_t>(row) * row_bytes + static_cast<std::size_t>(i) * sizeof block, sizeof block);
      RowGroup group;
      unpack(block, group);
      group.scale *= half_to_float(group.d);
      write_row<Panel, kLanes>(group, row, out);
    }
  }
}

template <class Block>
void repack_rows(const std::byte* source, std::size_t row_bytes, std::int64_t row_begin, std::int64_t row_end, int lanes,
                 std::byte* panels) {
  const std::size_t groups = row_bytes / sizeof(Block), packed = groups * kPanelFormat<PanelBlockOf<Block>>.group_bytes();
  for (std::int64_t row = row_begin; row < row_end; row += lanes) {
    const auto at = static_cast<std::size_t>(row);
    const auto rows = static_cast<int>(std::min<std::int64_t>(lanes, row_end - row));
    repack_panel<Block>(source + at * row_bytes, row_bytes, rows, static_cast<std::int64_t>(groups), lanes, panels + at * packed);
  }
}

/// The packing functions and sizes of a format.
struct Packing {
  std::size_t block_bytes, group_bytes;  ///< of a row's block in the file, and of its packed group
  void (*rows)(const std::byte*, std::size_t, std::int64_t, std::int64_t, int, std::byte*);
};

template <class Block>
constexpr Packing kPacking{sizeof(Block), static_cast<std::size_t>(kPanelFormat<PanelBlockOf<Block>>.group_bytes()), repack_rows<Block>};

const Packing* packing_of(TensorType type) {
  switch (type) {
    case TensorType::Q4_0:
      return &kPacking<BlockQ4_0>;
    case TensorType::Q4_1:
      return &kPacking<BlockQ4_1>;
    case TensorType::Q5_0:
      return &kPacking<BlockQ5_0>;
    case TensorType::Q5_1:
      return &kPacking<BlockQ5_1>;
    case TensorType::Q8_0:
      return &kPacking<BlockQ8_0>;
    case TensorType::Q2_K:
      return &kPacking<BlockQ2K>;
    case TensorType::Q3_K:
      return &kPacking<BlockQ3K>;
    case TensorType::Q4_K:
      return &kPacking<BlockQ4K>;
    case TensorType::Q5_K:
      return &kPacking<BlockQ5K>;
    case TensorType::Q6_K:
      return &kPacking<BlockQ6K>;
    case TensorType::IQ4_NL:
      return &kPacking<BlockIQ4NL>;
    case TensorType::IQ4_XS:
      return &kPacking<BlockIQ4XS>;
    case TensorType::MXFP4:
      return &kPacking<BlockMXFP4>;
    case TensorType::IQ2_XXS:
      return &kPacking<BlockIQ2XXS>;
    case TensorType::IQ2_XS:
      return &kPacking<BlockIQ2XS>;
    case TensorType::IQ2_S:
      return &kPacking<BlockIQ2S>;
    case TensorType::IQ3_XXS:
      return &kPacking<BlockIQ3XXS>;
    case TensorType::IQ3_S:
      return &kPacking<BlockIQ3S>;
    case TensorType::IQ1_S:
      return &kPacking<BlockIQ1S>;
    case TensorType::IQ1_M:
      return &kPacking<BlockIQ1M>;
    case TensorType::TQ1_0:
      return &kPacking<BlockTQ1_0>;
    case TensorType::TQ2_0:
      return &kPacking<BlockTQ2_0>;
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
template void repack_panel<BlockMXFP4>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ2XXS>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ2XS>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ2S>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ3XXS>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ3S>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ1S>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockIQ1M>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockTQ1_0>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);
template void repack_panel<BlockTQ2_0>(const std::byte*, std::size_t, int, std::int64_t, int, std::byte*);

bool has_panels(TensorType type) { return packing_of(type) != nullptr; }

void repack(TensorType type, const std::byte* source, std::size_t row_bytes, std::int64_t row_begin, std::int64_t row_end, int lanes,
            std::byte* panels) {
  packing_of(type)->rows(source, row_bytes, row_begin, row_end, lanes, panels);
}

std::size_t packed_row_bytes(TensorType type, std::size_t row_bytes) {
  const Packing& packing = *packing_of(type);
  return row_bytes / packing.block_bytes * packing.group_bytes;
}

std::size_t packed_bytes(TensorType type, std::int64_t rows, std::size_t row_bytes, int lanes) {
  return static_cast<std::size_t>((rows + lanes - 1) / lanes * lanes) * packed_row_bytes(type, row_bytes);
}

}  // namespace yamata::cpu
