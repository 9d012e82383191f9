// What a rank computes on.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "launch/job.hpp"
#include "launch/planning/measurement_cache.hpp"
#include "launch/planning/unit_profile.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/device_units.hpp"
#include "node/error.hpp"
#include "node/split_unit.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {

RankPlace Job::place() const { return {topology_, local_rank_, local_size_, options_.numa}; }

/// A rank that only guesses has no other units.
void Job::find_own_units() {
  const bool guesses = hello_.model != 0;
  draft_units_ = find_units(options_.draft_units, options_.threads, place());
  if (!guesses || draft_units_.empty()) units_ = find_units(options_.units, options_.threads, place());
}

/// What a model's stages on this rank compute on.
ComputeUnit& Job::unit_of(std::size_t model) {
  const bool apart = model != 0 && !draft_units_.empty();
  std::unique_ptr<ComputeUnit>& unit = apart ? draft_unit_ : unit_;
  if (!unit) unit = make_unit(apart ? draft_units_ : units_);
  return *unit;
}

std::unique_ptr<ComputeUnit> Job::make_unit(const std::vector<UnitSpec>& units) const {
  std::unique_ptr<ComputeUnit> unit;
  if (units.empty()) {
    unit = std::make_unique<CpuUnit>(cpus_, isa_, nodes_of(topology_, cpus_));
  } else if (units.size() == 1) {
    unit = make_one_unit(units.front(), isa_, place(), nodes_of(topology_, cpus_));
  } else {
    const bool given = units.front().share.has_value();
    auto split = make_split_unit(units, !given && options_.share_rule == ShareRule::kAdaptive, isa_, place());
    if (!given) begin_shares(*split, units);
    unit = std::move(split);
  }
  if (const char* factor = std::getenv("YAMATA_SLOW")) unit->slow_down(std::strtod(factor, nullptr));  // see launch/emulate
  return unit;
}

/// As they were measured, where the units are still as fast together as they were then.
void Job::begin_shares(SplitUnit& unit, const std::vector<UnitSpec>& units) const {
  const auto own = static_cast<std::size_t>(hello_.model);
  if (!models_[own]) return;
  const MeasurementKey key{host_,       hello_.isa,    hello_.fingerprints[own], hello_.threads, local_rank_,
                           local_size_, options_.numa, names_of(units)};
  const auto kept = read_unit_profile(measurement_folder(), key, std::time(nullptr));
  if (!kept && options_.share_rule != ShareRule::kAdaptive)
    throw UsageError(fmt::format("the preset needs the units' speeds, measured within a day; run yamata profile -m {} --units {} first",
                                 model_path(own), names_of(units)));
  if (!kept) return;
  apply(*kept, options_.share_rule, unit);
  if (options_.share_rule != ShareRule::kAdaptive) return;
  LayerProbe probe(*models_[own], probe_layer(*models_[own]), unit);
  if (!probe.warm_up(options_.timeout / 4) || std::abs(probe.quick_check() / kept->ns_per_byte - 1) > 1.0 / 3) unit.shares().forget();
}

/// What the units of this machine need beyond what one of them would.
std::uint64_t Job::unit_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& model : models_) {
    if (!model || units_.size() < 2) continue;
    const Hyperparameters& h = model->h;
    const ScratchNeeds needs{.rows = options_.batch, .widest = h.widest_input(), .heads = h.heads, .head_dim = h.head_dim};
    bytes = std::max(bytes, SplitUnit::scratch_bytes(needs, static_cast<int>(units_.size())));
  }
  return bytes;
}

/// For weights and cache: those of the host, or of a device that has memory of its own. Where units share memory all of them must reach it.
std::uint64_t Job::available_bytes() const {
  std::uint64_t bytes = available_memory_bytes();
  const std::vector<UnitSpec>& own = units_.empty() ? draft_units_ : units_;
  for (const UnitSpec& spec : own) {
    if (!spec.device) continue;
    const DeviceBytes device = device_bytes(spec.name, local_rank_);
    bytes = own.size() == 1 && !device.unified ? device.free : std::min(bytes, device.free);
  }
  return bytes - std::min(bytes, unit_bytes());
}

}  // namespace yamata
