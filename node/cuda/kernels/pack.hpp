#pragma once
// Packs a file's rows into panels of 32 rows: one warp per group of a panel, one lane per row.
#include "node/cpu/kernels/panel_writer.hpp"
#include "node/cpu/kernels/small_group.hpp"
#include "node/cuda/kernels/arithmetic.hpp"
#include "node/cuda/kernels/device_kernels.hpp"

namespace yamata::cuda {
namespace {

constexpr unsigned kPackThreads = 128;

template <class Block>
YAMATA_KERNEL void YAMATA_BOUNDS(kPackThreads) pack_panel(const PackArgs a) {
  using Panel = cpu::PanelBlockOf<Block>;
  constexpr cpu::PanelFormat kFormat = cpu::kPanelFormat<Panel>;
  constexpr std::size_t kGroupBytes = static_cast<std::size_t>(kFormat.group_bytes()) * simt::kWarp;
  const auto groups = static_cast<std::int64_t>(a.row_bytes / sizeof(Block));
  const std::int64_t first = a.begin + static_cast<std::int64_t>(simt::block_x()) * simt::kWarp, row = first + simt::lane();
  auto* panel = reinterpret_cast<std::uint8_t*>(a.panels) + static_cast<std::size_t>(first / simt::kWarp * groups) * kGroupBytes;
  for (std::int64_t i = simt::warp(); i < groups; i += simt::warps()) {
    std::uint8_t* out = panel + static_cast<std::size_t>(i) * kGroupBytes;
    // Values of six bits are ORed into zeros.
    if constexpr (kFormat.scale_bytes() > 0) {
      for (unsigned at = simt::lane(); at < kFormat.scale_bytes() * simt::kWarp; at += simt::kWarp)
        out[kFormat.half_bytes() * simt::kWarp + at] = 0;
    }
    simt::sync_warp();
    cpu::RowGroup group{};
    if (simt::within(row, a.end)) {
      Block block;
      std::memcpy(&block, a.source + static_cast<std::size_t>(row) * a.row_bytes + static_cast<std::size_t>(i) * sizeof block,
                  sizeof block);
      cpu::unpack(block, group);
      group.scale *= simt::half_to_float(group.d);
    }
    cpu::write_row<Panel, simt::kWarp>(group, static_cast<int>(simt::lane()), out);
  }
}

template <class Block>
void pack(const PackArgs& a, Stream stream) {
  if (a.begin < a.end)
    simt::launch(&pack_panel<Block>, {static_cast<unsigned>(divide_up(a.end - a.begin, simt::kWarp)), 1}, kPackThreads, 0, stream, a);
}

}  // namespace
}  // namespace yamata::cuda
