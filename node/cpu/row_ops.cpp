#include "node/cpu/row_ops.hpp"

#include <algorithm>
#include <cmath>

namespace yamata::cpu {
namespace {

constexpr std::int64_t kPiece = 256;  // elements that stay in a cache between two passes
constexpr int kLanes = 8;

/// The sum of f(0), ..., f(n - 1): lane l adds f(l), f(l + 8), ...; then lanes 0 to 7 are added.
template <class Term>
double sum_of(std::int64_t n, Term f) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += f(i + l);
  }
  for (int l = 0; i + l < n; ++l) lanes[l] += f(i + l);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

float inverse_root(double squares, const NormOp& op) {
  return static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(op.cols) + static_cast<double>(op.epsilon)));
}

void rms_row(const KernelTable& kernels, const NormOp& op, const float* x, const float* weight, float* out) {
  const double squares = sum_of(op.cols, [&](std::int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
  kernels.scale_mul(x + op.out_begin, inverse_root(squares, op), weight + op.out_begin, op.out_cols, out);
}

void layer_row(const NormOp& op, const float* x, const float* weight, float* out) {
  const double mean = sum_of(op.cols, [&](std::int64_t i) { return static_cast<double>(x[i]); }) / static_cast<double>(op.cols);
  const double squares = sum_of(op.cols, [&](std::int64_t i) {
    const double away = static_cast<double>(x[i]) - mean;
    return away * away;
  });
  const float center = static_cast<float>(mean), factor = inverse_root(squares, op);
  const float* bias = op.bias ? op.bias + op.out_begin : nullptr;
  x += op.out_begin, weight += op.out_begin;
  for (std::int64_t i = 0; i < op.out_cols; ++i) {
    const float normed = (x[i] - center) * factor * weight[i];
    out[i] = bias ? normed + bias[i] : normed;
  }
}

float sigmoid(const KernelTable& kernels, float x) {
  const float negative = -x;
  float e = 0;
  kernels.exponentials(&negative, 1, &e);
  return 1.0f / (1.0f + e);
}

void sigmoids(const KernelTable& kernels, const float* x, std::int64_t n, float* p) {
  for (std::int64_t i = 0; i < n; ++i) p[i] = -x[i];
  kernels.exponentials(p, n, p);
  for (std::int64_t i = 0; i < n; ++i) p[i] = 1.0f / (1.0f + p[i]);
}

/// p = softmax(x), for n elements.
void softmax(const KernelTable& kernels, const float* x, std::int64_t n, float* p) {
  const float peak = *std::max_element(x, x + n);
  for (std::int64_t i = 0; i < n; ++i) p[i] = x[i] - peak;
  kernels.exponentials(p, n, p);
  const auto sum = static_cast<float>(sum_of(n, [&](std::int64_t i) { return static_cast<double>(p[i]); }));
  for (std::int64_t i = 0; i < n; ++i) p[i] /= sum;
}

void probabilities(const KernelTable& kernels, const RouterOp& op, const float* logits, float* p) {
  const std::int64_t n = op.choice.experts;
  switch (op.kind) {
    case RouterKind::kSoftmax:
      return softmax(kernels, logits, n, p);
    case RouterKind::kSigmoid:
      return sigmoids(kernels, logits, n, p);
    case RouterKind::kSoftmaxOfChosen:
    case RouterKind::kSigmoidOfChosen:
      std::copy_n(logits, n, p);
      return;
  }
}

/// Excludes the experts outside the best groups.
void keep_best_groups(const RouterOp& op, float* rank) {
  const std::int64_t each = op.choice.experts / op.groups;
  float best[kMaxExperts];
  for (std::int64_t g = 0; g < op.groups; ++g) {
    float first = -INFINITY, second = -INFINITY;
    for (std::int64_t i = g * each; i < (g + 1) * each; ++i) {
      second = std::max(second, std::min(first, rank[i]));
      first = std::max(first, rank[i]);
    }
    best[g] = first + second;
  }
  bool kept[kMaxExperts] = {};
  for (std::int64_t i = 0; i < op.groups_used; ++i) {
    const std::int64_t group = std::max_element(best, best + op.groups) - best;  // the first one if several are equal
    kept[group] = true;
    best[group] = -INFINITY;
  }
  for (std::int64_t i = 0; i < op.choice.experts; ++i) {
    if (!kept[i / each]) rank[i] = -INFINITY;
  }
}

float weight_of_pair(const ExpertChoice& choice, std::int64_t pair) {
  std::int64_t slot = choice.tokens[pair] * choice.used;
  while (choice.pairs[slot] != pair) ++slot;
  return choice.weights[slot];
}

}  // namespace

void norm_rows(const KernelTable& kernels, const NormOp& op, const float* x, std::int64_t x_stride, ThreadShare share) {
  for (std::int64_t row = share.begin; row < share.end; ++row) {
    float* out = op.out + row * op.out_stride;
    const float* weight = op.weight + row % op.weight_rows * op.cols;
    op.centered ? layer_row(op, x + row * x_stride, weight, out) : rms_row(kernels, op, x + row * x_stride, weight, out);
  }
}

void resize_rows(const ResizeOp& op, ThreadShare share) {
  const std::int64_t kept = std::min(op.from_cols, op.to_cols);
  for (std::int64_t row = share.begin; row < share.end; ++row) {
    float* to = op.to + row * op.to_cols;
    std::copy_n(op.from + row * op.from_cols, kept, to);
    std::fill(to + kept, to + op.to_cols, 0.0f);
  }
}

void add_columns(const KernelTable& kernels, const AddOp& op, ThreadShare share) {
  for (std::int64_t row = 0; row < op.rows; ++row) {
    float* to = op.to + row * op.to_stride;
    if (!op.experts.any()) {
      const float scale = op.gate ? op.scale * sigmoid(kernels, op.gate[row]) : op.scale;
      const float* from = op.from + row / op.each * op.from_stride;
      for (std::int64_t i = share.begin; i < share.end; ++i) to[i] += scale * from[i];
      continue;
    }
    const std::int64_t used = op.experts.used;
    for (std::int64_t begin = share.begin; begin < share.end; begin += kPiece) {
      const std::int64_t n = std::min(kPiece, share.end - begin);
      float sum[kPiece] = {};
      for (std::int64_t e = row * used; e < (row + 1) * used; ++e) {
        const float weight = op.weighted ? op.experts.weights[e] : 1.0f;
        const float* from = op.from + op.experts.pairs[e] * op.from_stride + begin;
        for (std::int64_t i = 0; i < n; ++i) sum[i] += weight * from[i];
      }
      for (std::int64_t i = 0; i < n; ++i) to[begin + i] += op.scale * sum[i];
    }
  }
}

void scale_elements(const KernelTable& kernels, const ScaleOp& op, ThreadShare share) {
  for (std::int64_t begin = share.begin; op.experts.any() && begin < share.end;) {
    const std::int64_t pair = begin / op.cols, end = std::min((pair + 1) * op.cols, share.end);
    const float weight = weight_of_pair(op.experts, pair);
    for (; begin < end; ++begin) op.x[begin] *= weight;
  }
  if (op.experts.any()) return;
  for (std::int64_t begin = share.begin; begin < share.end; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, share.end - begin);
    float *x = op.x + begin, e[kPiece];
    if (op.cap == 0) {
      for (std::int64_t i = 0; i < n; ++i) x[i] *= op.scale;
      continue;
    }
    // tanh(t) = 1 - 2 / (1 + exp(2t))
    for (std::int64_t i = 0; i < n; ++i) e[i] = op.scale * x[i] * (2.0f / op.cap);
    kernels.exponentials(e, n, e);
    for (std::int64_t i = 0; i < n; ++i) x[i] = op.cap * (1.0f - 2.0f / (1.0f + e[i]));
  }
}

void find_highest(const HighestOp& op, ThreadShare share) {
  constexpr std::int64_t kTogether = 32;  // compared at once, since few are above the highest before them
  for (std::int64_t row = share.begin; row < share.end; ++row) {
    const float* x = op.x + row * op.cols;
    Highest highest;
    for (std::int64_t begin = op.columns.begin; begin < op.columns.end_of(op.cols); begin += kTogether) {
      const std::int64_t end = std::min(begin + kTogether, op.columns.end_of(op.cols));
      bool any = false;
      for (std::int64_t i = begin; i < end; ++i) any |= x[i] > highest.value;  // false for NaN
      for (std::int64_t i = begin; any && i < end; ++i) {
        if (x[i] > highest.value) highest = {static_cast<std::int32_t>(i), x[i]};
      }
    }
    op.out[row] = highest;
  }
}

void choose_experts(const KernelTable& kernels, const RouterOp& op, ThreadShare share) {
  const std::int64_t n = op.choice.experts, used = op.choice.used;
  float p[kMaxExperts], rank[kMaxExperts];
  for (std::int64_t row = share.begin; row < share.end; ++row) {
    probabilities(kernels, op, op.logits + row * n, p);
    for (std::int64_t i = 0; i < n; ++i) rank[i] = op.bias ? p[i] + op.bias[i] : p[i];
    if (op.groups > 0) keep_best_groups(op, rank);
    float* weights = op.choice.weights + row * used;
    std::int32_t* chosen = op.choice.pairs + row * used;
    for (std::int64_t slot = 0; slot < used; ++slot) {
      const std::int64_t best = std::max_element(rank, rank + n) - rank;  // the first one if several are equal
      chosen[slot] = static_cast<std::int32_t>(best);
      weights[slot] = p[best];
      rank[best] = -INFINITY;
    }
    if (op.kind == RouterKind::kSoftmaxOfChosen) softmax(kernels, weights, used, weights);
    if (op.kind == RouterKind::kSigmoidOfChosen) sigmoids(kernels, weights, used, weights);
    constexpr double kMinDivisor = 6.103515625e-5;  // least divisor of a sum: the smallest normal half float
    const double sum = sum_of(used, [&](std::int64_t i) { return static_cast<double>(weights[i]); });
    const float by = op.normalize ? static_cast<float>(std::max(sum, kMinDivisor)) : 1.0f;
    for (std::int64_t slot = 0; slot < used; ++slot) weights[slot] = weights[slot] / by * op.scale;
  }
}

void number_pairs(const RouterOp& op) {
  const ExpertChoice& c = op.choice;
  const std::int64_t pairs = op.rows * c.used;
  std::fill_n(c.first, c.experts + 1, 0);
  for (std::int64_t i = 0; i < pairs; ++i) ++c.first[c.pairs[i] + 1];
  for (std::int64_t e = 0; e < c.experts; ++e) c.first[e + 1] += c.first[e];
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int32_t expert = c.pairs[i], pair = c.first[expert]++;
    c.tokens[pair] = static_cast<std::int32_t>(i / c.used);
    c.chosen[pair] = expert;
    c.pairs[i] = pair;
  }
  for (std::int64_t e = c.experts; e > 0; --e) c.first[e] = c.first[e - 1];
  c.first[0] = 0;
}

}  // namespace yamata::cpu
