#pragma once
// A division of items among the units of a machine.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "node/cut_by_shares.hpp"
#include "node/op.hpp"

namespace yamata {

/// Outputs are divided at multiples of this: whole panels, and whole blocks, so that each unit can quantize what it has written.
inline constexpr std::int64_t kCutGrain = 32;

/// Unit u has the items from at[u] to at[u + 1].
struct Cut {
  std::array<std::int64_t, kMaxUnits + 1> at{};
  OpRange of(std::size_t unit) const { return {at[unit], at[unit + 1]}; }
  std::int64_t count(std::size_t unit) const { return at[unit + 1] - at[unit]; }
  /// The same division of items that consist of `factor` smaller ones.
  Cut scaled(std::int64_t factor) const {
    Cut cut = *this;
    for (std::int64_t& each : cut.at) each *= factor;
    return cut;
  }
  friend bool operator==(const Cut&, const Cut&) = default;
};

/// Divides items by the shares of the units, at multiples of the grain.
inline Cut cut_of(std::int64_t count, std::int64_t grain, std::span<const double> shares) {
  Cut cut;
  cut_by_shares(count, grain, shares, std::span(cut.at).first(shares.size() + 1));
  return cut;
}

}  // namespace yamata
