#include "node/cpu/kernels/repack.hpp"

#include <algorithm>
#include <cstring>

#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/panel_writer.hpp"
#include "node/cpu/kernels/row_group.hpp"

namespace yamata::cpu {
namespace {

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
