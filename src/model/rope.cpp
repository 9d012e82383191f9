#include "src/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace yamata {
namespace {

/// The index of the pair that makes `rotations` rotations over the original context (YaRN, section 3.2).
double yarn_pair(double rotations, double dim, double base, double context) {
  return dim * std::log(context / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(base));
}

}  // namespace

Rope::Rope(const Hyperparameters& h, const LayerSpec& spec, const float* factors) {
  using Kind = RopeScaling::Kind;
  const auto pairs = static_cast<std::size_t>(h.rotary_dim / 2);
  const double dim = static_cast<double>(h.rotary_dim), base = spec.rope_base;
  const double context = static_cast<double>(h.rope.original_context);
  const Kind kind = spec.rope_scaled ? h.rope.kind : Kind::kNone;
  const bool yarn = kind == Kind::kYarn;
  const double scale = yarn || kind == Kind::kLinear ? 1.0 / h.rope.factor : 1.0;
  if (spec.rope_scaled) magnitude_ = h.rope.attention_factor;
  double low = 0, high = 0;
  if (yarn) {
    low = std::max(0.0, std::floor(yarn_pair(h.rope.beta_fast, dim, base, context)));
    high = std::min(dim - 1.0, std::ceil(yarn_pair(h.rope.beta_slow, dim, base, context)));
    magnitude_ = h.rope.attention_factor * (1.0 + 0.1 * std::log(h.rope.factor));
  }
  frequency_.resize(pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double plain = std::pow(base, -2.0 * static_cast<double>(i) / dim) / (factors ? factors[i] : 1.0);
    const double kept = yarn ? 1.0 - std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0) : 0.0;
    frequency_[i] = plain * scale * (1.0 - kept) + plain * kept;
  }
}

void Rope::angles(std::int64_t position, float* out) const {
  for (std::size_t i = 0; i < frequency_.size(); ++i) {
    const double theta = static_cast<double>(position) * frequency_[i];
    out[2 * i] = static_cast<float>(std::cos(theta) * magnitude_);
    out[2 * i + 1] = static_cast<float>(std::sin(theta) * magnitude_);
  }
}

}  // namespace yamata
