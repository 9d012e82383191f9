#pragma once
// Divides columns by shares.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>

namespace yamata {

/// Writes the boundaries nearest to the shares into `cuts` (one more than there are shares): multiples of the grain, the last one at the
/// end. If there are enough grains, each share gets at least one.
inline void cut_by_shares(std::int64_t columns, std::int64_t grain, std::span<const double> shares, std::span<std::int64_t> cuts) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const std::int64_t count = (columns + grain - 1) / grain, holders = std::ssize(shares), least = count >= holders ? 1 : 0;
  double before = 0;
  cuts[0] = 0;
  for (std::int64_t i = 0; i < holders; ++i) {
    before += shares[static_cast<std::size_t>(i)];
    const auto wish = i + 1 == holders ? count : static_cast<std::int64_t>(std::llround(before / sum * static_cast<double>(count)));
    cuts[static_cast<std::size_t>(i) + 1] = std::clamp(wish, cuts[static_cast<std::size_t>(i)] + least, count - least * (holders - 1 - i));
  }
  for (std::int64_t& at : cuts) at = std::min(at * grain, columns);
}

}  // namespace yamata
