#pragma once
// The searches of fit.cpp for kLanes groups at once, one per lane. Every lane does what fit.cpp does for its group, in the same order;
// masks replace branches. Define kLanes, a power of two up to 8, before including this. Numbers are stored as floats: integers below 2^24
// are exact. Of the best trial only the scale is kept; its numbers are computed from it.
#include "src/quantize/group_fit.hpp"

namespace yamata::quantize {
namespace {

using Floats = float __attribute__((vector_size(4 * kLanes)));
using Ints = std::int32_t __attribute__((vector_size(4 * kLanes)));  ///< as a mask: all bits of a lane are set or not

constexpr float kAllZero = 1e-15f;  // as in fit.cpp

inline Floats set1(float x) { return x - Floats{}; }
inline Floats either(Ints mask, Floats yes, Floats no) { return mask ? yes : no; }
inline Floats least_of(Floats a, Floats b) { return a < b ? a : b; }
inline Floats most_of(Floats a, Floats b) { return a > b ? a : b; }
inline Floats absolute(Floats x) { return reinterpret_cast<Floats>(reinterpret_cast<Ints>(x) & 0x7fffffff); }
inline bool any(Ints mask) {
  std::int32_t all = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) all |= mask[lane];
  return all != 0;
}
/// fit.hpp's
inline Floats nearest(Floats x) {
  const Ints bits = reinterpret_cast<Ints>(x + 12582912.0f);
  return __builtin_convertvector((bits & 0x007fffff) - 0x00400000, Floats);
}
inline Floats between(float low, float high, Floats x) { return most_of(set1(low), least_of(set1(high), x)); }

template <std::size_t size>
struct Size {};  ///< of a group, as a type

/// Element i of every group of `size`.
template <std::size_t size>
struct Columns {
  Floats at[size];
  explicit Columns(const float* rows) {
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) at[i][lane] = rows[lane * size + i];
    }
  }
};

/// Stores number(i), element i of every group, in the groups' layout.
template <std::size_t size, class Number>
inline void store_numbers(std::uint8_t* numbers, Number number) {
  for (std::size_t i = 0; i < size; ++i) {
    const Ints column = __builtin_convertvector(number(i), Ints);
    for (std::size_t lane = 0; lane < kLanes; ++lane) numbers[lane * size + i] = static_cast<std::uint8_t>(column[lane]);
  }
}
inline void store_lanes(const Floats& lanes, float* out) { __builtin_memcpy(out, &lanes, sizeof lanes); }

/// fit.hpp's Peak
struct Peaks {
  Floats value{}, magnitude{};
  template <std::size_t size>
  explicit Peaks(const Columns<size>& x) {
    for (const Floats& here : x.at) {
      const Ints larger = absolute(here) > magnitude;
      value = either(larger, here, value), magnitude = either(larger, absolute(here), magnitude);
    }
  }
};

/// Sums of a least-squares fit by integers.
struct Sums {
  Floats lx{}, l2{};
  void add(Floats weight, Floats weighted, Floats l) { lx += weighted * l, l2 += weight * l * l; }
  void take(Ints mask, const Sums& other) { lx = either(mask, other.lx, lx), l2 = either(mask, other.l2, l2); }
};

inline Floats symmetric_number(Floats x, int levels) {
  return between(static_cast<float>(-levels), static_cast<float>(levels - 1), nearest(x));
}

template <std::size_t size>
void symmetric_lanes(const float* rows, const float* weights, int levels, std::uint8_t* numbers, float* scales) {
  const Columns<size> x(rows);
  const Peaks peak(x);
  Columns<size> weight(weights ? weights : rows);
  Floats weighted[size];
  for (std::size_t i = 0; i < size; ++i) {
    if (!weights) weight.at[i] *= x.at[i];
    weighted[i] = weight.at[i] * x.at[i];
  }
  const auto sums_at = [&](Floats inverse) {
    Sums sums;
    for (std::size_t i = 0; i < size; ++i) sums.add(weight.at[i], weighted[i], symmetric_number(inverse * x.at[i], levels));
    return sums;
  };
  const Ints zero = peak.magnitude < kAllZero;
  Floats chosen = -static_cast<float>(levels) / peak.value;
  Sums sums = sums_at(chosen);
  Floats scale = either(sums.l2 != 0, sums.lx / sums.l2, Floats{});
  Floats best = scale * sums.lx;
  for (int step = -9; step <= 9; ++step) {
    if (step == 0) continue;
    const Floats inverse = -(static_cast<float>(levels) + 0.1f * static_cast<float>(step)) / peak.value;
    sums = sums_at(inverse);
    const Ints better = (sums.l2 > 0) & (sums.lx * sums.lx > best * sums.l2);
    chosen = either(better, inverse, chosen);
    scale = either(better, sums.lx / sums.l2, scale);
    best = either(better, scale * sums.lx, best);
  }
  store_numbers<size>(numbers, [&](std::size_t i) {
    return either(zero, Floats{}, static_cast<float>(levels) + symmetric_number(chosen * x.at[i], levels));
  });
  store_lanes(either(zero, Floats{}, scale), scales);
}

template <std::size_t size>
void refine_lanes(const float* rows, int levels, std::uint8_t* numbers, float* scales) {
  const Columns<size> x(rows);
  const Peaks peak(x);
  const Ints zero = peak.magnitude < kAllZero;
  const Floats inverse = -static_cast<float>(levels) / peak.value;
  Floats chosen[size], weight[size], weighted[size];
  Sums sums;
  for (std::size_t i = 0; i < size; ++i) {
    weight[i] = x.at[i] * x.at[i];
    weighted[i] = weight[i] * x.at[i];
    chosen[i] = symmetric_number(inverse * x.at[i], levels);
    sums.add(weight[i], weighted[i], chosen[i]);
  }
  for (int round = 0; round < 5; ++round) {
    Ints changed{};
    for (std::size_t i = 0; i < size; ++i) {
      Sums others{sums.lx - weighted[i] * chosen[i], sums.l2 - weight[i] * chosen[i] * chosen[i]};
      Ints better = (others.lx > 0) & ~zero;
      const Floats l = symmetric_number(x.at[i] * others.l2 / others.lx, levels);
      others.add(weight[i], weighted[i], l);
      better &= (l != chosen[i]) & (others.l2 > 0) & (others.lx * others.lx * sums.l2 > sums.lx * sums.lx * others.l2);
      chosen[i] = either(better, l, chosen[i]);
      sums.take(better, others);
      changed |= better;
    }
    if (!any(changed)) break;
  }
  store_numbers<size>(numbers, [&](std::size_t i) { return either(zero, Floats{}, chosen[i] + static_cast<float>(levels)); });
  store_lanes(either(~zero & (sums.l2 > 0), sums.lx / sums.l2, Floats{}), scales);
}

/// The state of offset_lanes while it tries scales, like fit.cpp's OffsetFit.
template <std::size_t size>
struct OffsetLanes {
  const Columns<size> x, weight;
  float most;
  Floats least, largest, weight_sum, weighted_sum;

  OffsetLanes(const float* rows, const float* weights, int levels) : x(rows), weight(weights), most(static_cast<float>(levels)) {
    least = largest = x.at[0], weight_sum = weight.at[0], weighted_sum = weight.at[0] * x.at[0];
    for (std::size_t i = 1; i < size; ++i) {
      least = least_of(x.at[i], least), largest = most_of(x.at[i], largest);
      weight_sum += weight.at[i], weighted_sum += weight.at[i] * x.at[i];
    }
    least = either(least > 0, Floats{}, least);
  }
  Floats number(std::size_t i, Floats inverse, Floats from) const { return between(0, most, nearest(inverse * (x.at[i] - from))); }
  template <bool kAbsolute>
  Floats error(Floats scale, Floats shift, const Floats* numbers) const {
    Floats sum{};
    for (std::size_t i = 0; i < size; ++i) {
      const Floats difference = scale * numbers[i] + shift - x.at[i];
      sum += weight.at[i] * (kAbsolute ? absolute(difference) : difference * difference);
    }
    return sum;
  }
  /// Rounds to `numbers` and finds their best scale and shift; returns a mask of the groups that have a solution.
  Ints solve(Floats inverse, Floats* numbers, Floats& scale, Floats& shift) const {
    Floats l1{}, l2{}, lx{};
    for (std::size_t i = 0; i < size; ++i) {
      const Floats l = numbers[i] = number(i, inverse, least), weighted = weight.at[i] * l;
      l1 += weighted, l2 += weighted * l, lx += weighted * x.at[i];
    }
    const Floats determinant = weight_sum * l2 - l1 * l1;
    scale = (weight_sum * lx - weighted_sum * l1) / determinant;
    shift = (l2 * weighted_sum - l1 * lx) / determinant;
    const Ints positive = shift > 0;
    scale = either(positive, lx / l2, scale), shift = either(positive, Floats{}, shift);
    return determinant > 0;
  }
};

template <std::size_t size, bool kAbsolute>
void offset_lanes(const float* rows, const float* weights, int most, const Trials& trials, std::uint8_t* numbers, Offset* fits) {
  OffsetLanes<size> fit(rows, weights, most);
  const Ints flat = fit.largest <= fit.least;
  Floats chosen = static_cast<float>(most) / (fit.largest - fit.least), chosen_from = fit.least;
  Floats scale = 1 / chosen, shift = fit.least, tried[size];
  for (std::size_t i = 0; i < size; ++i) tried[i] = fit.number(i, chosen, chosen_from);
  Floats best = fit.template error<kAbsolute>(scale, shift, tried);
  for (int i = 0; i <= trials.steps; ++i) {
    const Floats inverse = (trials.first + trials.step * static_cast<float>(i) + static_cast<float>(most)) / (fit.largest - fit.least);
    Floats tried_scale, tried_shift;
    const Ints solved = fit.solve(inverse, tried, tried_scale, tried_shift);
    const Floats error = fit.template error<kAbsolute>(tried_scale, tried_shift, tried);
    const Ints better = solved & (error < best) & ~flat;
    chosen = either(better, inverse, chosen), chosen_from = either(better, fit.least, chosen_from);
    best = either(better, error, best);
    scale = either(better, tried_scale, scale);
    shift = either(better, tried_shift, shift), fit.least = either(better, tried_shift, fit.least);
  }
  store_numbers<size>(numbers, [&](std::size_t i) { return either(flat, Floats{}, fit.number(i, chosen, chosen_from)); });
  scale = either(flat, Floats{}, scale), shift = -shift;
  for (std::size_t lane = 0; lane < kLanes; ++lane) fits[lane] = {scale[lane], shift[lane]};
}

/// Calls body(size as a constant, first group, its first element) for every kLanes groups.
template <class Body>
inline void each_lanes(const GroupedElements& groups, Body body) {
  for (std::size_t j = 0; j < groups.count; j += kLanes) {
    groups.size == 16 ? body(Size<16>{}, j, j * 16) : body(Size<32>{}, j, j * 32);
  }
}

void symmetric(const GroupedElements& groups, int levels, std::uint8_t* numbers, float* scales) {
  each_lanes(groups, [&]<std::size_t size>(Size<size>, std::size_t j, std::size_t at) {
    symmetric_lanes<size>(groups.x + at, groups.weights ? groups.weights + at : nullptr, levels, numbers + at, scales + j);
  });
}

void refine(const GroupedElements& groups, int levels, std::uint8_t* numbers, float* scales) {
  each_lanes(groups, [&]<std::size_t size>(Size<size>, std::size_t j, std::size_t at) {
    refine_lanes<size>(groups.x + at, levels, numbers + at, scales + j);
  });
}

void offset(const GroupedElements& groups, int most, const Trials& trials, std::uint8_t* numbers, Offset* fits) {
  each_lanes(groups, [&]<std::size_t size>(Size<size>, std::size_t j, std::size_t at) {
    const auto fit_lanes = trials.absolute ? offset_lanes<size, true> : offset_lanes<size, false>;
    fit_lanes(groups.x + at, groups.weights + at, most, trials, numbers + at, fits + j);
  });
}

}  // namespace
}  // namespace yamata::quantize
