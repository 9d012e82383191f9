// Scores of cells for sparse attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "node/tensor_type.hpp"
#include "tests/node/cpu/kernels/support.hpp"

namespace yamata::cpu {
namespace {

constexpr std::int64_t kCells = 150;

/// Keys in a format, as floats and in their plane.
struct Keys {
  Keys(std::int64_t its_dim, TensorType its_type) : dim(its_dim), type(its_type) {
    Random random(3);
    floats = random_floats(random, static_cast<std::size_t>(kCells * dim));
    const std::size_t bytes = row_bytes(type, dim);
    plane.resize(static_cast<std::size_t>(kCells) * bytes);
    for (std::int64_t cell = 0; cell < kCells; ++cell) {
      float* key = floats.data() + cell * dim;
      kernels(Isa::kScalar).store_cell(key, dim, type, plane.data(), cell);
      dequantize(type, plane.data() + static_cast<std::size_t>(cell) * bytes, dim, key);
    }
  }
  std::int64_t dim;
  TensorType type;
  std::vector<float> floats;
  std::vector<std::byte> plane;
};

double exact(const Keys& keys, const std::vector<float>& q, const std::vector<float>& weights, std::int32_t cell) {
  double score = 0;
  for (std::size_t head = 0; head < weights.size(); ++head) {
    double product = 0;
    for (std::int64_t i = 0; i < keys.dim; ++i) {
      product += static_cast<double>(q[head * static_cast<std::size_t>(keys.dim) + static_cast<std::size_t>(i)]) *
                 static_cast<double>(keys.floats[static_cast<std::size_t>(cell * keys.dim + i)]);
    }
    score += static_cast<double>(weights[head]) * std::max(0.0, product);
  }
  return score;
}

TEST(IndexScores, agree_with_double_and_between_instruction_sets) {
  for (const std::int64_t dim : {32, 64, 96, 128}) {
    for (const TensorType type : {TensorType::F32, TensorType::F16, TensorType::Q8_0}) {
      const Keys keys(dim, type);
      for (const std::int64_t count : {1, 8, 9, 16, 31, 33, 140}) {
        for (const std::int64_t heads : {1, 5}) {
          Random random(4);
          const std::vector<float> q = random_floats(random, static_cast<std::size_t>(heads * dim)),
                                   weights = random_floats(random, static_cast<std::size_t>(heads));
          std::vector<std::int32_t> cells;
          for (std::int64_t i = 0; i < count; ++i) cells.push_back(static_cast<std::int32_t>(i * 7 % kCells));
          const auto scores = [&](const KernelTable& table) {
            std::vector<float> found(static_cast<std::size_t>(count), 9.0f);
            table.index_scores({q.data(), weights.data(), cells.data(), count, keys.plane.data(), type, heads, dim, found.data()});
            return found;
          };
          const std::vector<float> found = scores(kernels(Isa::kScalar));
          for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], exact(keys, q, weights, cells[i]), 1e-4) << dim << ", " << i;
          for (const NamedTable& t : tables_under_test())
            EXPECT_EQ(bits(scores(*t.table)), bits(found)) << t.name << ' ' << dim << ' ' << count;
        }
      }
    }
  }
}

}  // namespace
}  // namespace yamata::cpu
