#pragma once
// Weights that are copied from a file, converted, and kept in their own memory.
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "node/compute_unit.hpp"
#include "node/memory.hpp"
#include "src/draft_heads/tensor_views.hpp"

namespace yamata::draft_heads {

/// The type in which a matrix of `cols` columns of a tensor is kept. It must store whole blocks: columns of a quantized tensor may begin
/// within a block.
TensorType kept_type(TensorType stored, std::int64_t cols, MatrixType matrices);

/// Matrices and vectors of a head. Matrices are quantized when they are copied, and packed for a compute unit when the head is loaded.
class OwnWeights {
 public:
  explicit OwnWeights(MatrixType matrices) : matrix_type_(matrices) {}
  OwnWeights(const OwnWeights&) = delete;
  OwnWeights& operator=(const OwnWeights&) = delete;

  /// Columns `begin` up to `end` of a tensor, as a matrix; `end` 0: all.
  const Matrix* matrix(const TensorView& tensor, std::int64_t begin = 0, std::int64_t end = 0);
  /// Rows `begin` up to `end` of a tensor that is stored input-major: as the matrix [cols][end - begin].
  const Matrix* transposed(const TensorView& tensor, std::int64_t begin, std::int64_t end);
  /// A lookup table, unchanged; it is not used in products.
  const Matrix* table(const TensorView& tensor);
  /// A matrix that stays in its own memory.
  const Matrix* foreign(const Matrix& matrix);
  /// The same, but the packed form is stored in the given description, which outlives this.
  void adopt(Matrix& matrix) { adopted_.push_back(&matrix); }
  const float* vector(const TensorView& tensor);
  const float* vector(std::vector<float> values);

  /// Operations that pack the matrices for `unit`; the caller runs them once. Allocates the memory for it.
  std::vector<Op> pack(ComputeUnit& unit);
  /// Releases the unpacked form of packed matrices.
  void release_unpacked();

 private:
  Matrix& add(TensorType type, std::int64_t rows, std::int64_t cols);

  struct Owned {
    Matrix matrix;
    PageMemory memory;  // empty if the matrix is foreign
  };
  const MatrixType matrix_type_;
  std::deque<Owned> matrices_, tables_;
  std::vector<Matrix*> adopted_;
  std::deque<std::vector<float>> vectors_;
  std::unique_ptr<Buffer> packed_;
};

}  // namespace yamata::draft_heads
