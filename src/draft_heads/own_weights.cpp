#include "src/draft_heads/own_weights.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "node/error.hpp"
#include "src/model/packing.hpp"
#include "src/quantize/row.hpp"

namespace yamata::draft_heads {

TensorType kept_type(TensorType stored, std::int64_t cols, MatrixType matrices) {
  const auto whole = [&](TensorType type) { return cols % static_cast<std::int64_t>(traits(type).block_elements) == 0; };
  const TensorType kept = whole(stored) ? stored : TensorType::F16;
  return matrices && whole(*matrices) && row_bytes(*matrices, cols) < row_bytes(kept, cols) ? *matrices : kept;
}

Matrix& OwnWeights::add(TensorType type, std::int64_t rows, std::int64_t cols) {
  const std::size_t bytes = row_bytes(type, cols);
  Owned& owned = matrices_.emplace_back(Owned{{}, PageMemory(bytes * static_cast<std::size_t>(rows))});
  owned.matrix = {type, rows, cols, owned.memory.data(), bytes};
  return owned.matrix;
}

namespace {

void put_row(const TensorView& tensor, std::span<const float> values, const Matrix& matrix, std::int64_t row) {
  auto* to = const_cast<std::byte*>(matrix.data) + static_cast<std::size_t>(row) * matrix.row_bytes;
  try {
    quantize::quantize_row(matrix.type, values, nullptr, to);
  } catch (const quantize::OutOfRange&) {
    throw ModelError(
        fmt::format("{}: tensor {} has values that its type cannot hold; copy or download it again", tensor.file, tensor.name));
  }
}

void require_finite(const TensorView& tensor, std::span<const float> values) {
  for (const float value : values) {
    if (!(value - value == 0))
      throw ModelError(fmt::format("{}: tensor {} has a value that is no number; copy or download it again", tensor.file, tensor.name));
  }
}

}  // namespace

const Matrix* OwnWeights::matrix(const TensorView& tensor, std::int64_t begin, std::int64_t end) {
  if (end == 0) end = tensor.cols;
  Matrix& matrix = add(kept_type(tensor.type, end - begin, matrix_type_), tensor.rows, end - begin);
  std::vector<float> row(static_cast<std::size_t>(tensor.cols));
  for (std::int64_t i = 0; i < tensor.rows; ++i) {
    tensor.row(i, row.data());
    require_finite(tensor, row);
    put_row(tensor, std::span(row).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), matrix, i);
  }
  return &matrix;
}

const Matrix* OwnWeights::transposed(const TensorView& tensor, std::int64_t begin, std::int64_t end) {
  const auto inputs = static_cast<std::size_t>(end - begin), outputs = static_cast<std::size_t>(tensor.cols);
  std::vector<float> all(inputs * outputs), row(outputs);
  for (std::size_t i = 0; i < inputs; ++i) {
    tensor.row(begin + static_cast<std::int64_t>(i), row.data());
    require_finite(tensor, row);
    for (std::size_t o = 0; o < outputs; ++o) all[o * inputs + i] = row[o];
  }
  Matrix& matrix = add(kept_type(tensor.type, end - begin, matrix_type_), tensor.cols, end - begin);
  for (std::size_t o = 0; o < outputs; ++o)
    put_row(tensor, std::span(all).subspan(o * inputs, inputs), matrix, static_cast<std::int64_t>(o));
  return &matrix;
}

const Matrix* OwnWeights::table(const TensorView& tensor) {
  Owned& owned = tables_.emplace_back(Owned{{}, PageMemory(tensor.row_bytes * static_cast<std::size_t>(tensor.rows))});
  std::memcpy(owned.memory.data(), tensor.data, owned.memory.size());
  owned.matrix = {tensor.type, tensor.rows, tensor.cols, owned.memory.data(), tensor.row_bytes};
  return &owned.matrix;
}

const Matrix* OwnWeights::foreign(const Matrix& matrix) { return &matrices_.emplace_back(Owned{matrix, {}}).matrix; }

const float* OwnWeights::vector(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols));
  for (std::int64_t i = 0; i < tensor.rows; ++i) tensor.row(i, values.data() + i * tensor.cols);
  require_finite(tensor, values);
  return vector(std::move(values));
}

const float* OwnWeights::vector(std::vector<float> values) { return vectors_.emplace_back(std::move(values)).data(); }

std::vector<Op> OwnWeights::pack(ComputeUnit& unit) {
  std::vector<Matrix*> all = adopted_;
  for (Owned& owned : matrices_) all.push_back(&owned.matrix);
  std::vector<Op> ops;
  packed_ = set_aside_packed(unit, all, ops, "heads", "let others compute them with --draft-units");
  return ops;
}

void OwnWeights::release_unpacked() {
  for (Owned& owned : matrices_) {
    if (owned.matrix.packed) owned.memory = PageMemory();
  }
}

}  // namespace yamata::draft_heads
