#pragma once
// From a file's rows to the panels of panel.hpp, once at load.
#include <cstddef>
#include <cstdint>

#include "node/tensor_type.hpp"

namespace yamata::cpu {

/// Whether the matrix product of this format has panels; F32, F16 and BF16 are read as they lie in the file.
bool has_panels(TensorType type);

/// Writes a panel of `lanes` rows (4, 8 or 16) from `rows` rows of the file (lanes at most; lanes without a row become zeros).
/// `source` is the first row, rows lie `row_bytes` apart and are of `groups` blocks. The panel takes lanes times
/// the packed bytes of a row.
template <class Block>
void repack_panel(const std::byte* source, std::size_t row_bytes, int rows, std::int64_t groups, int lanes, std::byte* panel);

/// Rows [row_begin, row_end) of a matrix of `rows` rows into its panels; row_begin is a multiple of `lanes`.
void repack(TensorType type, const std::byte* source, std::size_t row_bytes, std::int64_t row_begin, std::int64_t row_end, int lanes,
            std::byte* panels);

/// Bytes a row of a matrix takes in its panels: as many as in the file, but for the small IQ formats and the ternary ones.
std::size_t packed_row_bytes(TensorType type, std::size_t row_bytes);
/// Bytes the panels of a matrix take.
std::size_t packed_bytes(TensorType type, std::int64_t rows, std::size_t row_bytes, int lanes);

}  // namespace yamata::cpu
