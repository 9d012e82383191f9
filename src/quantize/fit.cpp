#include "src/quantize/fit.hpp"

#include <algorithm>
#include <cmath>

namespace yamata::quantize {
namespace {

constexpr float kAllZero = 1e-15f;  ///< a group whose peak is smaller is stored as zeros
constexpr std::size_t kMaxElements = 32;

/// Sums of a least-squares fit of x by integers: the scale is lx / l2.
struct Squares {
  float lx = 0, l2 = 0;
  void add(float weight, float x, int l) {
    lx += weight * x * static_cast<float>(l);
    l2 += weight * static_cast<float>(l) * static_cast<float>(l);
  }
};

int symmetric(float x, int levels) { return std::max(-levels, std::min(levels - 1, nearest(x))); }

}  // namespace

std::uint8_t truncated_byte(float x) {
  if (!(std::fabs(x) < 2147483648.0f)) return 0;
  return static_cast<std::uint8_t>(static_cast<std::int32_t>(x));
}

Peak peak_of(std::span<const float> x) {
  Peak peak;
  for (const float value : x) {
    const float magnitude = std::fabs(value);
    if (magnitude > peak.magnitude) peak = {value, magnitude};
  }
  return peak;
}

float fit_symmetric(std::span<const float> x, int levels, const float* weights, std::uint8_t* numbers) {
  const Peak peak = peak_of(x);
  if (peak.magnitude < kAllZero) {
    std::fill_n(numbers, x.size(), std::uint8_t{0});
    return 0;
  }
  const auto sums_at = [&](float inverse) {
    Squares sums;
    for (std::size_t i = 0; i < x.size(); ++i) sums.add(weights ? weights[i] : x[i] * x[i], x[i], symmetric(inverse * x[i], levels));
    return sums;
  };
  const auto take = [&](float inverse) {
    for (std::size_t i = 0; i < x.size(); ++i) numbers[i] = static_cast<std::uint8_t>(levels + symmetric(inverse * x[i], levels));
  };
  const float first = -static_cast<float>(levels) / peak.value;
  Squares sums = sums_at(first);
  take(first);
  float scale = sums.l2 != 0 ? sums.lx / sums.l2 : 0.0f;
  float best = scale * sums.lx;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const float inverse = -(static_cast<float>(levels) + 0.1f * static_cast<float>(step)) / peak.value;
    sums = sums_at(inverse);
    if (sums.l2 > 0 && sums.lx * sums.lx > best * sums.l2) {
      take(inverse);
      scale = sums.lx / sums.l2;
      best = scale * sums.lx;
    }
  }
  return scale;
}

float refine_symmetric(std::span<const float> x, int levels, std::uint8_t* numbers) {
  const Peak peak = peak_of(x);
  if (peak.magnitude < kAllZero) {
    std::fill_n(numbers, x.size(), std::uint8_t{0});
    return 0;
  }
  const float inverse = -static_cast<float>(levels) / peak.value;
  int chosen[kMaxElements];
  Squares sums;
  for (std::size_t i = 0; i < x.size(); ++i) {
    chosen[i] = symmetric(inverse * x[i], levels);
    sums.add(x[i] * x[i], x[i], chosen[i]);
  }
  for (int round = 0; round < 5; ++round) {
    bool changed = false;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float weight = x[i] * x[i];
      const auto old = static_cast<float>(chosen[i]);
      Squares others{sums.lx - weight * x[i] * old, sums.l2 - weight * old * old};
      if (!(others.lx > 0)) continue;
      const int l = symmetric(x[i] * others.l2 / others.lx, levels);
      if (l == chosen[i]) continue;
      others.add(weight, x[i], l);
      if (others.l2 > 0 && others.lx * others.lx * sums.l2 > sums.lx * sums.lx * others.l2) {
        chosen[i] = l;
        sums = others;
        changed = true;
      }
    }
    if (!changed) break;
  }
  for (std::size_t i = 0; i < x.size(); ++i) numbers[i] = static_cast<std::uint8_t>(chosen[i] + levels);
  return sums.l2 > 0 ? sums.lx / sums.l2 : 0.0f;
}

namespace {

/// The state of fit_offset while it tries scales.
struct OffsetFit {
  std::span<const float> x;
  const float* weights;
  int most;
  bool absolute;
  float least, largest, weight_sum, weighted_sum;

  void round(float inverse, std::uint8_t* numbers) const {
    for (std::size_t i = 0; i < x.size(); ++i)
      numbers[i] = static_cast<std::uint8_t>(std::max(0, std::min(most, nearest(inverse * (x[i] - least)))));
  }
  float error(float scale, float shift, const std::uint8_t* numbers) const {
    float sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float difference = scale * static_cast<float>(numbers[i]) + shift - x[i];
      sum += weights[i] * (absolute ? std::fabs(difference) : difference * difference);
    }
    return sum;
  }
  /// The best scale and shift for these numbers; false if they are all equal.
  bool solve(const std::uint8_t* numbers, float& scale, float& shift) const {
    float l1 = 0, l2 = 0, lx = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto l = static_cast<float>(numbers[i]);
      l1 += weights[i] * l;
      l2 += weights[i] * l * l;
      lx += weights[i] * l * x[i];
    }
    const float determinant = weight_sum * l2 - l1 * l1;
    if (!(determinant > 0)) return false;
    scale = (weight_sum * lx - weighted_sum * l1) / determinant;
    shift = (l2 * weighted_sum - l1 * lx) / determinant;
    if (shift > 0) {
      shift = 0;
      scale = lx / l2;
    }
    return true;
  }
};

OffsetFit offset_fit(std::span<const float> x, int most, const float* weights, bool absolute) {
  OffsetFit fit{x, weights, most, absolute, x[0], x[0], weights[0], weights[0] * x[0]};
  for (std::size_t i = 1; i < x.size(); ++i) {
    if (x[i] < fit.least) fit.least = x[i];
    if (x[i] > fit.largest) fit.largest = x[i];
    fit.weight_sum += weights[i];
    fit.weighted_sum += weights[i] * x[i];
  }
  if (fit.least > 0) fit.least = 0;
  return fit;
}

}  // namespace

Offset fit_offset(std::span<const float> x, int most, const float* weights, const Trials& trials, std::uint8_t* numbers) {
  OffsetFit fit = offset_fit(x, most, weights, trials.absolute);
  if (fit.largest <= fit.least) {
    std::fill_n(numbers, x.size(), std::uint8_t{0});
    return {0, -fit.least};
  }
  const float first = static_cast<float>(most) / (fit.largest - fit.least);
  float scale = 1 / first, shift = fit.least;
  fit.round(first, numbers);
  float best = fit.error(scale, shift, numbers);
  std::uint8_t tried[kMaxElements];
  for (int i = 0; i <= trials.steps; ++i) {
    fit.round((trials.first + trials.step * static_cast<float>(i) + static_cast<float>(most)) / (fit.largest - fit.least), tried);
    float tried_scale, tried_shift;
    if (!fit.solve(tried, tried_scale, tried_shift)) continue;
    const float error = fit.error(tried_scale, tried_shift, tried);
    if (error < best) {
      std::copy_n(tried, x.size(), numbers);
      best = error;
      scale = tried_scale;
      shift = fit.least = tried_shift;  // later trials start from the better minimum
    }
  }
  return {scale, -shift};
}

namespace {

/// The inverse of the best of nine scales around most / largest.
float positive_inverse(std::span<const float> x, int most, float largest, const float* weights) {
  const auto error = [&](float inverse, bool first) {
    const float scale = 1 / inverse;
    float sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const int rounded = nearest(inverse * x[i]);
      const int l = first ? static_cast<std::uint8_t>(rounded) : std::min(most, rounded);
      const float difference = x[i] - scale * static_cast<float>(l);
      sum += weights[i] * difference * difference;
    }
    return sum;
  };
  float chosen = static_cast<float>(most) / largest;
  float best = error(chosen, true);
  for (int step = -4; step <= 4; ++step) {
    if (step == 0) continue;
    const float inverse = (0.1f * static_cast<float>(step) + static_cast<float>(most)) / largest;
    const float tried = error(inverse, false);
    if (tried < best) {
      best = tried;
      chosen = inverse;
    }
  }
  return chosen;
}

}  // namespace

float fit_positive(std::span<const float> x, int most, const float* weights, std::uint8_t* numbers) {
  float largest = 0;
  for (const float value : x) largest = largest > value ? largest : value;
  if (largest < kAllZero) {
    std::fill_n(numbers, x.size(), std::uint8_t{0});
    return 0;
  }
  const float inverse = positive_inverse(x, most, largest, weights);
  Squares sums;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const int l = std::min(most, nearest(inverse * x[i]));
    numbers[i] = static_cast<std::uint8_t>(l);
    sums.add(weights[i], x[i], l);
  }
  for (int round = 0; round < 5; ++round) {
    bool changed = false;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto old = static_cast<float>(numbers[i]);
      Squares others{sums.lx - weights[i] * x[i] * old, sums.l2 - weights[i] * old * old};
      if (!(others.lx > 0 && others.l2 > 0)) continue;
      const int l = std::min(most, nearest(x[i] * others.l2 / others.lx));
      if (l == numbers[i]) continue;
      others.add(weights[i], x[i], l);
      if (others.lx * others.lx * sums.l2 > sums.lx * sums.lx * others.l2) {
        numbers[i] = static_cast<std::uint8_t>(l);
        sums = others;
        changed = true;
      }
    }
    if (!changed) break;
  }
  return sums.l2 > 0 ? sums.lx / sums.l2 : 0.0f;
}

}  // namespace yamata::quantize
