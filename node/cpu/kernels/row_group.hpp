#pragma once
// One unpacked group of one row of a quantized matrix, used by repacking and by the reference kernel. The functions are local to each file
// that includes this.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "node/cpu/kernels/blocks.hpp"

// A device's packing kernel also calls these functions.
#ifdef __CUDACC__
#define YAMATA_HOST_DEVICE __host__ __device__
#else
#define YAMATA_HOST_DEVICE
#endif

namespace yamata::cpu {

struct RowGroup {
  std::uint16_t d = 0, m = 0;  ///< half floats; for MXFP4 an exponent
  float scale = 1;             ///< for the small IQ formats: a factor of d
  std::uint8_t scales[16]{};   ///< as they are packed: [block] or [block][sub]
  std::uint8_t mins[16]{};
  std::uint32_t steps[8][8]{};  ///< [block][step]: 4 numbers, one byte each, the first in the lowest byte
};

namespace {

/// Repeats a byte four times.
YAMATA_HOST_DEVICE constexpr std::uint32_t four(std::uint32_t byte) { return byte * 0x01010101u; }

YAMATA_HOST_DEVICE inline std::uint32_t word(const void* bytes, int index) {
  std::uint32_t value;
  std::memcpy(&value, static_cast<const std::byte*>(bytes) + 4 * index, sizeof value);
  return value;
}

/// The low nibbles of 16 bytes, then the high nibbles.
YAMATA_HOST_DEVICE inline void unpack_nibbles(const std::uint8_t* qs, std::uint32_t* steps) {
  for (int i = 0; i < 4; ++i) {
    steps[i] = word(qs, i) & four(15);
    steps[4 + i] = word(qs, i) >> 4 & four(15);
  }
}

/// Adds bit 4 of 32 numbers, stored as one bit each in `qh`. The product of four bits with 2^0 + 2^7 + 2^14 + 2^21 has each of them in the
/// lowest bit of a byte.
YAMATA_HOST_DEVICE inline void unpack_fifth_bits(const std::uint8_t* qh, std::uint32_t* steps) {
  for (int j = 0; j < 8; ++j) steps[j] |= ((word(qh, 0) >> 4 * j & 15) * 0x00204081u & four(1)) << 4;
}

/// The six-bit scales and mins of Q4_K and Q5_K.
YAMATA_HOST_DEVICE inline void unpack_scales(const std::uint8_t* s, RowGroup& g) {
  for (int k = 0; k < 4; ++k) {
    g.scales[k] = s[k] & 63;
    g.mins[k] = s[k + 4] & 63;
    g.scales[k + 4] = static_cast<std::uint8_t>((s[k + 8] & 15) | s[k] >> 6 << 4);
    g.mins[k + 4] = static_cast<std::uint8_t>(s[k + 8] >> 4 | s[k + 4] >> 6 << 4);
  }
}

/// Unpacks a block of the file.
YAMATA_HOST_DEVICE inline void unpack(const BlockQ4_0& b, RowGroup& g) { g.d = b.d, unpack_nibbles(b.qs, g.steps[0]); }
YAMATA_HOST_DEVICE inline void unpack(const BlockQ4_1& b, RowGroup& g) { g.d = b.d, g.m = b.m, unpack_nibbles(b.qs, g.steps[0]); }
YAMATA_HOST_DEVICE inline void unpack(const BlockQ5_0& b, RowGroup& g) {
  g.d = b.d, unpack_nibbles(b.qs, g.steps[0]), unpack_fifth_bits(b.qh, g.steps[0]);
}
YAMATA_HOST_DEVICE inline void unpack(const BlockQ5_1& b, RowGroup& g) {
  g.d = b.d, g.m = b.m, unpack_nibbles(b.qs, g.steps[0]), unpack_fifth_bits(b.qh, g.steps[0]);
}
YAMATA_HOST_DEVICE inline void unpack(const BlockQ8_0& b, RowGroup& g) { g.d = b.d, std::memcpy(g.steps[0], b.qs, sizeof b.qs); }
YAMATA_HOST_DEVICE inline void unpack(const BlockIQ4NL& b, RowGroup& g) { g.d = b.d, unpack_nibbles(b.qs, g.steps[0]); }

YAMATA_HOST_DEVICE inline void unpack(const BlockMXFP4& b, RowGroup& g) { g.d = b.exponent, unpack_nibbles(b.qs, g.steps[0]); }

YAMATA_HOST_DEVICE inline void unpack(const BlockQ2K& b, RowGroup& g) {
  g.d = b.d, g.m = b.dmin;
  for (int i = 0; i < 16; ++i) {
    g.scales[i] = b.scales[i] & 15;
    g.mins[i] = b.scales[i] >> 4;
  }
  for (int k = 0; k < 8; ++k) {
    for (int j = 0; j < 8; ++j) g.steps[k][j] = word(b.qs + k / 4 * 32, j) >> k % 4 * 2 & four(3);
  }
}

YAMATA_HOST_DEVICE inline void unpack(const BlockQ3K& b, RowGroup& g) {
  g.d = b.d;
  for (int i = 0; i < 16; ++i) {
    const int low = b.scales[i % 8] >> (i / 8 * 4) & 15, high = b.scales[8 + i % 4] >> (i / 4 * 2) & 3;
    g.scales[i] = static_cast<std::uint8_t>(low | high << 4);
  }
  for (int k = 0; k < 8; ++k) {
    for (int j = 0; j < 8; ++j) {
      g.steps[k][j] = (word(b.qs + k / 4 * 32, j) >> k % 4 * 2 & four(3)) | (word(b.hmask, j) >> k & four(1)) << 2;
    }
  }
}

YAMATA_HOST_DEVICE inline void unpack(const BlockQ4K& b, RowGroup& g) {
  g.d = b.d, g.m = b.dmin;
  unpack_scales(b.scales, g);
  for (int k = 0; k < 8; ++k) {
    for (int j = 0; j < 8; ++j) g.steps[k][j] = word(b.qs + k / 2 * 32, j) >> k % 2 * 4 & four(15);
  }
}

YAMATA_HOST_DEVICE inline void unpack(const BlockQ5K& b, RowGroup& g) {
  g.d = b.d, g.m = b.dmin;
  unpack_scales(b.scales, g);
  for (int k = 0; k < 8; ++k) {
    for (int j = 0; j < 8; ++j) {
      g.steps[k][j] = (word(b.qs + k / 2 * 32, j) >> k % 2 * 4 & four(15)) | (word(b.qh, j) >> k & four(1)) << 4;
    }
  }
}

YAMATA_HOST_DEVICE inline void unpack(const BlockQ6K& b, RowGroup& g) {
  g.d = b.d;
  std::memcpy(g.scales, b.scales, sizeof b.scales);
  for (int k = 0; k < 8; ++k) {
    for (int j = 0; j < 8; ++j) {
      g.steps[k][j] =
          (word(b.ql + k / 4 * 64 + k % 2 * 32, j) >> k % 4 / 2 * 4 & four(15)) | (word(b.qh + k / 4 * 32, j) >> k % 4 * 2 & four(3)) << 4;
    }
  }
}

YAMATA_HOST_DEVICE inline void unpack(const BlockIQ4XS& b, RowGroup& g) {
  g.d = b.d;
  for (int k = 0; k < 8; ++k) {
    const int low = b.scales_l[k / 2] >> (k % 2 * 4) & 15, high = b.scales_h >> (2 * k) & 3;
    g.scales[k] = static_cast<std::uint8_t>(low | high << 4);
    unpack_nibbles(b.qs + 16 * k, g.steps[k]);
  }
}

}  // namespace
}  // namespace yamata::cpu
