#pragma once
// Internal: converts one row to the blocks of one format. `importance` is null or has a weight per element of the row.
#include <span>

#include "node/cpu/kernels/blocks.hpp"

namespace yamata::quantize {

/// The nearest F16 number to a scale; throws OutOfRange if there is none.
std::uint16_t half(float value);
float square_sum(std::span<const float> x);
/// weights[i] = importance[i] * sqrt(variance + x[i]^2)
void importance_weights(std::span<const float> x, const float* importance, float variance, float* weights);

void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ4_0* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ4_1* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ5_0* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ5_1* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ8_0* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ2K* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ3K* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ4K* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ5K* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockQ6K* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockIQ4NL* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockIQ4XS* blocks);
void to_blocks(std::span<const float> x, const float* importance, cpu::BlockMXFP4* blocks);

}  // namespace yamata::quantize
