#pragma once
// Operations of layers that differ from Llama's, and their memory, for tests of compute units.
#include <vector>

#include "tests/node/unit_scene.hpp"

namespace yamata {

/// Memory for the experts that a router chooses for one token.
struct ChosenExperts {
  ChosenExperts(std::size_t number, std::size_t used) : weights(used), pairs(used), tokens(used), chosen(used), first(number + 1) {}
  ExpertChoice choice() {
    return {.experts = std::ssize(first) - 1,
            .used = std::ssize(chosen),
            .weights = weights.data(),
            .pairs = pairs.data(),
            .tokens = tokens.data(),
            .chosen = chosen.data(),
            .first = first.data()};
  }

  std::vector<float> weights;
  std::vector<std::int32_t> pairs, tokens, chosen, first;
};

/// A norm, a router, its experts, and the addition to the residual stream, for a few tokens.
struct Mixture {
  static constexpr std::int64_t kTokens = 5, kDim = 96, kFfn = 64, kExperts = 7, kUsed = 3, kPairs = kTokens * kUsed;

  /// `type`: of the experts, F32 or Q8_0.
  explicit Mixture(TensorType type) {
    for (unsigned e = 0; e < kExperts; ++e) {
      add(type, gates, kFfn, kDim, 100 + e);
      add(type, ups, kFfn, kDim, 200 + e);
      add(type, downs, kDim, kFfn, 300 + e);
    }
    choice = {.experts = kExperts,
              .used = kUsed,
              .weights = weights.data(),
              .pairs = pairs.data(),
              .tokens = tokens.data(),
              .chosen = chosen.data(),
              .first = first.data()};
    ops.push_back(NormOp{.x = x.data(),
                         .rows = kTokens,
                         .cols = kDim,
                         .x_stride = kDim,
                         .weight = norm.data(),
                         .bias = norm_bias.data(),
                         .centered = true,
                         .epsilon = 1e-5f,
                         .out = normed.data(),
                         .out_cols = kDim,
                         .out_stride = kDim});
    ops.push_back(LinearOp{normed.data(), kTokens, kDim, {{{&router, logits.data(), 0, router_bias.data()}, {}, {}}}, false});
    ops.push_back(RouterOp{
        .logits = logits.data(), .rows = kTokens, .kind = RouterKind::kSoftmax, .normalize = true, .scale = 1.5f, .choice = choice});
    LinearOp gate{normed.data(), kPairs, kDim, {{{gates.data(), g.data(), 0, gate_bias.data(), kFfn}, {ups.data(), u.data()}, {}}}, false};
    gate.input = input.data(), gate.experts = choice, gate.x_of_tokens = true;
    LinearOp down{g.data(), kPairs, kFfn, {{{downs.data(), results.data()}, {}, {}}}, false};
    down.up = u.data(), down.input = g.data(), down.activation = Activation::kGeluTanh, down.experts = choice;
    ops.push_back(gate);
    ops.push_back(down);
    ops.push_back(AddOp{.to = y.data(),
                        .from = results.data(),
                        .rows = kTokens,
                        .cols = kDim,
                        .to_stride = kDim,
                        .from_stride = kDim,
                        .scale = 0.5f,
                        .experts = choice});
    ops.push_back(AddOp{.to = y.data(),
                        .from = normed.data(),
                        .rows = kTokens,
                        .cols = kDim,
                        .to_stride = kDim,
                        .from_stride = kDim,
                        .scale = 0.5f,
                        .gate = gate_score.data()});
    ops.push_back(ScaleOp{.x = y.data(), .n = kTokens * kDim, .scale = 2.0f, .cap = 5.0f});
  }

  void add(TensorType type, std::vector<Matrix>& experts, std::int64_t rows, std::int64_t cols, unsigned seed) {
    if (type == TensorType::F32) {
      floats.push_back(reals(static_cast<std::size_t>(rows * cols), seed));
      experts.push_back(matrix(floats.back(), rows, cols));
    } else {
      blocks.push_back(q8_0(rows, cols, seed));
      experts.push_back(Layer::quantized(blocks.back(), rows, cols));
    }
  }

  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::byte>> blocks;
  std::vector<Matrix> gates, ups, downs;
  const std::vector<float> x = reals(kTokens * kDim, 1), norm = reals(kDim, 2), norm_bias = reals(kDim, 3);
  const std::vector<float> router_floats = reals(kExperts * kDim, 4), router_bias = reals(kExperts, 5),
                           gate_bias = reals(kExperts * kFfn, 6), gate_score = reals(kTokens, 7);
  const Matrix router = matrix(router_floats, kExperts, kDim);
  std::vector<float> normed = x, y = x, logits = std::vector<float>(kTokens * kExperts), weights = std::vector<float>(kPairs);
  std::vector<float> g = std::vector<float>(kPairs * kFfn), u = g, input = std::vector<float>(kPairs * kDim), results = input;
  std::vector<std::int32_t> pairs = std::vector<std::int32_t>(kPairs), tokens = pairs, chosen = pairs,
                            first = std::vector<std::int32_t>(kExperts + 1);
  ExpertChoice choice;
  std::vector<Op> ops;
};

}  // namespace yamata
