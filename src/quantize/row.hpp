#pragma once
// Quantizes rows of floats to the blocks of every format.
#include <cstddef>
#include <cstdint>
#include <span>

#include "node/tensor_type.hpp"

namespace yamata::quantize {

/// A value, or the scale of a block, does not fit the format.
struct OutOfRange {};

/// Whether this program can quantize to the type. The small IQ formats and the ternary ones can only be read.
bool is_written(TensorType type);

/// Quantizes one row (whole blocks of `type`, for which is_written is true) to `dst`: traits(type).block_bytes for each block. `importance`
/// has a weight per column, or is null. The bytes are those of the formats' reference implementation. The row must be finite. Throws
/// OutOfRange.
void quantize_row(TensorType type, std::span<const float> x, const float* importance, std::byte* dst);

}  // namespace yamata::quantize
