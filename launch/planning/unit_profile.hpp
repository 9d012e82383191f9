#pragma once
// What `yamata profile --units` found for the units of a machine, kept in the cache folder beside its other measurements.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/planning/measurement_cache.hpp"
#include "node/split_unit.hpp"

namespace yamata {

/// One kind of work, in one class of widths, behind one bucket of contexts.
struct UnitWork {
  WorkKind kind;
  std::vector<double> isolated_s;  ///< per unit: all of it, alone
  std::vector<double> shares;      ///< at which they end together, while all compute
};

struct UnitProfile {
  double ns_per_byte = 0;  ///< of all units together, with these shares: by which a later run checks that they still hold
  std::vector<UnitWork> works;
};

/// Where shares begin, and whether they stay.
enum class ShareRule {
  kAdaptive,  ///< as measured under contention where that was done, then they follow measured time
  kIsolated,  ///< in proportion to isolated speeds, as Medusa's baseline has it; they stay
  kTuned,     ///< as measured under contention, as Ghidorah has it; they stay
};

/// Of the latest day, for a key that names the units; nothing where there is none, or where it cannot be understood.
std::optional<UnitProfile> read_unit_profile(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_unit_profile(const std::string& folder, const MeasurementKey& key, const UnitProfile& profile, std::int64_t now_s);

/// Gives the unit's work the shares of the profile.
void apply(const UnitProfile& profile, ShareRule rule, SplitUnit& unit);

}  // namespace yamata
