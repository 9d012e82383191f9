// Experts, routers, norms and additions: the same bits with every instruction set and number of threads, and correct values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "node/cpu/cpu_unit.hpp"
#include "tests/node/mixture_scene.hpp"

namespace yamata {
namespace {

using M = Mixture;

void run_scalar(std::span<const Op> ops) {
  CpuUnit unit({-1}, cpu::Isa::kScalar);
  run(unit, ops);
}

TEST(MixtureOps, EveryUnit_givesTheBitsOfTheReference) {
  for (const TensorType type : {TensorType::F32, TensorType::Q8_0}) {
    M expected(type);
    run_scalar(expected.ops);
    for (const float value : expected.y) ASSERT_TRUE(std::isfinite(value));
    for (const cpu::Isa isa : {cpu::Isa::kScalar, cpu::Isa::kAvx2, cpu::Isa::kAvxVnni, cpu::Isa::kAvx512, cpu::Isa::kNeon,
                               cpu::Isa::kNeonDotprod, cpu::Isa::kNeonI8mm}) {
      if (!cpu::isa_usable(isa)) continue;
      for (const std::size_t threads : {1, 2, 3, 8}) {
        M found(type);
        CpuUnit unit(std::vector<int>(threads, -1), isa);
        run(unit, found.ops);
        EXPECT_EQ(found.logits, expected.logits) << cpu::isa_name(isa) << " " << threads;
        EXPECT_EQ(found.pairs, expected.pairs);
        EXPECT_EQ(found.y, expected.y) << cpu::isa_name(isa) << " " << threads;
      }
    }
  }
}

/// A token's result does not depend on the other tokens of the run.
TEST(MixtureOps, TokensTogether_giveTheBitsOfEachAlone) {
  for (const TensorType type : {TensorType::F32, TensorType::Q8_0}) {
    M together(type);
    run_scalar(together.ops);
    for (std::size_t t = 0; t < M::kTokens; ++t) {
      M alone(type);
      for (Op& op : alone.ops) {
        std::visit(
            [&](auto& o) {
              if constexpr (requires { o.rows += 1; }) o.rows = o.rows == M::kPairs ? M::kUsed : 1;
              if constexpr (requires { o.n += 1; }) o.n = M::kDim;
            },
            op);
      }
      std::get<NormOp>(alone.ops[0]).x = alone.x.data() + t * M::kDim;
      std::copy_n(alone.x.begin() + static_cast<std::ptrdiff_t>(t * M::kDim), M::kDim, alone.y.begin());
      std::get<AddOp>(alone.ops[6]).gate = &alone.gate_score[t];
      run_scalar(alone.ops);
      EXPECT_TRUE(std::equal(alone.y.begin(), alone.y.begin() + M::kDim, together.y.begin() + static_cast<std::ptrdiff_t>(t * M::kDim)))
          << t;
    }
  }
}

/// Compares with double precision, from the floats of the operation before.
TEST(MixtureOps, EachOperation_isWhatItSays) {
  M m(TensorType::F32);
  run_scalar(m.ops);
  const auto at = [](const auto& values, std::int64_t i) { return static_cast<double>(values[static_cast<std::size_t>(i)]); };
  for (std::int64_t t = 0; t < M::kTokens; ++t) {
    double mean = 0, square = 0;
    for (std::int64_t i = 0; i < M::kDim; ++i) mean += at(m.x, t * M::kDim + i) / M::kDim;
    for (std::int64_t i = 0; i < M::kDim; ++i) square += std::pow(at(m.x, t * M::kDim + i) - mean, 2) / M::kDim;
    for (std::int64_t i = 0; i < M::kDim; ++i) {
      const double normed = (at(m.x, t * M::kDim + i) - mean) / std::sqrt(square + 1e-5) * at(m.norm, i) + at(m.norm_bias, i);
      EXPECT_NEAR(at(m.normed, t * M::kDim + i), normed, 1e-5);
    }
    std::vector<std::pair<double, std::int64_t>> p;
    double total = 0;
    for (std::int64_t e = 0; e < M::kExperts; ++e) {
      double logit = at(m.router_bias, e);
      for (std::int64_t i = 0; i < M::kDim; ++i) logit += at(m.router_floats, e * M::kDim + i) * at(m.normed, t * M::kDim + i);
      EXPECT_NEAR(at(m.logits, t * M::kExperts + e), logit, 1e-4);
      p.emplace_back(-std::exp(logit), e);
    }
    std::sort(p.begin(), p.end());
    for (std::int64_t s = 0; s < M::kUsed; ++s) total -= p[static_cast<std::size_t>(s)].first;
    std::vector<double> sum(M::kDim);
    for (std::int64_t s = 0; s < M::kUsed; ++s) {
      const auto [power, expert] = p[static_cast<std::size_t>(s)];
      const std::int32_t pair = m.pairs[static_cast<std::size_t>(t * M::kUsed + s)];
      EXPECT_EQ(m.chosen[static_cast<std::size_t>(pair)], expert);
      EXPECT_EQ(m.tokens[static_cast<std::size_t>(pair)], t);
      EXPECT_NEAR(at(m.weights, t * M::kUsed + s), 1.5 * -power / total, 1e-5);
      for (std::int64_t i = 0; i < M::kDim; ++i)
        sum[static_cast<std::size_t>(i)] += at(m.weights, t * M::kUsed + s) * at(m.results, pair * M::kDim + i);
    }
    for (std::int64_t i = 0; i < M::kDim; ++i) {
      const double gate = 1 / (1 + std::exp(-at(m.gate_score, t)));
      const double y = at(m.x, t * M::kDim + i) + 0.5 * sum[static_cast<std::size_t>(i)] + 0.5 * gate * at(m.normed, t * M::kDim + i);
      EXPECT_NEAR(at(m.y, t * M::kDim + i), 5 * std::tanh(2 * y / 5), 2e-5);
    }
  }
  for (std::int64_t pair = 0; pair < M::kPairs; ++pair) {  // the gate's product with its bias, and its activation
    const auto expert = static_cast<std::size_t>(m.chosen[static_cast<std::size_t>(pair)]);
    const std::int64_t token = m.tokens[static_cast<std::size_t>(pair)];
    for (std::int64_t r = 0; r < M::kDim; r += 17) {
      double result = 0;
      for (std::int64_t f = 0; f < M::kFfn; ++f) {
        double gate = at(m.gate_bias, static_cast<std::int64_t>(expert) * M::kFfn + f), up = 0;
        for (std::int64_t i = 0; i < M::kDim; ++i) {
          gate += at(m.floats[3 * expert], f * M::kDim + i) * at(m.normed, token * M::kDim + i);
          up += at(m.floats[3 * expert + 1], f * M::kDim + i) * at(m.normed, token * M::kDim + i);
        }
        const double gelu = 0.5 * gate * (1 + std::tanh(std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate)));
        result += at(m.floats[3 * expert + 2], r * M::kFfn + f) * gelu * up;
      }
      EXPECT_NEAR(at(m.results, pair * M::kDim + r), result, 1e-3 + 1e-5 * std::abs(result));
    }
  }
}

TEST(MixtureOps, EqualProbabilities_goToTheFirst_andABiasCountsForTheChoiceOnly) {
  const std::vector<float> logits{1, 3, 2, 3, 3}, bias{9, 0, 0, 0, 0};
  ChosenExperts found(5, 3);
  RouterOp op{.logits = logits.data(), .rows = 1, .kind = RouterKind::kSigmoid, .normalize = false, .choice = found.choice()};
  run_scalar(std::vector<Op>{op});
  EXPECT_EQ(found.chosen, (std::vector<std::int32_t>{1, 3, 4}));
  EXPECT_EQ(found.pairs, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_NEAR(found.weights[0], 1 / (1 + std::exp(-3.0)), 1e-6);
  op.bias = bias.data();
  run_scalar(std::vector<Op>{op});
  EXPECT_EQ(found.chosen, (std::vector<std::int32_t>{0, 1, 3}));
  EXPECT_NEAR(found.weights[0], 1 / (1 + std::exp(-1.0)), 1e-6);
  op.bias = nullptr, op.kind = RouterKind::kSoftmaxOfChosen;
  run_scalar(std::vector<Op>{op});
  EXPECT_NEAR(found.weights[0], 1.0 / 3, 1e-6);
}

TEST(MixtureOps, SigmoidsOfChosen_areChosenByLogits) {
  const std::vector<float> logits{60, 0.5f, 80, 70};  // the sigmoids of all but the second are 1
  ChosenExperts found(4, 2);
  run_scalar(std::vector<Op>{
      RouterOp{.logits = logits.data(), .rows = 1, .kind = RouterKind::kSigmoidOfChosen, .normalize = false, .choice = found.choice()}});
  EXPECT_EQ(found.chosen, (std::vector<std::int32_t>{2, 3}));
  EXPECT_NEAR(found.weights[0], 1, 1e-6);
}

/// A query, key and value of one head, and where they are stored.
struct OneHead {
  static constexpr std::int64_t kDim = 32;
  std::vector<float> q = reals(kDim, 1), k = reals(kDim, 2), v = reals(kDim, 3);
  std::vector<float> k_plane = std::vector<float>(kDim), v_plane = std::vector<float>(kDim);
  std::int32_t cell = 0;
  void *k_cells = k_plane.data(), *v_cells = v_plane.data();

  /// `angles`: [kDim / 2] cosines and sines.
  StoreOp op(const std::vector<float>& angles) {
    return {.q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .rows = 1,
            .q_heads = 1,
            .kv_heads = 1,
            .head_dim = kDim,
            .rotary_dim = kDim,
            .interleaved = true,
            .cos_sin = angles.data(),
            .cells = &cell,
            .cache_k = &k_cells,
            .cache_v = &v_cells,
            .k_type = TensorType::F32,
            .v_type = TensorType::F32,
            .epsilon = 1e-5f};
  }
};

double rms(const std::vector<float>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / static_cast<double>(x.size()) + 1e-5);
}

TEST(StoreOp, NormsAfterRope_theScaleComesLast) {
  OneHead head;
  const std::vector<float> before = head.q, k_before = head.k, weight = reals(OneHead::kDim, 4), scale{3};
  std::vector<float> turned(OneHead::kDim);
  for (std::size_t i = 1; i < turned.size(); i += 2) turned[i] = 1;  // sines of 1: a quarter
  StoreOp op = head.op(turned);
  op.q_norm = op.k_norm = weight.data(), op.norm_last = true, op.q_scale = scale.data();
  run_scalar(std::vector<Op>{op});
  for (std::size_t i = 0; i < weight.size(); i += 2) {
    EXPECT_NEAR(head.q[i], -before[i + 1] / rms(before) * weight[i] * 3, 1e-5);
    EXPECT_NEAR(head.q[i + 1], before[i] / rms(before) * weight[i + 1] * 3, 1e-5);
    EXPECT_NEAR(head.k_plane[i], -k_before[i + 1] / rms(k_before) * weight[i], 1e-5);
  }
  head.q = before, head.k = k_before;
  op.q_norm = op.k_norm = nullptr, op.q_scale = nullptr, op.unit_norm = true;
  run_scalar(std::vector<Op>{op});
  for (std::size_t i = 0; i < weight.size(); i += 2) {
    EXPECT_NEAR(head.q[i], -before[i + 1] / rms(before), 1e-5);
    EXPECT_NEAR(head.k_plane[i + 1], k_before[i] / rms(k_before), 1e-5);
  }
}

TEST(StoreOp, NormsHeadsBeforeTheyRotate) {
  OneHead head;
  const std::vector<float> before = head.q, k_before = head.k, weight = reals(OneHead::kDim, 4), k_weight(OneHead::kDim, 1.0f);
  std::vector<float> still(OneHead::kDim);
  for (std::size_t i = 0; i < still.size(); i += 2) still[i] = 1;  // cosines of 1: no rotation
  StoreOp op = head.op(still);
  op.interleaved = false, op.q_norm = weight.data(), op.k_norm = k_weight.data();
  run_scalar(std::vector<Op>{op});
  for (std::size_t i = 0; i < weight.size(); ++i) {
    EXPECT_NEAR(head.q[i], before[i] / rms(before) * weight[i], 1e-5);
    EXPECT_NEAR(head.k_plane[i], k_before[i] / rms(k_before), 1e-5);
  }
  EXPECT_EQ(head.v_plane, head.v);
}

}  // namespace
}  // namespace yamata
