#pragma once
// Converts a file's rows to the panels of panel.hpp, once when weights are loaded.
#include <cstddef>
#include <cstdint>

#include "node/tensor_type.hpp"

namespace yamata::cpu {

/// Whether the matrix product uses panels for this format; F32, F16 and BF16 are read as in the file.
bool has_panels(TensorType type);

/// Writes a panel of `lanes` rows (4, 8 or 16) from `rows` rows of the file (at most `lanes`; missing rows become zeros). `source` is the
/// first row; rows are `row_bytes` apart and have `groups` blocks. The panel needs `lanes` times the packed bytes of a row.
template <class Block>
void repack_panel(const std::byte* source, std::size_t row_bytes, int rows, std::int64_t groups, int lanes, std::byte* panel);

/// Packs rows [row_begin, row_end) of a matrix of `rows` rows into its panels; row_begin is a multiple of `lanes`.
void repack(TensorType type, const std::byte* source, std::size_t row_bytes, std::int64_t row_begin, std::int64_t row_end, int lanes,
            std::byte* panels);

/// Bytes of a row in panels: as many as in the file, except for the small IQ formats and the ternary ones.
std::size_t packed_row_bytes(TensorType type, std::size_t row_bytes);
/// Bytes of a matrix's panels.
std::size_t packed_bytes(TensorType type, std::int64_t rows, std::size_t row_bytes, int lanes);

}  // namespace yamata::cpu
