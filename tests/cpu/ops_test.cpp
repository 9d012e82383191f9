// Quantization, normalization, activation and attention: the same bits everywhere, and the right numbers.
#include <bit>
#include <cmath>
#include <limits>

#include "tests/cpu/support.hpp"

namespace yamata::cpu {
namespace {

constexpr unsigned kSeed = 77;
const KernelTable& scalar() { return kernels(Isa::kScalar); }

TEST(Quantize, rounds_to_nearest_and_pads_with_zeros) {
  Random random(kSeed);
  Activations x(scalar(), random_floats(random, 47), 1, 47);
  for (std::int64_t b = 0; b < 2; ++b) {
    const auto value = [&](int i) { return 32 * b + i < 47 ? x.x[static_cast<std::size_t>(32 * b + i)] : 0.0f; };
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(value(i)));
    const Activations::Block block = x.block(0, b);
    EXPECT_EQ(block.scale, largest / 127.0f);
    int sums[2] = {0, 0};
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(block.values[static_cast<std::size_t>(i)], std::nearbyint(value(i) * (1.0f / block.scale)));
      sums[i / 16] += block.values[static_cast<std::size_t>(i)];
    }
    EXPECT_EQ(block.run_sums, (std::vector<int>{sums[0], sums[1]}));
    EXPECT_EQ(block.sum, block.scale * static_cast<float>(sums[0] + sums[1]));
  }
}

TEST(Quantize, equals_scalar_in_tiles_of_every_size) {
  for (const NamedTable& t : tables_under_test()) {
    for (const std::int64_t n : {32, 47, 64, 96, 576}) {
      for (const std::int64_t tokens : {1, 2, 7, 8, 9, 21}) {
        Random random(kSeed);
        const std::vector<float> x = random_floats(random, static_cast<std::size_t>(tokens * n));
        Activations expected(scalar(), x, tokens, n), got(*t.table, x, tokens, n);
        for (std::int64_t i = 0; i < tokens * got.blocks; ++i) {
          EXPECT_EQ(got.block(i / got.blocks, i % got.blocks), expected.block(i / got.blocks, i % got.blocks)) << t.name << " " << n;
        }
      }
    }
  }
}

TEST(Quantize, tiny_and_zero_blocks_become_zeros) {
  std::vector<float> x(64, 0.0f);
  x[40] = 1e-40f;
  Activations q(scalar(), x, 1, 64);
  for (int b = 0; b < 2; ++b) EXPECT_EQ(q.block(0, b), (Activations::Block{std::vector<int>(32, 0), 0.0f, 0.0f, {0, 0}}));
}

TEST(RmsNorm, agrees_with_double_and_between_instruction_sets) {
  for (const std::int64_t n : {16, 19, 576}) {
    Random random(kSeed);
    const std::vector<float> x = random_floats(random, static_cast<std::size_t>(n)), w = random_floats(random, x.size());
    std::vector<float> y(x.size());
    scalar().rms_norm(x.data(), w.data(), 1e-5f, n, y.data());
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value) * value;
    const double inverse = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i] * inverse * w[i], 4e-6 * std::abs(x[i] * w[i]));
    for (const NamedTable& t : tables_under_test()) {
      std::vector<float> z(x.size());
      t.table->rms_norm(x.data(), w.data(), 1e-5f, n, z.data());
      EXPECT_EQ(bits(z), bits(y)) << t.name;
    }
  }
}

TEST(SiluMul, agrees_with_double_and_between_instruction_sets) {
  std::vector<float> gate;
  for (int i = -10400; i <= 10400; ++i) gate.push_back(static_cast<float>(i) * 0.01f);
  const std::int64_t n = static_cast<std::int64_t>(gate.size());
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> y(gate.size());
  scalar().silu_mul(gate.data(), up.data(), n, y.data());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double exact = gate[i] / (1 + std::exp(-static_cast<double>(gate[i])));
    // exp errs by 2 ulp, the sum and the division by half an ulp each; an ulp is at most 2^-23 of the value.
    // Below -88.7 exp(-gate) is no float and the result is 0, where it should be at most 104 / 2^128.
    EXPECT_NEAR(y[i], exact, 3 * std::abs(exact) / (1 << 23) + std::ldexp(104.0, -128)) << gate[i];
  }
  for (const NamedTable& t : tables_under_test()) {
    std::vector<float> z(gate.size());
    t.table->silu_mul(gate.data(), up.data(), n, z.data());
    EXPECT_EQ(bits(z), bits(y)) << t.name;
  }
}

TEST(SiluMul, is_right_at_the_ends) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> gate = {inf, 1e30f, -1e30f, 0.0f, -200.0f}, up(5, 2.0f);
  std::vector<float> y(5);
  scalar().silu_mul(gate.data(), up.data(), 5, y.data());
  EXPECT_EQ(y, (std::vector<float>{inf, 2e30f, 0.0f, 0.0f, 0.0f}));
}

/// Caches of 400 cells, of which some are visible in shuffled places.
struct AttentionCase {
  AttentionCase(std::int64_t head_dim, std::int64_t cell_count, bool half) : f16(half) {
    Random random(kSeed);
    q = random_floats(random, static_cast<std::size_t>(3 * head_dim), 2.0f);
    k = random_floats(random, static_cast<std::size_t>(400 * head_dim));
    v = random_floats(random, k.size());
    for (auto* values : {&k, &v}) {
      for (float& value : *values) {
        (values == &k ? k16 : v16).push_back(f32_to_f16(value));
        if (f16) value = f16_to_f32(f32_to_f16(value));
      }
    }
    for (std::int64_t i = 0; i < cell_count; ++i) cells.push_back(static_cast<std::int32_t>(i * 7 % 400));
    args = {q.data(),
            f16 ? static_cast<const void*>(k16.data()) : k.data(),
            f16 ? static_cast<const void*>(v16.data()) : v.data(),
            f16,
            cells.data(),
            cell_count,
            0.125f,
            3,
            head_dim,
            nullptr};
  }
  std::vector<float> run(const KernelTable& table) {
    std::vector<float> out(q.size(), 9.0f);
    args.out = out.data();
    table.attention(args);
    return out;
  }
  double exact(std::size_t head, std::size_t d) const {
    const std::size_t dim = static_cast<std::size_t>(args.head_dim);
    double total = 0, sum = 0;
    for (const std::int32_t cell : cells) {
      const std::size_t at = static_cast<std::size_t>(cell) * dim;
      double score = 0;
      for (std::size_t i = 0; i < dim; ++i) score += static_cast<double>(q[head * dim + i]) * k[at + i];
      const double p = std::exp(score * args.scale);
      total += p, sum += p * v[at + d];
    }
    return sum / total;
  }
  bool f16;
  std::vector<float> q, k, v;
  std::vector<std::uint16_t> k16, v16;
  std::vector<std::int32_t> cells;
  AttentionArgs args;
};

TEST(Attention, agrees_with_double_and_between_instruction_sets) {
  for (const std::int64_t head_dim : {16, 64, 80, 128, 512}) {
    for (const std::int64_t count : {1, 17, 128, 129, 400}) {
      for (const bool f16 : {false, true}) {
        AttentionCase c(head_dim, count, f16);
        const std::vector<float> out = c.run(scalar());
        for (std::size_t i = 0; i < out.size(); i += 13) {
          const std::size_t dim = static_cast<std::size_t>(head_dim);
          EXPECT_NEAR(out[i], c.exact(i / dim, i % dim), 3e-5) << head_dim << " " << count;
        }
        for (const NamedTable& t : tables_under_test()) {
          EXPECT_EQ(bits(c.run(*t.table)), bits(out)) << t.name << " " << head_dim << " " << count;
        }
      }
    }
  }
}

TEST(Attention, no_cells_give_zeros) {
  AttentionCase c(64, 0, true);
  EXPECT_EQ(c.run(scalar()), std::vector<float>(192, 0.0f));
}

}  // namespace
}  // namespace yamata::cpu
