#pragma once
// The result of `yamata profile --units` for the units of a machine, kept in the cache folder beside other measurements.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/program/planning/measurement_cache.hpp"
#include "launch/program/planning/units.hpp"
#include "node/units/split_unit.hpp"

namespace yamata {

/// One kind of work, for one class of widths and one bucket of contexts.
struct UnitWork {
  WorkKind kind;
  std::vector<double> isolated_s;  ///< per unit: time of all the work on it alone
  std::vector<double> shares;      ///< shares at which the units end together while all compute
};

struct UnitProfile {
  double ns_per_byte = 0;  ///< of all units together with these shares; a later run checks with it whether they are still valid
  std::vector<UnitWork> works;
};

/// The initial shares, and whether they change.
enum class ShareRule {
  kAdaptive,  ///< as measured under contention if that was done; then they follow the measured times
  kIsolated,  ///< in proportion to the speeds of each unit alone, as in Medusa's baseline; fixed
  kTuned,     ///< as measured under contention, as in Ghidorah; fixed
};

/// The name of units that divide attention like this, as a part of such a key.
std::string kept_name(const std::vector<UnitSpec>& units, AttentionCut cut);
/// The profile of the last day for a key that names the units; nothing if there is none or it is damaged.
std::optional<UnitProfile> read_unit_profile(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_unit_profile(const std::string& folder, const MeasurementKey& key, const UnitProfile& profile, std::int64_t now_s);

/// Sets the unit's shares to those of the profile. Where they are fixed, attention is divided by its own.
void apply(const UnitProfile& profile, ShareRule rule, SplitUnit& unit);

}  // namespace yamata
