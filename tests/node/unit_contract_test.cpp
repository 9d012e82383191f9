// The contract of compute units: every operation is divided among them, each result is computed once, with the same bits as the scalar
// kernels on one thread; stops at operation boundaries; errors; memory. Every unit must pass these tests (unit_contract.hpp).
#include "tests/node/unit_contract.hpp"

#include <cmath>
#include <numeric>

#include "node/error.hpp"
#include "tests/node/unit_scene.hpp"

namespace yamata::unit_contract {
namespace {

TEST_P(UnitContract, Linear_addsEveryProductOnceForAnyNumberOfRows) {
  constexpr std::int64_t kCols = 48, kTokens = 3;
  const std::vector<float> x = whole_numbers(kTokens * kCols, 1);
  for (const std::int64_t rows : {1, 15, 16, 17, 33, 100}) {
    const std::vector<float> a = whole_numbers(static_cast<std::size_t>(rows * kCols), 2), b = whole_numbers(kCols, 3);
    const Matrix wide = matrix(a, rows, kCols), narrow = matrix(b, 1, kCols);
    std::vector<float> y(static_cast<std::size_t>(kTokens * rows), 1000.0f), z(kTokens, 5.0f);
    for (const bool add : {false, true}) {
      const std::vector<Op> ops{LinearOp{x.data(), kTokens, kCols, {{{&wide, y.data()}, {}, {&narrow, z.data()}}}, add}};
      run(unit(), ops);
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

TEST_P(UnitContract, Linear_inManyPiecesGivesTheBitsOfEachTokenAloneOnTheReference) {
  constexpr std::int64_t kMany = 40;
  const std::vector<float> floats = reals(256 * 1024, 8);
  const std::vector<std::byte> bytes = q8_0(1600, 96, 9);
  Matrix wide = matrix(floats, 256, 1024), tall{TensorType::Q8_0, 1600, 96, bytes.data(), 96 / 32 * 34};
  for (Matrix* w : {&wide, &tall}) {
    const std::vector<float> x = reals(static_cast<std::size_t>(kMany * w->cols), 10);
    std::vector<std::byte> packed(unit().packed_bytes(*w));
    if (!packed.empty()) run(unit(), std::vector<Op>{PackOp{w, packed.data()}});
    std::vector<float> singly(static_cast<std::size_t>(kMany * w->rows));
    std::vector<Op> ops;
    for (std::int64_t t = 0; t < kMany; ++t)
      ops.push_back(LinearOp{
          &x[static_cast<std::size_t>(t * w->cols)], 1, w->cols, {{{w, &singly[static_cast<std::size_t>(t * w->rows)]}, {}, {}}}, false});
    run(reference(), ops);
    for (const bool pack : {false, true}) {
      w->packed = pack && !packed.empty() ? packed.data() : nullptr;
      for (const std::int64_t tokens : {3, 40}) {
        std::vector<float> together(singly.size(), 9.0f);
        run(unit(), std::vector<Op>{LinearOp{x.data(), tokens, w->cols, {{{w, together.data()}, {}, {}}}, false}});
        EXPECT_TRUE(std::equal(together.begin(), together.begin() + tokens * w->rows, singly.begin()))
            << tokens << " tokens of " << w->cols << ", packed " << pack;
      }
    }
  }
}

TEST_P(UnitContract, EmbedAndGather_copyTheRowsAskedFor) {
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
    run(unit(), std::vector<Op>{EmbedOp{&embedding, tokens, x.data()}, GatherOp{x.data(), kDim, rows, out.data()}});
    for (std::size_t i = 0; i < count; ++i) {
      const auto token = static_cast<std::size_t>(tokens[count - 1 - i]);
      EXPECT_TRUE(std::equal(out.begin() + static_cast<std::ptrdiff_t>(i * kDim), out.begin() + static_cast<std::ptrdiff_t>((i + 1) * kDim),
                             table.begin() + static_cast<std::ptrdiff_t>(token * kDim)))
          << "row " << i << " of " << count;
    }
  }
}

TEST_P(UnitContract, Linear_makesItsInputOfWholeRowsWhateverTheirLength) {
  constexpr std::size_t kTokens = 3;
  for (const std::size_t cols : {1u, 15u, 16u, 31u, 65u, 200u}) {
    const std::size_t count = kTokens * cols;
    const std::vector<float> x = reals(count, 5), up = reals(count, 6), norm = reals(cols, 7), ones(cols, 1.0f);
    const Matrix sum = matrix(ones, 1, static_cast<std::int64_t>(cols));
    const auto made = [&](LinearOp op) {
      std::vector<float> input(count + 1, 77.0f), y(kTokens);
      op.input = input.data();
      op.parts[0] = {&sum, y.data()};
      run(unit(), std::vector<Op>{op});
      for (std::size_t t = 0; t < kTokens; ++t)
        EXPECT_NEAR(y[t], std::accumulate(&input[t * cols], &input[(t + 1) * cols], 0.0), 1e-4) << "the products take it";
      EXPECT_EQ(input[count], 77.0f);
      return input;
    };
    const LinearOp op{x.data(), kTokens, static_cast<std::int64_t>(cols), {}, false};
    LinearOp of_norm = op, of_gate = op;
    of_norm.norm = norm.data(), of_norm.epsilon = 1e-5f, of_gate.up = up.data(), of_gate.activation = Activation::kSilu;
    const std::vector<float> normed = made(of_norm), gated = made(of_gate);
    for (std::size_t i = 0; i < count; ++i) {
      const float* row = &x[i / cols * cols];
      const double rms = std::sqrt(std::inner_product(row, row + cols, row, 0.0) / static_cast<double>(cols) + 1e-5);
      EXPECT_NEAR(normed[i], x[i] / rms * norm[i % cols], 1e-5) << i << " of " << count;
      EXPECT_NEAR(gated[i], x[i] / (1 + std::exp(-x[i])) * up[i], 1e-5) << i << " of " << count;
    }
  }
}

TEST_P(UnitContract, WholeLayer_givesTheBitsOfTheReference) {
  for (const TensorType type : {TensorType::F32, TensorType::F16, TensorType::Q8_0}) {
    Layer expected(type), found(type);
    run(reference(), expected.ops);
    run(unit(), found.ops);
    EXPECT_NE(expected.x, Layer(type).x);
    for (const float value : expected.x) ASSERT_TRUE(std::isfinite(value));
    EXPECT_EQ(found.x, expected.x);
    EXPECT_EQ(found.attention, expected.attention);
    EXPECT_EQ(found.planes_k, expected.planes_k);
    EXPECT_EQ(found.planes_v, expected.planes_v);
  }
}

TEST_P(UnitContract, Progress_countsOperationsOverAllRuns) {
  Layer layer;
  ComputeUnit& unit = this->unit();
  EXPECT_EQ(unit.threads(), GetParam().threads);
  EXPECT_FALSE(unit.device().empty());
  EXPECT_FALSE(unit.isa().empty());
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

TEST_P(UnitContract, RaisedStop_skipsTheRestAtTheNextBoundary) {
  Layer stopped, expected;
  ComputeUnit& unit = this->unit();
  const std::atomic<bool> stop{true}, go{false};
  run(unit, stopped.ops, &stop);
  if (GetParam().leaves_at_barriers) {
    EXPECT_TRUE(unit.was_stopped());
    EXPECT_LT(unit.progress(), stopped.ops.size());
    EXPECT_EQ(stopped.x, expected.x);
  } else {
    EXPECT_EQ(unit.progress(), 1u);
    run(unit, std::span(expected.ops).first(1));
    EXPECT_EQ(stopped.k, expected.k);                // the current operation is completed
    EXPECT_EQ(stopped.planes_k, expected.planes_k);  // and the next is not begun
  }
  run(unit, stopped.ops, &go);
  run(unit, expected.ops);
  EXPECT_EQ(stopped.x, expected.x);
}

TEST_P(UnitContract, StopRaisedMeanwhile_endsAtAnOperationOnAllThreadsAlike) {
  ComputeUnit& unit = this->unit();
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

/// Queries of 3 rows over a cache of about 700 cells; each row sees different cells.
struct AttentionScene {
  static constexpr std::int64_t kRows = 3, kHeads = 6, kKvHeads = 2, kHeadDim = 32, kCells = 700, kSegments = 3;

  explicit AttentionScene(TensorType type) : type(type) {
    const std::size_t cell_bytes = kHeadDim / traits(type).block_elements * traits(type).block_bytes;
    for (auto* planes : {&k, &v}) {
      for (std::int64_t head = 0; head < kKvHeads; ++head)
        planes->push_back(plane(cell_bytes, static_cast<unsigned>(planes == &k ? head : 9 + head)));
    }
    for (std::size_t head = 0; head < kKvHeads; ++head) cache_k.push_back(k[head].data()), cache_v.push_back(v[head].data());
    for (const std::int32_t count : {700, 0, 513}) {
      auto& row = cells.emplace_back();
      for (std::int32_t i = 0; i < count; ++i) row.push_back((i * 3) % static_cast<std::int32_t>(kCells));
    }
    for (const auto& row : cells) visible.emplace_back(row);
  }
  std::vector<std::byte> plane(std::size_t cell_bytes, unsigned seed) const {
    std::vector<std::byte> bytes(kCells * cell_bytes);
    if (type == TensorType::Q8_0) return q8_0(kCells, kHeadDim, seed);
    const std::vector<float> values = reals(kCells * kHeadDim, seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t half = cpu::f32_to_f16(values[i]);
      type == TensorType::F32 ? std::memcpy(&bytes[4 * i], &values[i], 4) : std::memcpy(&bytes[2 * i], &half, 2);
    }
    return bytes;
  }
  AttentionOp op(std::vector<float>& out) {
    return {q.data(), kRows, kHeads, kKvHeads, kHeadDim, 0.25f, visible.data(), cache_k.data(), cache_v.data(), type, type, out.data()};
  }

  TensorType type;
  std::vector<std::vector<std::byte>> k, v;
  std::vector<void*> cache_k, cache_v;
  std::vector<std::vector<std::int32_t>> cells;
  std::vector<std::span<const std::int32_t>> visible;
  std::vector<float> q = reals(kRows * kHeads * kHeadDim, 30);
};

TEST_P(UnitContract, AttentionInParts_isTheWholeAttentionBitForBit) {
  using S = AttentionScene;
  for (const TensorType type : {TensorType::F32, TensorType::F16, TensorType::Q8_0}) {
    AttentionScene scene(type);
    std::vector<float> whole(scene.q.size(), 9.0f), fused = whole;
    run(reference(), std::vector<Op>{scene.op(whole)});
    run(unit(), std::vector<Op>{scene.op(fused)});
    EXPECT_EQ(fused, whole);
    for (const auto& cuts : std::vector<std::vector<std::int64_t>>{{0, 3}, {0, 1, 3}, {0, 2, 3}, {0, 1, 2, 3}}) {
      std::vector<float> out(whole.size(), 9.0f), parts(S::kSegments * whole.size(), 7.0f), peak(S::kSegments * S::kRows * S::kHeads, 7.0f),
          total = peak;
      std::vector<Op> ops;
      for (std::size_t i = cuts.size() - 1; i > 0; --i) {  // in any order
        const auto first = static_cast<std::size_t>(cuts[i - 1]);
        ops.push_back(AttentionPartOp{scene.op(out),
                                      {cuts[i - 1], cuts[i], &parts[first * whole.size()], &peak[first * S::kRows * S::kHeads],
                                       &total[first * S::kRows * S::kHeads]}});
      }
      ops.push_back(MergeAttentionOp{scene.op(out), {0, S::kSegments, parts.data(), peak.data(), total.data()}});
      run(unit(), ops);
      EXPECT_EQ(out, whole) << cuts.size() - 1 << " parts of " << traits(type).name;
    }
  }
}

TEST_P(UnitContract, Claim_isGivenToOneAtATime) {
  EXPECT_TRUE(unit().claim());
  EXPECT_FALSE(unit().claim());
  unit().release();
  EXPECT_TRUE(unit().claim());
}

TEST_P(UnitContract, EndOfAList_isToldUntilNobodyListens) {
  Layer layer;
  std::atomic<int> told{0};
  unit().when_finished([&] { ++told; });
  run(unit(), layer.ops);
  unit().when_finished(nullptr);
  EXPECT_EQ(told, 1);
  run(unit(), layer.ops);
  EXPECT_EQ(told, 1);
}

TEST_P(UnitContract, Buffers_areZerosThatHoldWhatIsWritten) {
  for (const BufferUse use : {BufferUse::kActivations, BufferUse::kIntermediate, BufferUse::kWeights, BufferUse::kCache}) {
    const auto buffer = unit().allocate(100'000, use);
    const auto bytes = buffer->host();
    ASSERT_EQ(bytes.size(), 100'000u);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::ranges::fill(bytes, std::byte{3});
    EXPECT_EQ(buffer->host()[99'999], std::byte{3});
  }
  FloatBuffer floats(unit());
  floats.reserve(10);
  floats.reserve(4);
  EXPECT_EQ(floats.size(), 10u) << "it is large enough";
  floats.reserve(1000);
  EXPECT_EQ(floats.size(), 1000u);
}

INSTANTIATE_TEST_SUITE_P(Units, UnitContract, testing::ValuesIn(unit_makers()), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace yamata::unit_contract
