// Every instruction set gives the scalar kernels' bits, and the scalar kernels give correct numbers.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "node/error.hpp"
#include "tests/node/cpu/kernels/support.hpp"

namespace yamata::cpu {
namespace {

constexpr unsigned kSeed = 20240607;
const KernelTable& scalar() { return kernels(Isa::kScalar); }

class EveryType : public testing::TestWithParam<TensorType> {};

TEST_P(EveryType, equals_scalar_bits_at_every_width_packed_or_not) {
  const TensorType type = GetParam();
  std::printf("seed %u\n", kSeed);
  const std::vector<NamedTable> tables = tables_under_test();
  if (tables.empty()) GTEST_SKIP() << "this machine runs the scalar kernels only";
  struct Shape {
    std::int64_t rows, cols;
  };
  for (const auto& [rows, cols] : {Shape{37, 32}, {45, 64}, {5, 96}, {45, 256}, {37, 576}, {37, 768}, {37, 47}}) {
    if (cols % traits(type).block_elements != 0) continue;
    Random random(kSeed);
    const Weights weights(type, random_weights(random, type, rows, cols), rows, cols);
    for (std::int64_t tokens = 1; tokens <= (cols <= 256 ? 16 : 9); ++tokens) {
      const std::vector<float> input = random_floats(random, static_cast<std::size_t>(tokens * cols));
      Activations x(scalar(), input, tokens, cols);
      const std::vector<float> expected = multiply(scalar(), weights, x);
      EXPECT_GT(std::set<float>(expected.begin(), expected.end()).size(), expected.size() * 9 / 10);
      for (const NamedTable& t : tables) {
        Activations own(*t.table, input, tokens, cols);
        EXPECT_EQ(bits(multiply(*t.table, weights, own)), bits(expected)) << t.name << " cols " << cols << " tokens " << tokens;
        EXPECT_EQ(bits(multiply_packed(*t.table, weights, own)), bits(expected)) << t.name << " cols " << cols << " tokens " << tokens;
      }
    }
  }
}

TEST_P(EveryType, panels_larger_than_a_cache_equal_scalar_bits) {
  const TensorType type = GetParam();
  const std::vector<NamedTable> tables = tables_under_test();
  if (tables.empty()) GTEST_SKIP() << "this machine runs the scalar kernels only";
  Random random(kSeed + 4);
  struct Shape {
    std::int64_t rows, cols, tokens;
  };
  for (const auto& [rows, cols, tokens] : {Shape{72, 4096, 18}, {24, 16384, 10}}) {  // a few panels fit into the cache, or none does
    const Weights weights(type, random_weights(random, type, rows, cols), rows, cols);
    const std::vector<float> input = random_floats(random, static_cast<std::size_t>(tokens * cols));
    Activations x(scalar(), input, tokens, cols);
    const std::vector<float> expected = multiply(scalar(), weights, x);
    for (const NamedTable& t : tables) {
      Activations own(*t.table, input, tokens, cols);
      EXPECT_EQ(bits(multiply_packed(*t.table, weights, own)), bits(expected)) << t.name << " cols " << cols;
    }
  }
}

TEST_P(EveryType, sums_at_the_ends_of_their_range_equal_scalar_bits) {
  const TensorType type = GetParam();
  if (is_float(type)) GTEST_SKIP() << "sums of floats have no such range";
  const std::vector<NamedTable> tables = tables_under_test();
  if (tables.empty()) GTEST_SKIP() << "this machine runs the scalar kernels only";
  const std::int64_t rows = 17, cols = 256, tokens = 9;
  for (const unsigned numbers : {0x00u, 0x7fu, 0x80u, 0xffu}) {
    Random random(kSeed + 5);
    const Weights weights(type, weights_of(static_cast<std::byte>(numbers), random, type, rows, cols), rows, cols);
    for (const int positive : {0, 3, 5, 15}) {  // of every four activations
      std::vector<float> input(static_cast<std::size_t>(tokens * cols));
      for (std::size_t i = 0; i < input.size(); ++i) input[i] = positive >> i % 4 & 1 ? 1.0f : -1.0f;
      Activations x(scalar(), input, tokens, cols);
      const std::vector<float> expected = multiply(scalar(), weights, x);
      for (const NamedTable& t : tables) {
        Activations own(*t.table, input, tokens, cols);
        EXPECT_EQ(bits(multiply_packed(*t.table, weights, own)), bits(expected)) << t.name << " numbers " << numbers << ' ' << positive;
      }
    }
  }
}

TEST_P(EveryType, scalar_agrees_with_double_precision) {
  const TensorType type = GetParam();
  const std::int64_t rows = 7, cols = 768, tokens = 3;
  Random random(kSeed + 1);
  const Weights weights(type, random_weights(random, type, rows, cols), rows, cols);
  Activations x(scalar(), random_floats(random, static_cast<std::size_t>(tokens * cols)), tokens, cols);
  const std::vector<float> y = multiply(scalar(), weights, x);
  std::vector<float> w(static_cast<std::size_t>(rows * cols));
  dequantize(type, weights.bytes.data(), rows * cols, w.data());
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < cols; ++k) {
        const Activations::Block block = x.block(t, k / 32);
        const double value = is_float(type) ? x.x[static_cast<std::size_t>(t * cols + k)]
                                            : static_cast<double>(block.values[static_cast<std::size_t>(k % 32)]) * block.scale;
        const double weight = w[static_cast<std::size_t>(r * cols + k)];
        sum += weight * value, magnitude += std::abs(value) * 16;  // weights and their mins are mostly below 16
        magnitude += std::abs(weight * value);
      }
      // Each of about 100 roundings of a sum has an error of at most 2^-24 of the sum's magnitude.
      EXPECT_NEAR(y[static_cast<std::size_t>(t * rows + r)], sum, 100 * magnitude / (1 << 24)) << "row " << r;
    }
  }
}

TEST_P(EveryType, token_does_not_depend_on_its_batch) {
  const TensorType type = GetParam();
  const std::int64_t rows = 18, cols = 256, tokens = 13;
  Random random(kSeed + 2);
  const Weights weights(type, random_weights(random, type, rows, cols), rows, cols);
  std::vector<NamedTable> tables = tables_under_test();
  tables.push_back({"scalar", &scalar()});
  for (const NamedTable& t : tables) {
    Activations x(*t.table, random_floats(random, static_cast<std::size_t>(tokens * cols)), tokens, cols);
    const std::vector<float> all = multiply_packed(*t.table, weights, x);
    for (std::int64_t i = 0; i < tokens; ++i) {
      Activations one(*t.table, {x.x.begin() + i * cols, x.x.begin() + (i + 1) * cols}, 1, cols);
      const std::vector<float> alone = multiply_packed(*t.table, weights, one);
      EXPECT_EQ(bits(alone), bits({all.begin() + i * rows, all.begin() + (i + 1) * rows})) << t.name << " token " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Matmul, EveryType, testing::ValuesIn(kAllTypes),
                         [](const auto& info) { return std::string(traits(info.param).name); });

TEST(Matmul, adds_to_the_rows_asked_for_and_no_others) {
  constexpr std::int64_t kRows = 49, kCols = 256, kTokens = 3, kEnd = 46, kStride = 60;
  std::vector<NamedTable> tables = tables_under_test();
  tables.push_back({"scalar", &scalar()});
  for (const TensorType type : {TensorType::Q8_0, TensorType::Q4_K}) {
    Random random(kSeed + 3);
    const Weights file(type, random_weights(random, type, kRows, kCols), kRows, kCols);
    const std::vector<float> input = random_floats(random, kTokens * kCols);
    Activations reference(scalar(), input, kTokens, kCols);
    const std::vector<float> plain = multiply(scalar(), file, reference);
    for (const NamedTable& t : tables) {
      const std::int64_t begin = t.table->panel_rows > 0 ? t.table->panel_rows : 16;
      Weights w = file;
      w.pack(*t.table);
      Activations x(*t.table, input, kTokens, kCols);
      std::vector<float> y(kTokens * kStride, 1.5f);
      t.table->matmul[static_cast<std::size_t>(type)]({w.bytes.data(), w.row_bytes, w.packed, begin, kEnd, kCols, x.x.data(), x.quantized(),
                                                       kTokens, y.data(), kStride, true, nullptr});
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::int64_t row = static_cast<std::int64_t>(i) % kStride;
        const float expected = row >= begin && row < kEnd ? 1.5f + plain[i / kStride * kRows + i % kStride] : 1.5f;
        EXPECT_EQ(y[i], expected) << t.name << ' ' << traits(type).name << " element " << i;
      }
    }
  }
}

TEST(Isa, names_choose_or_are_refused) {
  ASSERT_EQ(setenv("YAMATA_ISA", "scalar", 1), 0);
  EXPECT_EQ(choose_isa(), Isa::kScalar);
  for (const char* name : {"sse9", isa_usable(Isa::kAvx2) ? "neon" : "avx2"}) {
    setenv("YAMATA_ISA", name, 1);
    EXPECT_THROW(choose_isa(), UsageError) << name;
  }
  for (const Isa isa : {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kNeonDotprod, Isa::kNeonI8mm}) {
    setenv("YAMATA_ISA", isa_name(isa), 1);
    if (isa_usable(isa))
      EXPECT_EQ(choose_isa(), isa) << isa_name(isa);
    else
      EXPECT_THROW(choose_isa(), UsageError) << isa_name(isa);
  }
  unsetenv("YAMATA_ISA");
  EXPECT_TRUE(isa_usable(choose_isa()));
}

}  // namespace
}  // namespace yamata::cpu
