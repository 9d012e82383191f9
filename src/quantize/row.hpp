#pragma once
// Rows of floats to the blocks of every format.
#include <cstddef>
#include <cstdint>
#include <span>

#include "node/tensor_type.hpp"

namespace yamata::quantize {

/// A value, or the scale of a block, does not fit the format.
struct OutOfRange {};

/// Whether floats are quantized to the type: those of the small IQ formats and the ternary ones are only read.
bool is_written(TensorType type);

/// Quantizes one row (whole blocks of `type`, which is written) to `dst`: traits(type).block_bytes for each block. `importance` has a
/// weight per column, or is null. The bytes are those of the formats' reference implementation. Throws OutOfRange; the row must be finite.
void quantize_row(TensorType type, std::span<const float> x, const float* importance, std::byte* dst);

}  // namespace yamata::quantize
