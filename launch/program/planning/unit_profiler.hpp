#pragma once
// The measurements of `yamata profile --units`: the time of each unit alone for each kind of work, and the shares at which the units end
// together.
#include <functional>
#include <span>
#include <vector>

#include "cache/kv_store.hpp"
#include "launch/program/planning/unit_profile.hpp"
#include "launch/program/planning/units.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

struct UnitProfileNeeds {
  std::vector<int> widths;    ///< one per class
  std::vector<int> contexts;  ///< tokens in the cache
  CacheTypes cache_types;
  bool repack = true;
  AttentionCut attention_cut = AttentionCut::kHeads;
};

/// One width per class, and the buckets of contexts up to the model's context length.
UnitProfileNeeds default_needs(const Hyperparameters& h);

/// Computes the model's last layer and the output repeatedly; `interrupted` may throw. Throws ModelError if the layer is invalid.
UnitProfile profile_units(const ModelFile& model, const std::vector<UnitSpec>& specs, cpu::Isa isa, const RankPlace& place,
                          const UnitProfileNeeds& needs, const std::function<void()>& interrupted);

}  // namespace yamata
