#pragma once
// Measures what `yamata profile --units` keeps: how long each unit takes alone for each kind of work, and at which shares they end
// together.
#include <functional>
#include <span>
#include <vector>

#include "cache/kv_store.hpp"
#include "launch/planning/unit_profile.hpp"
#include "launch/planning/units.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

struct UnitProfileNeeds {
  std::vector<int> widths;    ///< one of each class
  std::vector<int> contexts;  ///< tokens in the cache
  CacheTypes cache_types;
  bool repack = true;
};

/// One of each class of widths; the buckets of contexts that the model goes to.
UnitProfileNeeds default_needs(const Hyperparameters& h);

/// Computes the model's last layer, with its output, again and again; `interrupted` may throw. Throws ModelError where it is not as it
/// should be.
UnitProfile profile_units(const ModelFile& model, const std::vector<UnitSpec>& specs, cpu::Isa isa, const RankPlace& place,
                          const UnitProfileNeeds& needs, const std::function<void()>& interrupted);

}  // namespace yamata
