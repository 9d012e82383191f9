#include "src/sampling/best_logits.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace yamata {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 32;  // number of logits that are compared together; few blocks contain one of the best

struct Entry {
  std::int32_t token = -1;
  float value = kNever;
};

/// Descending, ties by id.
bool before(const Entry& a, const Entry& b) { return a.value > b.value || (a.value == b.value && a.token < b.token); }

/// One accumulator per position in a vector register, so that the compiler can use vector instructions without reordering sums.
constexpr std::size_t kLanes = 16;
using Lanes = std::array<float, kLanes>;

/// In each lane: the highest of its values; a NaN is ignored.
void keep_highest(Lanes& highest, const float* values) {
  for (std::size_t i = 0; i < kLanes; ++i) highest[i] = values[i] > highest[i] ? values[i] : highest[i];
}

/// The highest of some values.
float highest_of(const float* values, std::size_t count) {
  Lanes lanes;
  lanes.fill(kNever);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) keep_highest(lanes, values + i);
  float highest = *std::max_element(lanes.begin(), lanes.end());
  for (; i < count; ++i) highest = values[i] > highest ? values[i] : highest;
  return highest;
}

/// exp(x) for x <= 0, to about 1e-6 of it; below -80, and of NaN, about 1e-35. Compilers turn it into vector instructions: a comparison of
/// floats would prevent that, but as unsigned integers, negative floats are ordered by magnitude, and NaN is above all.
inline float exp_below_zero(float x) {
  constexpr float kLog2E = 1.44269504f, kHighLn2 = 0.693359375f, kLowLn2 = -2.12194440e-4f;
  constexpr std::uint32_t kSign = 1u << 31;
  x = std::bit_cast<float>(std::min(std::bit_cast<std::uint32_t>(x) | kSign, std::bit_cast<std::uint32_t>(-80.0f)));
  const auto power = static_cast<std::int32_t>(x * kLog2E - 0.5f);  // rounds to the nearest, since x is not positive
  const auto whole = static_cast<float>(power);
  const float r = (x - whole * kHighLn2) - whole * kLowLn2;
  const float series = 1 + r * (1 + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
  return series * std::bit_cast<float>((power + 127) << 23);
}

/// The best of a row, as a heap with the worst of them on top. Later logits have higher ids, so an equal one does not replace another.
void find_best(std::span<const float> row, std::size_t count, std::vector<Entry>& best) {
  best.clear();
  float least = kNever;
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock) {
    const std::size_t end = std::min(row.size(), begin + kBlock);
    if (!(highest_of(row.data() + begin, end - begin) > least)) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(row[i] > least)) continue;
      if (best.size() == count) {
        std::pop_heap(best.begin(), best.end(), before);
        best.pop_back();
      }
      best.push_back({static_cast<std::int32_t>(i), row[i]});
      std::push_heap(best.begin(), best.end(), before);
      if (best.size() == count) least = best.front().value;
    }
  }
  std::sort_heap(best.begin(), best.end(), before);
  best.resize(count);
}

}  // namespace

BestLogits best_logits(std::span<const float> logits, std::size_t vocabulary, std::size_t count) {
  BestLogits found;
  std::vector<Entry> best;
  for (std::size_t at = 0; at + vocabulary <= logits.size(); at += vocabulary) {
    find_best(logits.subspan(at, vocabulary), count, best);
    for (const Entry& entry : best) {
      found.tokens.push_back(entry.token);
      found.values.push_back(entry.value);
    }
  }
  return found;
}

float log_sum_exp(std::span<const float> logits) { return log_sum_exp(logits, highest_of(logits.data(), logits.size())); }

float log_sum_exp(std::span<const float> logits, float highest) {
  if (!(highest > kNever) || highest == std::numeric_limits<float>::infinity()) return highest;
  Lanes lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += exp_below_zero(logits[i + lane] - highest);
  }
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  for (; i < logits.size(); ++i) sum += static_cast<double>(exp_below_zero(logits[i] - highest));
  return highest + static_cast<float>(std::log(sum));
}

std::vector<float> spread_logits(std::span<const std::int32_t> tokens, std::span<const float> values, std::size_t vocabulary) {
  std::vector<float> row(vocabulary, kNever);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0) row[static_cast<std::size_t>(tokens[i])] = values[i];
  }
  return row;
}

}  // namespace yamata
