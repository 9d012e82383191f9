#include "launch/program/job/rank_units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>

#include "launch/program/planning/unit_profile.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/device_units.hpp"
#include "node/error.hpp"
#include "node/units/split_unit.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {

RankUnits::RankUnits(const ComputeOptions& options, const RankLocation& location, const RankModels& models, const JobLayout& layout,
                     Limits limits)
    : options_(options), location_(location), models_(models), layout_(layout), limits_(limits) {}

void RankUnits::find(cpu::Isa isa) {
  isa_ = isa;
  // Launchers bind ranks as if each were one thread; Yamata divides the cores itself.
  topology_ = Topology::detect(location_.ranks > 1);
  find_units_of_flags();
  threads_ = choose_cpus();
}

/// Whether this rank cannot get layers of the target. False while its part is open.
bool RankUnits::only_guesses() const {
  return models_.own() != 0 && !(models_.has(0) && (layout_.is_open() || layout_.drafters_are_open()));
}

/// A rank that only drafts has no other units.
void RankUnits::find_units_of_flags() {
  const bool guesses = only_guesses();
  draft_units_ = find_units(options_.draft_units, options_.threads, place(), false, "--draft-units");
  if (guesses && !draft_units_.empty()) return;
  std::vector<UnitSpec> units = options_.units;
  const int layers = options_.gpu_layers.value_or(-1);
  if (layers == 0 || (layers > 0 && guesses)) {
    std::erase_if(units, &UnitSpec::device);
  } else if (layers > 0 && units.empty()) {
    units = cores_and_device(place(), no_device_);
    if (units.size() < 2) units.clear();
  }
  first_layers_ = layers > 0 && units.size() > 1 && std::ranges::any_of(units, &UnitSpec::device) ? layers : 0;
  units_ = find_units(units, options_.threads, place(), first_layers_ > 0);
}

/// The logical CPUs of this rank's threads: as many as the flags say, or the fastest number for the model that this rank must have.
ThreadChoice RankUnits::choose_cpus() const {
  std::vector<UnitSpec> own_units = main_units();
  if (!own_units.empty()) {
    const char* flag = &main_units() == &draft_units_ ? "--draft-units" : "--units";
    for (std::size_t model = 0; !models_.is_draft_heads(static_cast<int>(model)); ++model)
      if (const ModelFile* file = models_.find(model)) require_fit(own_units, file->h, first_layers_ > 0, flag);
    if (first_layers_ > 0) std::erase_if(own_units, &UnitSpec::device);  // the device's thread and the others do not run at the same time
    return {cpus_of(own_units, topology_)};
  }
  const auto some = [&](int threads) { return assign_cpus(topology_, threads, location_.local_rank, location_.local_size, options_.numa); };
  const std::vector<int> all = some(options_.threads);
  const std::size_t own = models_.is_draft_heads(static_cast<int>(models_.own())) ? 0 : models_.own();
  const ModelFile* model = models_.find(own);
  if (options_.threads > 0 || all.size() < 2 || !model) return {all};
  std::vector<std::vector<int>> choices;
  for (const int count : thread_counts(topology_, all)) choices.push_back(some(count));
  try {
    return choose_threads(choices, {measurement_folder(), key(own, 0, ""), std::time(nullptr), options_.measure_threads, load_file()},
                          layer_trials(*model, location_.probed_layer(model->h.layers), isa_, limits_.patience));
  } catch (const ModelError&) {  // the rank that will hold the damaged layer reports it
    return {all};
  }
}

/// The units of the target on this rank; of drafts, if it cannot get layers of the target.
const std::vector<UnitSpec>& RankUnits::main_units() const { return only_guesses() && !draft_units_.empty() ? draft_units_ : units_; }

MeasurementKey RankUnits::key(std::size_t model, int threads, const std::string& units) const {
  return {location_.host,
          cpu::isa_name(isa_),
          models_.fingerprints()[model],
          threads,
          location_.local_rank,
          location_.local_size,
          options_.numa,
          units};
}

MeasurementKey RankUnits::speed_key() const {
  return key(0, threads(), names_of(units_) + (copies_others() ? "-copied" : first_layers_ > 0 ? "-layered" : ""));
}

MeasurementKey RankUnits::device_key() const { return key(0, threads(), device().name + "-one-layer"); }

/// Whether drafts and heads of this rank compute on the device that has whole layers of the target.
bool RankUnits::drafts_beside_layers() const {
  if (first_layers_ == 0) return false;
  if (copies_others() && draft_units_.empty()) return true;
  const auto named = [this](const UnitSpec& spec) { return own_device_name(spec.name, location_.local_rank); };
  return std::ranges::any_of(draft_units_, [&](const UnitSpec& draft) { return draft.device && named(draft) == named(device()); });
}

ComputeUnit& RankUnits::of(std::size_t model) {
  const bool apart = model != 0 && !draft_units_.empty();
  std::unique_ptr<ComputeUnit>& unit = apart ? draft_unit_ : unit_;
  if (apart && !computes_target_) unit_.reset();
  if (!unit) unit = make_unit(apart ? draft_units_ : units_);
  return *unit;
}

std::unique_ptr<ComputeUnit> RankUnits::make_unit(const std::vector<UnitSpec>& units) const {
  std::unique_ptr<ComputeUnit> unit;
  if (units.empty()) {
    unit = std::make_unique<CpuUnit>(threads_.cpus, isa_, nodes_of(topology_, threads_.cpus));
  } else if (first_layers_ > 0 && &units == &units_) {
    if (copies_others())
      unit = make_one_unit(device(), isa_, place(), {});
    else
      unit = make_layered_unit(units, isa_, place());
  } else if (units.size() == 1) {
    unit = make_one_unit(units.front(), isa_, place(), nodes_of(topology_, threads_.cpus));
  } else {
    const bool given = units.front().share.has_value();
    auto split = make_split_unit(units, !given && options_.share_rule == ShareRule::kAdaptive, isa_, place());
    const AttentionCut cut = attention_cut(units);
    split->divide_attention(cut);
    if (!given) begin_shares(*split, units, cut);
    unit = std::move(split);
  }
  if (const char* factor = std::getenv("YAMATA_SLOW")) unit->slow_down(std::strtod(factor, nullptr));  // see launch/emulate
  return unit;
}

/// The profile of these units, if one was measured within a day.
std::optional<UnitProfile> RankUnits::kept_profile(const std::vector<UnitSpec>& units, AttentionCut cut) const {
  const std::size_t own = only_guesses() ? models_.own() : 0;
  if (!models_.find(own)) return std::nullopt;
  return read_unit_profile(measurement_folder(), key(own, threads(), kept_name(units, cut)), std::time(nullptr));
}

/// As the flag says; without it, tuned shares are those of Ghidorah's moving boundary, if they were measured.
AttentionCut RankUnits::attention_cut(const std::vector<UnitSpec>& units) const {
  const bool open = options_.share_rule == ShareRule::kTuned && !options_.attention_cut_given;
  return open && kept_profile(units, AttentionCut::kDynamic) ? AttentionCut::kDynamic : options_.attention_cut;
}

/// Sets the measured shares, if the units together are still as fast as in that measurement.
void RankUnits::begin_shares(SplitUnit& unit, const std::vector<UnitSpec>& units, AttentionCut cut) const {
  const std::size_t own = only_guesses() ? models_.own() : 0;
  const ModelFile* model = models_.find(own);
  if (!model) return;
  const auto kept = kept_profile(units, cut);
  if (!kept && options_.share_rule != ShareRule::kAdaptive)
    throw UsageError(fmt::format(
        "the preset needs the units' speeds, measured within a day; run yamata profile -m {} --units {}{} first", models_.path(own),
        names_of(units),
        cut == AttentionCut::kHeads ? "" : fmt::format(" --attention-cut {}", kAttentionCutNames[static_cast<std::size_t>(cut)])));
  if (!kept) return;
  apply(*kept, options_.share_rule, unit);
  if (options_.share_rule != ShareRule::kAdaptive) return;
  const std::int64_t layer = location_.probed_layer(model->h.layers);
  LayerProbe probe(*model, {layer, layer + 1}, unit);
  if (!probe.warm_up(limits_.patience) || !agrees(std::array{MeasuredSpeed{.ns_per_byte = kept->ns_per_byte}}, probe.quick_check()))
    unit.shares().forget();
}

/// Memory of this machine's units that share layers, beyond the memory of a single unit.
std::uint64_t RankUnits::shared_bytes() const {
  std::uint64_t bytes = 0;
  const std::int64_t sharing = sharing_units(units_, first_layers_ > 0);
  for (std::size_t m = 0; sharing >= 2 && !models_.is_draft_heads(static_cast<int>(m)); ++m) {
    const ModelFile* model = models_.find(m);
    if (!model) continue;
    const Hyperparameters& h = model->h;
    const ScratchNeeds needs{
        .rows = limits_.batch, .widest = h.widest_input(), .heads = h.heads, .head_dim = h.widest_head(), .scores = h.is_sparse()};
    bytes = std::max(bytes, SplitUnit::scratch_bytes(needs, static_cast<int>(sharing)));
  }
  return bytes;
}

std::uint64_t RankUnits::first_layers_bytes() const {
  return first_layers_ == 0 ? 0 : device_bytes(device().name, location_.local_rank).free;
}

/// A device that computes whole layers has them in its own memory.
void RankUnits::describe(wire::Hello& hello) const {
  hello.isa = cpu::isa_name(isa_);
  hello.threads = static_cast<std::int32_t>(threads());
  hello.threads_measured_s = threads_.measured_s;
  hello.logical_cpus = topology_.logical_cpus;
  hello.no_device = no_device_;
  hello.available_bytes = available_bytes();
  if (std::ranges::any_of(main_units(), &UnitSpec::device)) hello.device = names_of(main_units());
  if (first_layers_ == 0) return;
  const DeviceBytes bytes = device_bytes(device().name, location_.local_rank);
  if (copies_others() && bytes.unified)
    throw UsageError(
        fmt::format("--offload: {} uses the memory of the host, so nothing is copied to it; leave out --offload", device().name));
  hello.device_layers = first_layers_;
  hello.device_copies = copies_others() ? 1 : 0;
  hello.device_bytes = bytes.free;
  hello.device_is_unified = bytes.unified ? 1 : 0;
  hello.device_drafts = drafts_beside_layers() ? 1 : 0;
}

/// Memory for weights and cache: the host's, or that of a device with memory of its own. If units share memory, all of them must be able to
/// access it.
std::uint64_t RankUnits::available_bytes() const {
  std::uint64_t bytes = available_memory_bytes();
  if (first_layers_ > 0) return bytes - std::min(bytes, shared_bytes());
  for (const UnitSpec& spec : main_units()) {
    if (!spec.device) continue;
    const DeviceBytes device = device_bytes(spec.name, location_.local_rank);
    bytes = main_units().size() == 1 && !device.unified ? device.free : std::min(bytes, device.free);
  }
  return bytes - std::min(bytes, shared_bytes());
}

}  // namespace yamata
