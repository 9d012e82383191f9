#pragma once
// Writes a row's group into its lane of a panel (panel.hpp), for the CPU and for devices. The functions are local to each file that
// includes this.
#include <cstdint>
#include <cstring>

#include "node/cpu/kernels/panel.hpp"
#include "node/cpu/kernels/row_group.hpp"

namespace yamata::cpu {
namespace {

/// Writes the bits from kShift on of a block's numbers, 8/kBits steps per vector.
template <int kBits, int kShift, int kLanes>
YAMATA_HOST_DEVICE inline void write_plane(const std::uint32_t* steps, int row, std::uint8_t* plane) {
  constexpr int kSteps = 8 / kBits;
  constexpr std::uint32_t kMask = 0x01010101u * ((1 << kBits) - 1);
  for (int vector = 0; vector < kBits; ++vector) {
    std::uint32_t word = 0;
    for (int i = 0; i < kSteps; ++i) word |= (steps[vector * kSteps + i] >> kShift & kMask) << kBits * i;
    std::memcpy(plane + (vector * kLanes + row) * 4, &word, sizeof word);
  }
}

/// Writes number i of n. The planes must be zero before.
YAMATA_HOST_DEVICE inline void write_six(std::uint8_t number, int i, int n, std::uint8_t* planes) {
  std::uint8_t* high = planes + n / 2;
  planes[i % (n / 2)] |= static_cast<std::uint8_t>((number & 15) << i / (n / 2) * 4);
  high[i % (n / 4)] |= static_cast<std::uint8_t>((number >> 4) << i / (n / 4) * 2);
}

template <Scales kScales, int kLanes>
YAMATA_HOST_DEVICE inline void write_scales(const RowGroup& g, int row, std::uint8_t* out) {
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
        if constexpr (kScales == Scales::kSubSix || kScales == Scales::kFloatSubSix) write_six(scale, 2 * at + sub, 16 * kLanes, out);
        if constexpr (kScales == Scales::kSubByte) out[2 * at + sub] = scale;
        if constexpr (kScales == Scales::kSubFourMin) out[2 * at + sub] = static_cast<std::uint8_t>(scale | g.mins[2 * block + sub] << 4);
      }
    }
  }
}

template <class Panel, int kLanes>
YAMATA_HOST_DEVICE inline void write_row(const RowGroup& g, int row, std::uint8_t* out) {
  constexpr PanelFormat kFormat = kPanelFormat<Panel>;
  if constexpr (kFormat.scales == Scales::kExponent)
    out[row] = static_cast<std::uint8_t>(g.d);
  else if constexpr (kFormat.scales == Scales::kFloatSubSix)
    std::memcpy(out + 4 * row, &g.scale, sizeof g.scale);
  else
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

}  // namespace
}  // namespace yamata::cpu
