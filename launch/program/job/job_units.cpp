// The compute units of a rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>

#include "launch/program/job/job.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "launch/program/planning/unit_profile.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/device_units.hpp"
#include "node/error.hpp"
#include "node/units/split_unit.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {

RankPlace Job::place() const { return {topology_, local_rank_, local_size_, options_.numa}; }

/// Whether this rank cannot get layers of the target. False while its part is open.
bool Job::only_guesses() const { return hello_.model != 0 && !(models_.front() && (layout_is_open() || drafter_placement_is_open())); }

/// A rank that only drafts has no other units. It cannot use a device that has layers of the target.
void Job::find_own_units() {
  const bool guesses = only_guesses();
  draft_units_ = find_units(options_.draft_units, options_.threads, place(), false, "--draft-units");
  if (guesses && !draft_units_.empty()) return;
  std::vector<UnitSpec> units = options_.units;
  const int layers = options_.gpu_layers.value_or(-1);
  if (layers == 0 || (layers > 0 && guesses)) {
    std::erase_if(units, &UnitSpec::device);
  } else if (layers > 0 && units.empty()) {
    units = cores_and_device(place(), hello_.no_device);
    if (units.size() < 2) units.clear();
  }
  first_layers_ = layers > 0 && units.size() > 1 && std::ranges::any_of(units, &UnitSpec::device) ? layers : 0;
  units_ = find_units(units, options_.threads, place(), first_layers_ > 0);
}

/// A device that is to compute both the target and drafts, if they are on this rank.
std::optional<std::string> Job::device_of_both() const {
  const auto named = [this](const UnitSpec& spec) { return own_device_name(spec.name, local_rank_); };
  for (const UnitSpec& draft : draft_units_) {
    const auto same = [&](const UnitSpec& unit) { return unit.device && draft.device && named(unit) == named(draft); };
    if (std::ranges::any_of(units_, same)) return named(draft);
  }
  return std::nullopt;
}

/// Throws UsageError if a device is used for the target and for drafts: a device belongs to one unit.
void Job::require_one_use_each() const {
  if (const auto device = device_of_both())
    throw UsageError(
        fmt::format("--draft-units {0}: rank {1} ({2}) computes the target on {0}, too, and a device is one unit's; leave out {3}", *device,
                    transport_.rank(), host_, first_layers_ > 0 ? "--draft-units or -ngl" : "--draft-units, or name another device"));
}

/// The units of the target on this rank; of drafts, if it cannot get layers of the target.
const std::vector<UnitSpec>& Job::main_units() const { return only_guesses() && !draft_units_.empty() ? draft_units_ : units_; }

/// The compute unit of a model's stages on this rank. If the rank was only measured as one of the target's and became a drafter, the unit
/// that was measured ends first: both may be the same device.
ComputeUnit& Job::unit_of(std::size_t model) {
  const bool apart = model != 0 && !draft_units_.empty();
  std::unique_ptr<ComputeUnit>& unit = apart ? draft_unit_ : unit_;
  if (apart && !computes_target_) {
    probe_.reset();
    unit_.reset();
  }
  if (!unit) {
    if (apart ? unit_ : draft_unit_) require_one_use_each();
    unit = make_unit(apart ? draft_units_ : units_);
  }
  return *unit;
}

std::unique_ptr<ComputeUnit> Job::make_unit(const std::vector<UnitSpec>& units) const {
  std::unique_ptr<ComputeUnit> unit;
  if (units.empty()) {
    unit = std::make_unique<CpuUnit>(cpus_, isa_, nodes_of(topology_, cpus_));
  } else if (first_layers_ > 0 && &units == &units_) {
    unit = make_layered_unit(units, isa_, place());
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

/// Sets the measured shares, if the units together are still as fast as in that measurement.
void Job::begin_shares(SplitUnit& unit, const std::vector<UnitSpec>& units) const {
  const auto own = static_cast<std::size_t>(only_guesses() ? hello_.model : 0);
  if (is_draft_heads(static_cast<int>(own)) || !models_[own]) return;
  const MeasurementKey key{host_,       hello_.isa,    hello_.fingerprints[own], hello_.threads, local_rank_,
                           local_size_, options_.numa, names_of(units)};
  const auto kept = read_unit_profile(measurement_folder(), key, std::time(nullptr));
  if (!kept && options_.share_rule != ShareRule::kAdaptive)
    throw UsageError(fmt::format("the preset needs the units' speeds, measured within a day; run yamata profile -m {} --units {} first",
                                 model_path(own), names_of(units)));
  if (!kept) return;
  apply(*kept, options_.share_rule, unit);
  if (options_.share_rule != ShareRule::kAdaptive) return;
  const std::int64_t layer = probe_layer(*models_[own]);
  LayerProbe probe(*models_[own], {layer, layer + 1}, unit);
  if (!probe.warm_up(options_.timeout / 4) || !agrees(std::array{MeasuredSpeed{.ns_per_byte = kept->ns_per_byte}}, probe.quick_check()))
    unit.shares().forget();
}

/// Memory of this machine's units that share layers, beyond the memory of a single unit.
std::uint64_t Job::unit_bytes() const {
  std::uint64_t bytes = 0;
  const std::int64_t sharing = sharing_units(units_, first_layers_ > 0);
  for (const auto& model : models_) {
    if (!model || sharing < 2) continue;
    const Hyperparameters& h = model->h;
    const ScratchNeeds needs{.rows = options_.batch, .widest = h.widest_input(), .heads = h.heads, .head_dim = h.head_dim};
    bytes = std::max(bytes, SplitUnit::scratch_bytes(needs, static_cast<int>(sharing)));
  }
  return bytes;
}

/// A device that computes whole layers has them in its own memory.
void Job::describe_device() {
  if (std::ranges::any_of(main_units(), &UnitSpec::device)) hello_.device = names_of(main_units());
  if (first_layers_ == 0) return;
  const DeviceBytes device = device_bytes(std::ranges::find_if(units_, &UnitSpec::device)->name, local_rank_);
  hello_.device_layers = first_layers_;
  hello_.device_bytes = device.free;
  hello_.device_is_unified = device.unified ? 1 : 0;
}

/// Memory for weights and cache: the host's, or that of a device with memory of its own. If units share memory, all of them must be able to
/// access it.
std::uint64_t Job::available_bytes() const {
  std::uint64_t bytes = available_memory_bytes();
  if (first_layers_ > 0) return bytes - std::min(bytes, unit_bytes());
  for (const UnitSpec& spec : main_units()) {
    if (!spec.device) continue;
    const DeviceBytes device = device_bytes(spec.name, local_rank_);
    bytes = main_units().size() == 1 && !device.unified ? device.free : std::min(bytes, device.free);
  }
  return bytes - std::min(bytes, unit_bytes());
}

}  // namespace yamata
