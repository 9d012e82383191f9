#include "src/quantize/row.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "node/cpu/kernels/kernels.hpp"
#include "src/quantize/blocks.hpp"

namespace yamata::quantize {
namespace {

std::uint16_t f32_to_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto rounded = static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  if ((rounded & 0x7f80u) == 0x7f80u) throw OutOfRange{};
  return rounded;
}

template <class Convert>
void to_halves(std::span<const float> x, std::byte* dst, Convert convert) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint16_t value = convert(x[i]);
    std::memcpy(dst + 2 * i, &value, sizeof value);
  }
}

/// Blocks are copied through aligned memory: those of a mapped row may be unaligned.
template <class Block>
void through_blocks(TensorType type, std::span<const float> x, const float* importance, std::byte* dst) {
  thread_local std::vector<Block> blocks;
  blocks.assign(x.size() / traits(type).block_elements, Block{});
  to_blocks(x, importance, blocks.data());
  std::memcpy(dst, blocks.data(), blocks.size() * sizeof(Block));
}

}  // namespace

std::uint16_t half(float value) {
  const std::uint16_t bits = cpu::f32_to_f16(value);
  if ((bits & 0x7c00u) == 0x7c00u) throw OutOfRange{};
  return bits;
}

float square_sum(std::span<const float> x) {
  float sum = 0;
  for (const float value : x) sum += value * value;
  return sum;
}

void importance_weights(std::span<const float> x, const float* importance, float variance, float* weights) {
  for (std::size_t i = 0; i < x.size(); ++i) weights[i] = importance[i] * std::sqrt(variance + x[i] * x[i]);
}

bool is_written(TensorType type) {
  switch (type) {
    case TensorType::IQ2_XXS:
    case TensorType::IQ2_XS:
    case TensorType::IQ2_S:
    case TensorType::IQ3_XXS:
    case TensorType::IQ3_S:
    case TensorType::IQ1_S:
    case TensorType::IQ1_M:
    case TensorType::TQ1_0:
    case TensorType::TQ2_0:
      return false;
    default:
      return true;
  }
}

void quantize_row(TensorType type, std::span<const float> x, const float* importance, std::byte* dst) {
  switch (type) {
    case TensorType::F32:
      std::memcpy(dst, x.data(), x.size_bytes());
      return;
    case TensorType::F16:
      return to_halves(x, dst, half);
    case TensorType::BF16:
      return to_halves(x, dst, f32_to_bf16);
    case TensorType::Q4_0:
      return through_blocks<cpu::BlockQ4_0>(type, x, importance, dst);
    case TensorType::Q4_1:
      return through_blocks<cpu::BlockQ4_1>(type, x, importance, dst);
    case TensorType::Q5_0:
      return through_blocks<cpu::BlockQ5_0>(type, x, importance, dst);
    case TensorType::Q5_1:
      return through_blocks<cpu::BlockQ5_1>(type, x, importance, dst);
    case TensorType::Q8_0:
      return through_blocks<cpu::BlockQ8_0>(type, x, importance, dst);
    case TensorType::Q2_K:
      return through_blocks<cpu::BlockQ2K>(type, x, importance, dst);
    case TensorType::Q3_K:
      return through_blocks<cpu::BlockQ3K>(type, x, importance, dst);
    case TensorType::Q4_K:
      return through_blocks<cpu::BlockQ4K>(type, x, importance, dst);
    case TensorType::Q5_K:
      return through_blocks<cpu::BlockQ5K>(type, x, importance, dst);
    case TensorType::Q6_K:
      return through_blocks<cpu::BlockQ6K>(type, x, importance, dst);
    case TensorType::IQ4_NL:
      return through_blocks<cpu::BlockIQ4NL>(type, x, importance, dst);
    case TensorType::IQ4_XS:
      return through_blocks<cpu::BlockIQ4XS>(type, x, importance, dst);
    case TensorType::MXFP4:
      return through_blocks<cpu::BlockMXFP4>(type, x, importance, dst);
    default:
      throw std::logic_error("floats are not quantized to this type");
  }
}

}  // namespace yamata::quantize
