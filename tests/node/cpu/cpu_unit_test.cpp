// Every operation, cut among threads: each result once, the same bits for any number of threads.
#include "node/cpu/cpu_unit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <random>

namespace yamata {
namespace {

void finish(ComputeUnit& unit) {
  while (!unit.wait_for(std::chrono::seconds(1))) {
  }
}

void run(ComputeUnit& unit, std::span<const Op> ops, const std::atomic<bool>* stop = nullptr) {
  unit.start(ops, stop);
  finish(unit);
}

class Team {
 public:
  explicit Team(int threads) : unit_(std::vector<int>(static_cast<std::size_t>(threads), -1), cpu::choose_isa()) {}
  CpuUnit& unit() { return unit_; }

 private:
  CpuUnit unit_;
};

/// Whole numbers from -8 to 8: sums of their products are exact in float, so any order gives one result.
std::vector<float> whole_numbers(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 17) - 8);
  return values;
}

std::vector<float> reals(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

Matrix matrix(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  return {TensorType::F32, rows, cols, reinterpret_cast<const std::byte*>(values.data()), static_cast<std::size_t>(cols) * sizeof(float)};
}

/// Random blocks of Q8_0 with scales near 1/64.
std::vector<std::byte> q8_0(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  const auto blocks = static_cast<std::size_t>(rows * cols / 32);
  std::vector<std::byte> bytes(blocks * 34);
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::uint16_t scale = cpu::f32_to_f16(static_cast<float>(1 + random() % 4) / 64.0f);
    std::memcpy(&bytes[b * 34], &scale, 2);
    for (std::size_t i = 2; i < 34; ++i) bytes[b * 34 + i] = static_cast<std::byte>(random());
  }
  return bytes;
}

class CpuUnitOf : public testing::TestWithParam<int> {
 protected:
  Team team_{GetParam()};
};

TEST_P(CpuUnitOf, Linear_addsEveryProductOnceForAnyNumberOfRows) {
  constexpr std::int64_t kCols = 48, kTokens = 3;
  const std::vector<float> x = whole_numbers(kTokens * kCols, 1);
  for (const std::int64_t rows : {1, 15, 16, 17, 33, 100}) {
    const std::vector<float> a = whole_numbers(static_cast<std::size_t>(rows * kCols), 2), b = whole_numbers(kCols, 3);
    const Matrix wide = matrix(a, rows, kCols), narrow = matrix(b, 1, kCols);
    std::vector<float> y(static_cast<std::size_t>(kTokens * rows), 1000.0f), z(kTokens, 5.0f);
    for (const bool add : {false, true}) {
      const std::vector<Op> ops{LinearOp{x.data(), kTokens, kCols, {{{&wide, y.data()}, {}, {&narrow, z.data()}}}, add}};
      run(team_.unit(), ops);
    }
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::int64_t k = 0; k < kCols; ++k)
          sum += 2.0 * a[static_cast<std::size_t>(r * kCols + k)] * x[static_cast<std::size_t>(t * kCols + k)];
        EXPECT_EQ(y[static_cast<std::size_t>(t * rows + r)], sum) << "rows " << rows << " token " << t << " row " << r;
      }
    }
  }
}

TEST_P(CpuUnitOf, Linear_inManyPiecesGivesTheBitsOfEachTokenAlone) {
  constexpr std::int64_t kMany = 40;
  const std::vector<float> floats = reals(256 * 1024, 8);
  const std::vector<std::byte> bytes = q8_0(1600, 96, 9);
  Matrix wide = matrix(floats, 256, 1024), tall{TensorType::Q8_0, 1600, 96, bytes.data(), 96 / 32 * 34};
  for (Matrix* w : {&wide, &tall}) {
    const std::vector<float> x = reals(static_cast<std::size_t>(kMany * w->cols), 10);
    std::vector<std::byte> packed(team_.unit().packed_bytes(*w));
    if (!packed.empty()) run(team_.unit(), std::vector<Op>{PackOp{w, packed.data()}});
    std::vector<float> singly(static_cast<std::size_t>(kMany * w->rows));
    std::vector<Op> ops;
    for (std::int64_t t = 0; t < kMany; ++t)
      ops.push_back(LinearOp{
          &x[static_cast<std::size_t>(t * w->cols)], 1, w->cols, {{{w, &singly[static_cast<std::size_t>(t * w->rows)]}, {}, {}}}, false});
    run(team_.unit(), ops);
    for (const bool pack : {false, true}) {
      w->packed = pack && !packed.empty() ? packed.data() : nullptr;
      for (const std::int64_t tokens : {3, 40}) {
        std::vector<float> together(singly.size(), 9.0f);
        run(team_.unit(), std::vector<Op>{LinearOp{x.data(), tokens, w->cols, {{{w, together.data()}, {}, {}}}, false}});
        EXPECT_TRUE(std::equal(together.begin(), together.begin() + tokens * w->rows, singly.begin()))
            << tokens << " tokens of " << w->cols << ", packed " << pack;
      }
    }
  }
}

TEST_P(CpuUnitOf, EmbedAndGather_copyTheRowsAskedFor) {
  constexpr std::int64_t kDim = 20, kRows = 11;
  const std::vector<float> table = reals(kDim * kRows, 4);
  const Matrix embedding = matrix(table, kRows, kDim);
  for (const std::size_t count : {0u, 1u, 2u, 7u, 9u}) {
    std::vector<std::int32_t> tokens, rows;
    for (std::size_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<std::int32_t>((i * 7 + 3) % kRows));
      rows.push_back(static_cast<std::int32_t>(count - 1 - i));
    }
    std::vector<float> x(count * kDim, -1), out(count * kDim, -1);
    run(team_.unit(), std::vector<Op>{EmbedOp{&embedding, tokens, x.data()}, GatherOp{x.data(), kDim, rows, out.data()}});
    for (std::size_t i = 0; i < count; ++i) {
      const auto token = static_cast<std::size_t>(tokens[count - 1 - i]);
      EXPECT_TRUE(std::equal(out.begin() + static_cast<std::ptrdiff_t>(i * kDim), out.begin() + static_cast<std::ptrdiff_t>((i + 1) * kDim),
                             table.begin() + static_cast<std::ptrdiff_t>(token * kDim)))
          << "row " << i << " of " << count;
    }
  }
}

TEST_P(CpuUnitOf, Linear_makesItsInputOfWholeRowsWhateverTheirLength) {
  constexpr std::size_t kTokens = 3;
  for (const std::size_t cols : {1u, 15u, 16u, 31u, 65u, 200u}) {
    const std::size_t count = kTokens * cols;
    const std::vector<float> x = reals(count, 5), up = reals(count, 6), norm = reals(cols, 7), ones(cols, 1.0f);
    const Matrix sum = matrix(ones, 1, static_cast<std::int64_t>(cols));
    const auto made = [&](LinearOp op) {
      std::vector<float> input(count + 1, 77.0f), y(kTokens);
      op.input = input.data();
      op.parts[0] = {&sum, y.data()};
      run(team_.unit(), std::vector<Op>{op});
      for (std::size_t t = 0; t < kTokens; ++t)
        EXPECT_NEAR(y[t], std::accumulate(&input[t * cols], &input[(t + 1) * cols], 0.0), 1e-4) << "the products take it";
      EXPECT_EQ(input[count], 77.0f);
      return input;
    };
    const LinearOp op{x.data(), kTokens, static_cast<std::int64_t>(cols), {}, false};
    LinearOp of_norm = op, of_gate = op;
    of_norm.norm = norm.data(), of_norm.epsilon = 1e-5f, of_gate.up = up.data();
    const std::vector<float> normed = made(of_norm), gated = made(of_gate);
    for (std::size_t i = 0; i < count; ++i) {
      const float* row = &x[i / cols * cols];
      const double rms = std::sqrt(std::inner_product(row, row + cols, row, 0.0) / static_cast<double>(cols) + 1e-5);
      EXPECT_NEAR(normed[i], x[i] / rms * norm[i % cols], 1e-5) << i << " of " << count;
      EXPECT_NEAR(gated[i], x[i] / (1 + std::exp(-x[i])) * up[i], 1e-5) << i << " of " << count;
    }
  }
}

/// Buffers and operations of one decoder layer over a few tokens.
struct Layer {
  static constexpr std::int64_t kDim = 128, kFfn = 160, kHeads = 4, kKvHeads = 2, kHeadDim = 32, kRotary = 8, kTokens = 5, kCells = 8;

  explicit Layer(TensorType type = TensorType::F16) {
    cells = {6, 2, 3, 7, 0};
    for (std::size_t t = 0; t < kTokens; ++t) visible[t] = std::span(cells).first(t + 1);
    const std::size_t cell_bytes = kHeadDim / traits(type).block_elements * traits(type).block_bytes;
    for (std::int64_t head = 0; head < kKvHeads; ++head) {
      planes_k.emplace_back(kCells * cell_bytes);
      planes_v.emplace_back(kCells * cell_bytes);
    }
    for (std::size_t head = 0; head < kKvHeads; ++head) {
      cache_k.push_back(planes_k[head].data());
      cache_v.push_back(planes_v[head].data());
    }
    ops.push_back(LinearOp{
        x.data(), kTokens, kDim, {{{&w_q, q.data()}, {&w_k, k.data()}, {&w_v, v.data()}}}, false, norm.data(), 1e-5f, nullptr, h.data()});
    ops.push_back(StoreOp{q.data(), k.data(), v.data(), kTokens, kHeads, kKvHeads, kHeadDim, kRotary, type == TensorType::F32,
                          angles.data(), cells.data(), cache_k.data(), cache_v.data(), type, type});
    ops.push_back(AttentionOp{q.data(), kTokens, kHeads, kKvHeads, kHeadDim, 0.25f, visible, cache_k.data(), cache_v.data(), type, type,
                              attention.data()});
    ops.push_back(LinearOp{attention.data(), kTokens, kDim, {{{&w_o, x.data()}, {}, {}}}, true});
    ops.push_back(LinearOp{x.data(), kTokens, kDim, {{{&w_gate, gate.data()}, {&w_up, up.data()}, {}}}, false});
    ops.push_back(LinearOp{gate.data(), kTokens, kFfn, {{{&w_down, x.data()}, {}, {}}}, true, nullptr, 0, up.data(), gate.data()});
  }

  static Matrix quantized(const std::vector<std::byte>& bytes, std::int64_t rows, std::int64_t cols) {
    return {TensorType::Q8_0, rows, cols, bytes.data(), static_cast<std::size_t>(cols / 32 * 34)};
  }

  static constexpr std::int64_t kKvDim = kKvHeads * kHeadDim;
  const std::vector<std::byte> data_q = q8_0(kDim, kDim, 10), data_k = q8_0(kKvDim, kDim, 11), data_v = q8_0(kKvDim, kDim, 12),
                               data_o = q8_0(kDim, kDim, 13), data_gate = q8_0(kFfn, kDim, 14), data_down = q8_0(kDim, kFfn, 15);
  const std::vector<float> data_up = reals(kFfn * kDim, 16);  // floats beside quantized weights in one operation
  const Matrix w_q = quantized(data_q, kDim, kDim), w_k = quantized(data_k, kKvDim, kDim), w_v = quantized(data_v, kKvDim, kDim),
               w_o = quantized(data_o, kDim, kDim), w_gate = quantized(data_gate, kFfn, kDim), w_up = matrix(data_up, kFfn, kDim),
               w_down = quantized(data_down, kDim, kFfn);
  std::vector<float> x = reals(kTokens * kDim, 20), h = x, q = x, attention = x, norm = reals(kDim, 21),
                     angles = reals(kTokens * kRotary, 22);
  std::vector<float> k = std::vector<float>(kTokens * kKvDim), v = k;
  std::vector<float> gate = std::vector<float>(kTokens * kFfn), up = gate;
  std::vector<std::int32_t> cells;
  std::span<const std::int32_t> visible[kTokens];
  std::vector<std::vector<std::byte>> planes_k, planes_v;
  std::vector<void*> cache_k, cache_v;
  std::vector<Op> ops;
};

TEST_P(CpuUnitOf, WholeLayer_givesTheBitsOfOneThread) {
  for (const TensorType type : {TensorType::F32, TensorType::F16, TensorType::Q8_0}) {
    Layer expected(type), found(type);
    Team alone(1);
    run(alone.unit(), expected.ops);
    run(team_.unit(), found.ops);
    EXPECT_NE(expected.x, Layer(type).x);
    for (const float value : expected.x) ASSERT_TRUE(std::isfinite(value));
    EXPECT_EQ(found.x, expected.x);
    EXPECT_EQ(found.attention, expected.attention);
    EXPECT_EQ(found.planes_k, expected.planes_k);
    EXPECT_EQ(found.planes_v, expected.planes_v);
  }
}

TEST_P(CpuUnitOf, Progress_countsOperationsOverAllRuns) {
  Layer layer;
  CpuUnit& unit = team_.unit();
  EXPECT_EQ(unit.threads(), GetParam());
  EXPECT_EQ(unit.progress(), 0u);
  EXPECT_TRUE(unit.finished());
  EXPECT_EQ(unit.busy_seconds(), 0.0);
  double busy = 0;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    run(unit, layer.ops);
    EXPECT_TRUE(unit.finished());
    EXPECT_EQ(unit.progress(), round * layer.ops.size());
    EXPECT_GT(unit.busy_seconds(), busy);
    busy = unit.busy_seconds();
    EXPECT_TRUE(unit.wait_for(std::chrono::microseconds(0)));
    EXPECT_EQ(unit.busy_seconds(), busy);  // counted once
  }
  run(unit, {});
  EXPECT_EQ(unit.progress(), 3 * layer.ops.size());
}

TEST_P(CpuUnitOf, RaisedStop_skipsTheRestAtTheNextBoundary) {
  Layer stopped, expected;
  CpuUnit& unit = team_.unit();
  const std::atomic<bool> stop{true}, go{false};
  run(unit, stopped.ops, &stop);
  EXPECT_EQ(unit.progress(), 1u);
  run(unit, std::span(expected.ops).first(1));
  EXPECT_EQ(stopped.k, expected.k);                // the operation under way is completed
  EXPECT_EQ(stopped.planes_k, expected.planes_k);  // and the next not begun
  run(unit, stopped.ops, &go);
  run(unit, expected.ops);
  EXPECT_EQ(stopped.x, expected.x);
}

TEST_P(CpuUnitOf, StopRaisedMeanwhile_endsAtAnOperationOnAllThreadsAlike) {
  CpuUnit& unit = team_.unit();
  const std::vector<float> x(64, 1.0f);
  std::vector<float> y(64);
  const std::vector<std::int32_t> rows{0};
  const std::vector<Op> ops(200, GatherOp{x.data(), 64, rows, y.data()});
  for (std::uint64_t after = 0; after < 20; ++after) {
    std::atomic<bool> stop{false};
    const std::uint64_t before = unit.progress();
    unit.start(ops, &stop);
    while (unit.progress() < before + after && !unit.finished()) {
    }
    stop = true;
    finish(unit);
    EXPECT_GE(unit.progress(), before + std::max<std::uint64_t>(1, after));
    EXPECT_LE(unit.progress(), before + ops.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuUnitOf, testing::Values(1, 2, 3, 4, 8));

TEST(CpuUnit, MemoryThatCannotBeHad_isThrownByStartAndLeavesTheUnitUsable) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer ends the program where memory is refused";
#endif
  Layer layer, expected;
  Team team(2), alone(1);
  const std::vector<Op> ops{LinearOp{layer.x.data(), std::int64_t{1} << 54, 256, {{{&layer.w_q, layer.q.data()}, {}, {}}}, false}};
  EXPECT_THROW(team.unit().start(ops, nullptr), std::bad_alloc);
  EXPECT_TRUE(team.unit().finished());
  run(team.unit(), layer.ops);
  run(alone.unit(), expected.ops);
  EXPECT_EQ(layer.x, expected.x);
}

}  // namespace
}  // namespace yamata
