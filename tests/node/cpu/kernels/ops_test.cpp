// Quantization, normalization, activation and attention: the same bits everywhere, and correct numbers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "tests/node/cpu/kernels/support.hpp"

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
    std::vector<int> sub_compensation(4);
    for (int i = 0; i < 32; ++i) {
      EXPECT_EQ(block.values[static_cast<std::size_t>(i)], std::nearbyint(value(i) * (1.0f / block.scale)));
      sums[i / 16] += block.values[static_cast<std::size_t>(i)];
      sub_compensation[static_cast<std::size_t>(i / 16 * 2 + i % 4 / 2)] -= 32 * block.values[static_cast<std::size_t>(i)];
    }
    EXPECT_EQ(block.sub_sums, (std::vector<int>{sums[0], sums[1]}));
    EXPECT_EQ(block.sum, block.scale * static_cast<float>(sums[0] + sums[1]));
    EXPECT_EQ(block.compensation, -8 * (sums[0] + sums[1]));
    EXPECT_EQ(block.sub_compensation, sub_compensation);
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
  for (int b = 0; b < 2; ++b)
    EXPECT_EQ(q.block(0, b), (Activations::Block{std::vector<int>(32, 0), 0.0f, 0.0f, {0, 0}, 0, std::vector<int>(4)}));
}

TEST(Quantize, of_a_norm_multiplies_the_scales_by_the_factor) {
  constexpr std::int64_t kTokens = 9, kCols = 111;
  Random random(kSeed);
  const std::vector<float> x = random_floats(random, kTokens * kCols), w = random_floats(random, kCols);
  std::vector<float> product;
  for (std::int64_t i = 0; i < kTokens * kCols; ++i)
    product.push_back(x[static_cast<std::size_t>(i)] * w[static_cast<std::size_t>(i % kCols)]);
  for (const NamedTable& t : tables_under_test()) {
    const Activations expected(scalar(), product, kTokens, kCols);
    Activations got(*t.table, std::vector<float>(product.size()), kTokens, kCols);
    for (std::int64_t row = 0; row < kTokens; ++row)
      t.table->quantize(x.data() + row * kCols, w.data(), 0.25f, 0, kCols, got.quantized(), row);
    for (std::int64_t i = 0; i < kTokens * got.blocks; ++i) {
      auto block = expected.block(i / got.blocks, i % got.blocks);
      block.scale *= 0.25f, block.sum *= 0.25f;
      EXPECT_EQ(got.block(i / got.blocks, i % got.blocks), block) << t.name << " block " << i;
    }
  }
}

TEST(EncodedBlocks, decode_to_what_quantize_gives_in_any_instruction_set) {
  constexpr std::int64_t kTokens = 10, kCols = 111, kBlocks = 4;
  Random random(kSeed);
  const std::vector<float> x = random_floats(random, kTokens * kCols), w = random_floats(random, kCols);
  for (const float* weight : {static_cast<const float*>(nullptr), w.data()}) {
    for (const NamedTable& from : tables_under_test()) {
      for (const NamedTable& to : tables_under_test()) {
        Activations expected(*to.table, std::vector<float>(x.size()), kTokens, kCols),
            got(*to.table, std::vector<float>(x.size()), kTokens, kCols);
        for (std::int64_t row = 0; row < kTokens; ++row) {
          const float* values = x.data() + row * kCols;
          to.table->quantize(values, weight, 0.3f, 0, kCols, expected.quantized(), row);
          EncodedBlock blocks[kBlocks];
          from.table->encode_blocks(values, weight, 64, blocks);
          from.table->encode_blocks(values + 64, weight ? weight + 64 : nullptr, kCols - 64, blocks + 2);
          to.table->decode_blocks(blocks + 1, 3, 0.3f, got.quantized(), row, 1);
          to.table->decode_blocks(blocks, 1, 0.3f, got.quantized(), row, 0);
        }
        for (std::int64_t i = 0; i < kTokens * kBlocks; ++i)
          EXPECT_EQ(got.block(i / kBlocks, i % kBlocks), expected.block(i / kBlocks, i % kBlocks)) << from.name << " to " << to.name;
      }
    }
  }
}

TEST(BlockSquares, are_the_same_whoever_adds_them_up) {
  for (const std::int64_t n : {1, 16, 31, 32, 33, 111, 576, 1100}) {
    Random random(kSeed);
    const std::vector<float> x = random_floats(random, static_cast<std::size_t>(n));
    std::vector<float> expected(static_cast<std::size_t>((n + 31) / 32)), got(expected);
    scalar().block_squares(x.data(), n, expected.data());
    for (const NamedTable& t : tables_under_test()) {
      t.table->block_squares(x.data(), n, got.data());
      EXPECT_EQ(bits(got), bits(expected)) << t.name << " " << n;
      EXPECT_EQ(t.table->inverse_rms(got.data(), n, 1e-5f), scalar().inverse_rms(expected.data(), n, 1e-5f)) << t.name << " " << n;
    }
  }
}

TEST(RmsNorm, agrees_with_double_and_between_instruction_sets) {
  for (const std::int64_t n : {16, 19, 576}) {
    Random random(kSeed);
    const std::vector<float> x = random_floats(random, static_cast<std::size_t>(n)), w = random_floats(random, x.size());
    const auto normed = [&](const KernelTable& table) {
      std::vector<float> y(x.size()), squares(x.size() / 32 + 1);
      table.block_squares(x.data(), n, squares.data());
      table.scale_mul(x.data(), table.inverse_rms(squares.data(), n, 1e-5f), w.data(), n, y.data());
      return y;
    };
    const std::vector<float> y = normed(scalar());
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value) * value;
    const double inverse = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], x[i] * inverse * w[i], 4e-6 * std::abs(x[i] * w[i]));
    for (const NamedTable& t : tables_under_test()) EXPECT_EQ(bits(normed(*t.table)), bits(y)) << t.name;
  }
}

/// Activations in double precision, without an up value.
double exact(Activation activation, double g) {
  switch (activation) {
    case Activation::kSilu:
      return g / (1 + std::exp(-g));
    case Activation::kGeluTanh:
      return g / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));  // half of 1 + tanh
    case Activation::kClampedSilu:
      return std::min(g, 7.0) / (1 + std::exp(-1.702 * std::min(g, 7.0)));
    case Activation::kSquaredRelu:
      return g > 0 ? g * g : 0;
    case Activation::kNone:
      break;
  }
  return g;
}
constexpr Activation kActivations[] = {Activation::kNone, Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSilu,
                                       Activation::kSquaredRelu};

TEST(Activate, agrees_with_double_and_between_instruction_sets) {
  std::vector<float> gate;
  for (int i = -10400; i <= 10400; ++i) gate.push_back(static_cast<float>(i) * 0.01f);
  const std::int64_t n = static_cast<std::int64_t>(gate.size());
  std::vector<float> up(gate.size());
  for (std::size_t i = 0; i < up.size(); ++i) up[i] = static_cast<float>(i % 41) * 0.5f - 10.0f;
  for (const Activation activation : kActivations) {
    for (const float* ups : {static_cast<const float*>(nullptr), static_cast<const float*>(up.data())}) {
      std::vector<float> y(gate.size());
      scalar().activate(activation, gate.data(), ups, n, y.data());
      for (std::size_t i = 0; i < gate.size(); ++i) {
        const double u = activation == Activation::kClampedSilu ? std::clamp(up[i], -7.0f, 7.0f) + 1.0 : up[i];
        const double wanted = exact(activation, gate[i]) * (ups ? u : 1.0);
        // exp has an error of 2 ulp, the sum and the division of half an ulp each; an ulp is at most 2^-23 of the value. The argument of
        // the exp of a GELU, up to 104 before the value vanishes, has an error of 3 half ulps; so has the product with 1.702. Below -88.7,
        // exp(-gate) overflows and the result is 0, where it should be at most 104 / 2^128.
        const double ulps = activation == Activation::kSilu || activation == Activation::kNone ? 4 : 4 + 1.5 * 104;
        EXPECT_NEAR(y[i], wanted, ulps * std::abs(wanted) / (1 << 23) + std::ldexp(104.0 * 10, -128)) << gate[i];
      }
      for (const NamedTable& t : tables_under_test()) {
        std::vector<float> z(gate.size());
        t.table->activate(activation, gate.data(), ups, n, z.data());
        EXPECT_EQ(bits(z), bits(y)) << t.name;
      }
    }
  }
}

TEST(Activate, is_right_at_the_ends) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> gate = {inf, 1e30f, -1e30f, 0.0f, -200.0f}, up(5, 2.0f);
  std::vector<float> y(5);
  scalar().activate(Activation::kSilu, gate.data(), up.data(), 5, y.data());
  EXPECT_EQ(y, (std::vector<float>{inf, 2e30f, 0.0f, 0.0f, 0.0f}));
}

TEST(Exponentials, agree_with_double_and_between_instruction_sets) {
  std::vector<float> x;
  for (int i = -10300; i <= 8890; ++i) x.push_back(static_cast<float>(i) * 0.01f);
  std::vector<float> y(x.size());
  scalar().exponentials(x.data(), std::ssize(x), y.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double wanted = std::exp(static_cast<double>(x[i]));
    if (wanted > 3e38) continue;
    EXPECT_NEAR(y[i], wanted, 2 * wanted / (1 << 23) + std::ldexp(1.0, -149)) << x[i];
  }
  for (const NamedTable& t : tables_under_test()) {
    std::vector<float> z(x.size());
    t.table->exponentials(x.data(), std::ssize(x), z.data());
    EXPECT_EQ(bits(z), bits(y)) << t.name;
  }
}

/// Planes of 400 cells in one of the formats, and rows with five queries each that see some of them: more than are computed at once.
struct AttentionCase {
  static constexpr std::int64_t kCells = 400, kHeads = 5;

  AttentionCase(std::int64_t dim, TensorType cell_type) : head_dim(dim), type(cell_type) {
    Random random(kSeed);
    fill(random, k, k_plane);
    fill(random, v, v_plane);
  }
  void fill(Random& random, std::vector<float>& values, std::vector<std::byte>& plane) const {
    values = random_floats(random, static_cast<std::size_t>(kCells * head_dim));
    const TypeTraits& t = traits(type);
    const std::size_t cell_bytes = static_cast<std::size_t>(head_dim) / t.block_elements * t.block_bytes;
    plane.resize(kCells * cell_bytes);
    for (std::int64_t cell = 0; cell < kCells; ++cell) {
      float* of_cell = values.data() + cell * head_dim;
      scalar().store_cell(of_cell, head_dim, type, plane.data(), cell);
      dequantize(type, plane.data() + static_cast<std::size_t>(cell) * cell_bytes, head_dim, of_cell);
    }
  }
  void add_row(std::vector<std::int32_t> visible) {
    Random random(kSeed + static_cast<unsigned>(rows.size()));
    rows.push_back(std::move(visible));
    q.push_back(random_floats(random, static_cast<std::size_t>(kHeads * head_dim), 2.0f));
  }

  /// Attention of some rows, computed together chunk by chunk: [row][head][head_dim].
  std::vector<std::vector<float>> run(const KernelTable& table, const std::vector<std::size_t>& chosen) const {
    const std::size_t floats = static_cast<std::size_t>(kHeads * head_dim);
    std::vector<std::vector<float>> out(chosen.size(), std::vector<float>(floats, 9.0f)), peaks(chosen.size(), std::vector<float>(kHeads));
    std::vector<std::vector<float>> totals = peaks, more_out = out, more_peaks = peaks, more_totals = peaks;
    for (std::int64_t chunk = 0; chunk * kAttentionChunk < kCells; ++chunk) {
      std::vector<AttentionRow> now, before;
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto& cells = rows[chosen[i]];
        const auto count = static_cast<std::int64_t>(cells.size());
        if (count <= chunk * kAttentionChunk) continue;
        const float* query = q[chosen[i]].data();
        before.push_back({query, cells.data(), count, peaks[i].data(), totals[i].data(), out[i].data()});
        now.push_back({query, cells.data(), count, more_peaks[i].data(), more_totals[i].data(), more_out[i].data()});
      }
      const auto& into = chunk == 0 ? before : now;
      table.attention({into.data(), static_cast<std::int64_t>(into.size()), chunk, k_plane.data(), v_plane.data(), type, type, kScale,
                       kHeads, head_dim, softcap});
      for (std::size_t i = 0; chunk > 0 && i < now.size(); ++i) table.merge_attention(before[i], now[i], kHeads, head_dim);
    }
    for (std::size_t i = 0; i < chosen.size(); ++i)
      table.finish_attention({nullptr, nullptr, 0, peaks[i].data(), totals[i].data(), out[i].data()}, kHeads, head_dim,
                             sinks.empty() ? nullptr : sinks.data(), out[i].data());
    return out;
  }
  double exact(std::size_t row, std::size_t head, std::size_t d) const {
    const std::size_t dim = static_cast<std::size_t>(head_dim);
    double total = 0, sum = 0;
    for (const std::int32_t cell : rows[row]) {
      const std::size_t at = static_cast<std::size_t>(cell) * dim;
      double score = 0;
      for (std::size_t i = 0; i < dim; ++i) score += static_cast<double>(q[row][head * dim + i]) * k[at + i];
      score *= kScale;
      const double p = std::exp(softcap > 0 ? softcap * std::tanh(score / softcap) : score);
      total += p, sum += p * v[at + d];
    }
    return sum / (sinks.empty() ? total : total + std::exp(static_cast<double>(sinks[head])));
  }

  static constexpr float kScale = 0.125f;
  float softcap = 0;
  std::vector<float> sinks;  // [kHeads], or empty
  std::int64_t head_dim;
  TensorType type;
  std::vector<float> k, v;  // the values in the planes
  std::vector<std::byte> k_plane, v_plane;
  std::vector<std::vector<std::int32_t>> rows;
  std::vector<std::vector<float>> q;
};

std::vector<std::int32_t> scattered(std::int64_t count) {
  std::vector<std::int32_t> cells;
  for (std::int64_t i = 0; i < count; ++i) cells.push_back(static_cast<std::int32_t>(i * 7 % AttentionCase::kCells));
  return cells;
}

constexpr TensorType kCellTypes[] = {TensorType::F32, TensorType::F16, TensorType::Q8_0};

TEST(Attention, agrees_with_double_and_between_instruction_sets) {
  for (const std::int64_t head_dim : {16, 64, 80, 96, 128, 512}) {
    for (const std::int64_t count : {1, 7, 17, 33, 128, 129, 400}) {
      for (const TensorType type : kCellTypes) {
        if (type == TensorType::Q8_0 && head_dim % 32 != 0) continue;
        AttentionCase c(head_dim, type);
        c.add_row(scattered(count));
        const std::vector<float> out = c.run(scalar(), {0})[0];
        for (std::size_t i = 0; i < out.size(); i += 13) {
          const std::size_t dim = static_cast<std::size_t>(head_dim);
          EXPECT_NEAR(out[i], c.exact(0, i / dim, i % dim), 3e-5) << head_dim << " " << count;
        }
        for (const NamedTable& t : tables_under_test()) {
          EXPECT_EQ(bits(c.run(*t.table, {0})[0]), bits(out)) << t.name << " " << head_dim << " " << count;
        }
      }
    }
  }
}

TEST(Attention, caps_scores_and_minds_sinks) {
  for (const std::int64_t count : {1, 33, 128, 300}) {
    for (const bool sunk : {false, true}) {
      AttentionCase c(64, TensorType::F16);
      c.softcap = sunk ? 0.0f : 1.5f;
      if (sunk) c.sinks = {-30.0f, 0.0f, 1.5f, 4.0f, 30.0f};
      c.add_row(scattered(count));
      const std::vector<float> out = c.run(scalar(), {0})[0];
      for (std::size_t i = 0; i < out.size(); i += 7) EXPECT_NEAR(out[i], c.exact(0, i / 64, i % 64), 3e-5) << count << " " << i;
      for (const NamedTable& t : tables_under_test()) EXPECT_EQ(bits(c.run(*t.table, {0})[0]), bits(out)) << t.name << " " << count;
    }
  }
}

TEST(Attention, rows_together_give_the_bits_of_each_alone) {
  for (const auto& [head_dim, type] :
       {std::pair{64, TensorType::F32}, {64, TensorType::F16}, {64, TensorType::Q8_0}, {128, TensorType::F16}, {80, TensorType::F16}}) {
    AttentionCase c(head_dim, type);
    std::vector<std::int32_t> other = scattered(300);
    other[40] = 5;  // within a tile that is otherwise equal
    std::swap(other[200], other[201]);
    for (const auto& cells :
         {scattered(300), scattered(301), scattered(303), scattered(140), other, scattered(300), scattered(33), scattered(1)})
      c.add_row(cells);
    std::vector<NamedTable> tables = tables_under_test();
    tables.push_back({"scalar", &scalar()});
    for (const NamedTable& t : tables) {
      for (const std::vector<std::size_t>& chosen : {std::vector<std::size_t>{0, 1, 2, 3, 4, 5}, {2, 3, 4, 5, 6, 7}}) {
        const auto together = c.run(*t.table, chosen);
        for (std::size_t i = 0; i < chosen.size(); ++i)
          EXPECT_EQ(bits(together[i]), bits(c.run(*t.table, {chosen[i]})[0])) << t.name << " " << head_dim << " row " << chosen[i];
      }
    }
  }
}

TEST(Attention, where_the_cells_lie_does_not_change_a_bit) {
  AttentionCase c(64, TensorType::F16);
  c.add_row(scattered(200));
  AttentionCase moved = c;
  for (std::size_t i = 0; i < 200; ++i) {  // the same tokens, in cells 0, 1, 2, ...
    for (auto [from, to] : {std::pair{&c.k_plane, &moved.k_plane}, std::pair{&c.v_plane, &moved.v_plane}})
      std::copy_n(from->begin() + c.rows[0][i] * 128, 128, to->begin() + static_cast<std::ptrdiff_t>(i) * 128);
    moved.rows[0][i] = static_cast<std::int32_t>(i);
  }
  EXPECT_NE(moved.k_plane, c.k_plane);
  for (const NamedTable& t : tables_under_test()) EXPECT_EQ(bits(moved.run(*t.table, {0})[0]), bits(c.run(*t.table, {0})[0])) << t.name;
}

TEST(StoreCell, rounds_as_each_format_says_on_every_instruction_set) {
  constexpr std::int64_t kDim = 96;
  Random random(kSeed);
  std::vector<float> x = random_floats(random, kDim, 3.0f);
  std::fill_n(x.begin() + 32, 32, 0.0f);
  x[3] = 1e-6f, x[70] = -1e-30f, x[71] = 65504.0f;
  for (const TensorType type : kCellTypes) {
    const TypeTraits& t = traits(type);
    const std::size_t bytes = kDim / t.block_elements * t.block_bytes;
    std::vector<std::byte> expected(3 * bytes, std::byte{7});
    scalar().store_cell(x.data(), kDim, type, expected.data(), 1);
    EXPECT_EQ(std::count(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(bytes), std::byte{7}),
              static_cast<std::ptrdiff_t>(bytes));
    EXPECT_EQ(std::count(expected.end() - static_cast<std::ptrdiff_t>(bytes), expected.end(), std::byte{7}),
              static_cast<std::ptrdiff_t>(bytes));
    std::vector<float> back(kDim);
    dequantize(type, expected.data() + bytes, kDim, back.data());
    for (std::size_t i = 0; i < kDim; ++i) {
      float largest = 0;
      for (std::size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) largest = std::max(largest, std::abs(x[j]));
      // Q8_0: half a step, and the rounding of the scale to 11 bits, over at most 127 steps.
      const double error = type == TensorType::F32   ? 0.0
                           : type == TensorType::F16 ? std::abs(x[i]) / 2048 + 3e-8
                                                     : largest / 127 * (0.5 + 127.0 / 2048);
      EXPECT_NEAR(back[i], x[i], error) << t.name << " " << i;
    }
    for (const NamedTable& table : tables_under_test()) {
      std::vector<std::byte> got(3 * bytes, std::byte{7});
      table.table->store_cell(x.data(), kDim, type, got.data(), 1);
      EXPECT_EQ(got, expected) << table.name << " " << t.name;
    }
  }
}

}  // namespace
}  // namespace yamata::cpu
