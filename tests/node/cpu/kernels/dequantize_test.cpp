// Compares each format's definition with values computed by hand from blocks of mostly zero bytes.
#include <cmath>
#include <cstring>
#include <string>

#include "node/cpu/kernels/blocks.hpp"
#include "tests/node/cpu/kernels/small_blocks.hpp"
#include "tests/node/cpu/kernels/support.hpp"

namespace yamata::cpu {
namespace {

constexpr std::uint16_t kOne = 0x3c00, kTwo = 0x4000, kHalf = 0x3800;

template <class Block>
std::vector<float> expand(TensorType type, const Block& block) {
  EXPECT_EQ(sizeof block, traits(type).block_bytes);
  std::vector<float> y(traits(type).block_elements);
  dequantize(type, reinterpret_cast<const std::byte*>(&block), static_cast<std::int64_t>(y.size()), y.data());
  return y;
}

TEST(Dequantize, blocks_of_32_by_hand) {
  BlockQ4_0 a{kTwo, {0x0f, 0xa1}};
  EXPECT_EQ(expand(TensorType::Q4_0, a)[0], 14);
  EXPECT_EQ(expand(TensorType::Q4_0, a)[1], -14);
  EXPECT_EQ(expand(TensorType::Q4_0, a)[16], -16);
  EXPECT_EQ(expand(TensorType::Q4_0, a)[17], 4);
  BlockQ4_1 b{kTwo, kHalf, {0x3f}};
  EXPECT_EQ(expand(TensorType::Q4_1, b)[0], 30.5f);
  EXPECT_EQ(expand(TensorType::Q4_1, b)[16], 6.5f);
  BlockQ5_0 c{kTwo, {0x01, 0, 0x02, 0}, {0x0f, 0x30}};
  EXPECT_EQ(expand(TensorType::Q5_0, c)[0], 30);
  EXPECT_EQ(expand(TensorType::Q5_0, c)[17], 6);
  EXPECT_EQ(expand(TensorType::Q5_0, c)[1], -32);
  BlockQ5_1 d{kTwo, kHalf, {0, 0x80, 0, 0x80}, {}};
  EXPECT_EQ(expand(TensorType::Q5_1, d)[15], 32.5f);
  EXPECT_EQ(expand(TensorType::Q5_1, d)[31], 32.5f);
  EXPECT_EQ(expand(TensorType::Q5_1, d)[0], 0.5f);
  BlockQ8_0 e{kHalf, {-128, 127}};
  EXPECT_EQ(expand(TensorType::Q8_0, e)[0], -64);
  EXPECT_EQ(expand(TensorType::Q8_0, e)[1], 63.5f);
  BlockIQ4NL f{kOne, {0xf0}};
  EXPECT_EQ(expand(TensorType::IQ4_NL, f)[0], -127);
  EXPECT_EQ(expand(TensorType::IQ4_NL, f)[16], 113);
}

TEST(Dequantize, q2_k_by_hand) {
  BlockQ2K b{};
  b.d = kTwo, b.dmin = kHalf;
  b.scales[3] = 0x45;   // values 48 to 63: scale 5, minimum 4
  b.qs[17] = 0x08;      // bits 2 and 3 of byte 17: value 32 + 17
  b.scales[15] = 0x01;  // values 240 to 255
  b.qs[63] = 0xc0;
  const std::vector<float> y = expand(TensorType::Q2_K, b);
  EXPECT_EQ(y[49], 2 * 5 * 2 - 2);
  EXPECT_EQ(y[48], -2);
  EXPECT_EQ(y[255], 6);
  EXPECT_EQ(y[0], 0);
}

TEST(Dequantize, q3_k_by_hand) {
  BlockQ3K b{};
  b.d = kTwo;
  b.scales[0] = 0x21;  // low nibble: sub-block 0, high nibble: sub-block 8
  b.scales[8] = 0x23;  // bits 0 and 1: sub-block 0, bits 4 and 5: sub-block 8
  b.qs[0] = 0x03;      // value 0
  b.qs[32] = 0x01;     // value 128
  b.hmask[0] = 0x10;   // value 128 has its high bit, value 0 has not
  const std::vector<float> y = expand(TensorType::Q3_K, b);
  EXPECT_EQ(y[0], 2 * (0x31 - 32) * -1);
  EXPECT_EQ(y[128], 2 * (0x22 - 32) * 1);
  EXPECT_EQ(y[16], 2 * -32 * -4);
}

TEST(Dequantize, q4_k_and_q5_k_by_hand) {
  BlockQ4K b{};
  b.d = kTwo, b.dmin = kHalf;
  b.scales[1] = 0xc3;   // sub-block 1: scale 3; sub-block 5: scale's upper bits 11
  b.scales[5] = 0x46;   // sub-block 1: minimum 6; sub-block 5: minimum's upper bits 01
  b.scales[9] = 0x21;   // sub-block 5: scale 1 | 48, minimum 2 | 16
  b.qs[0] = 0x50;       // value 32: 5
  b.qs[64 + 7] = 0x70;  // value 160 + 7: 7
  const std::vector<float> y = expand(TensorType::Q4_K, b);
  EXPECT_EQ(y[32], 2 * 3 * 5 - 3);
  EXPECT_EQ(y[33], -3);
  EXPECT_EQ(y[167], 2 * 49 * 7 - 9);
  EXPECT_EQ(y[0], 0);
  BlockQ5K c{kTwo, kHalf, {}, {}, {}};
  std::memcpy(c.scales, b.scales, sizeof b.scales);
  std::memcpy(c.qs, b.qs, sizeof b.qs);
  c.qh[7] = 0x20;  // value 160 + 7
  EXPECT_EQ(expand(TensorType::Q5_K, c)[167], 2 * 49 * 23 - 9);
  EXPECT_EQ(expand(TensorType::Q5_K, c)[32], 27);
}

TEST(Dequantize, q6_k_by_hand) {
  BlockQ6K b{};
  b.d = kTwo;
  b.scales[0] = -3, b.scales[14] = 5;
  b.ql[1] = 0x07, b.qh[1] = 0x02;         // value 1: 7 | 32
  b.ql[64 + 32] = 0x90, b.qh[32] = 0xc0;  // value 128 + 96: 9 | 48
  const std::vector<float> y = expand(TensorType::Q6_K, b);
  EXPECT_EQ(y[1], 2 * -3 * 7);
  EXPECT_EQ(y[0], 2 * -3 * -32);
  EXPECT_EQ(y[224], 2 * 5 * 25);
}

TEST(Dequantize, iq4_xs_by_hand) {
  BlockIQ4XS b{};
  b.d = kTwo;
  b.scales_l[1] = 0x50, b.scales_h = 0x0080;  // sub-block 3: 5 | 32
  b.qs[48] = 0xf1;                            // values 96 and 112
  const std::vector<float> y = expand(TensorType::IQ4_XS, b);
  EXPECT_EQ(y[96], 2 * 5 * -104);
  EXPECT_EQ(y[112], 2 * 5 * 113);
  EXPECT_EQ(y[0], 2 * -32 * -127);
}

TEST(Dequantize, mxfp4_by_hand) {
  BlockMXFP4 b{128, {0x17, 0xf0}};  // 2 to the power 0; exponents are one lower because values are twice as large
  const std::vector<float> y = expand(TensorType::MXFP4, b);
  EXPECT_EQ(y[0], 12);
  EXPECT_EQ(y[16], 1);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[17], -12);
  b.exponent = 0;
  EXPECT_EQ(expand(TensorType::MXFP4, b)[0], std::ldexp(12.0f, -128));
}

TEST(Dequantize, small_formats_as_gguf_s_own_package) {
  std::size_t types = 0;
  for (const SmallBlock& block : kSmallBlocks) {
    const TypeTraits& t = traits(block.type);
    const std::string hex = block.bytes;
    ASSERT_EQ(hex.size(), 2 * t.block_bytes) << t.name;
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2) bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    std::vector<float> y(t.block_elements);
    dequantize(block.type, bytes.data(), static_cast<std::int64_t>(y.size()), y.data());
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (const std::uint32_t word : bits(y)) {
      for (int i = 0; i < 32; i += 8) hash = (hash ^ (word >> i & 255)) * 0x100000001b3u;
    }
    EXPECT_EQ(hash, block.hash) << t.name << ' ' << types;
    ++types;
  }
  EXPECT_EQ(types, 40u);
}

TEST(Half, every_number_survives_the_way_there_and_back) {
  for (unsigned half = 0; half < 65536; ++half) {
    const float wide = f16_to_f32(static_cast<std::uint16_t>(half));
    if (std::isnan(wide)) continue;
    ASSERT_EQ(f32_to_f16(wide), half);
  }
  EXPECT_EQ(f16_to_f32(0x3555), 0.333251953125f);
  EXPECT_EQ(f16_to_f32(0x0001), std::ldexp(1.0f, -24));
}

TEST(Half, rounds_to_even) {
  EXPECT_EQ(f32_to_f16(1.0f + std::ldexp(1.0f, -11)), 0x3c00);      // halfway: down to even
  EXPECT_EQ(f32_to_f16(1.0f + 3 * std::ldexp(1.0f, -11)), 0x3c02);  // halfway: up to even
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::ldexp(1.0f, -25)), 0);
  EXPECT_EQ(f32_to_f16(std::ldexp(1.5f, -25)), 1);
}

TEST(TensorTypes, unknown_numbers_have_no_traits) {
  for (const TensorType type : kAllTypes) ASSERT_NE(find_type(static_cast<std::uint32_t>(type)), nullptr);
  for (const std::uint32_t raw : {4u, 5u, 9u, 15u, 24u, 31u, 4000000000u}) EXPECT_EQ(find_type(raw), nullptr);
  EXPECT_EQ(traits(TensorType::Q4_K).name, "Q4_K");
}

}  // namespace
}  // namespace yamata::cpu
