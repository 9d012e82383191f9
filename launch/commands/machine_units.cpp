#include "launch/commands/machine_units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "launch/program/options/flag_values.hpp"
#include "launch/program/options/unit_flags.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/planning/units.hpp"
#include "node/cpu/probe/probe.hpp"
#include "node/device_units.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"
#include "src/model/layer_probe.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

constexpr std::array<int, 4> kStepWidths{2, 4, 8, 16};  // a token and 1, 3, 7, 15 guesses; the last is Dovetail's

/// The units of the target; with -ngl alone, cores and the device of this number, or cores alone, and the reason in `why_not`.
std::vector<UnitSpec> units_of_target(const MachineUnits& machine, const RankPlace& place, std::string& why_not) {
  if (!machine.units.empty()) return machine.units;
  if (machine.gpu_layers.value_or(0) == 0) return {{.name = "cpu", .cpus = {}}};
  return cores_and_device(place, why_not);
}

std::optional<UnitSpec> device_among(std::span<const UnitSpec> units) {
  const auto found = std::ranges::find_if(units, &UnitSpec::device);
  return found == units.end() ? std::nullopt : std::optional(*found);
}

std::vector<UnitSpec> cores_among(std::vector<UnitSpec> units) {
  std::erase_if(units, &UnitSpec::device);
  return units;
}

/// A machine as its rank would describe it, as far as memory matters.
wire::Hello hello_of(const MachineUnits& machine, const RankPlace& place) {
  wire::Hello hello;
  hello.host = "this machine", hello.threads = 1, hello.available_bytes = std::numeric_limits<std::int64_t>::max();
  if (machine.gpu_layers.value_or(0) == 0) return hello;
  const std::vector<UnitSpec> units = units_of_target(machine, place, hello.no_device);
  if (!hello.no_device.empty()) return hello;
  const std::string device = own_device_name(device_among(units)->name, place.local_rank);
  const DeviceBytes bytes = device_bytes(device, place.local_rank);
  hello.device = names_of(units), hello.device_layers = *machine.gpu_layers;
  hello.device_bytes = bytes.free, hello.device_is_unified = bytes.unified;
  for (const UnitSpec& draft : machine.draft_units)
    hello.device_drafts |= draft.device && own_device_name(draft.name, place.local_rank) == device;
  return hello;
}

/// Seconds of runs of 1 token and of kStepWidths through a whole model on these units.
std::vector<double> seconds_on(const std::vector<UnitSpec>& units, const ModelFile& model, const RankPlace& place) {
  const cpu::Isa isa = cpu::choose_isa();
  const std::vector<int> nodes = nodes_of(place.topology, cpus_of(units, place.topology));
  const std::unique_ptr<ComputeUnit> unit = units.size() == 1 ? make_one_unit(units.front(), isa, place, nodes)
                                                              : std::unique_ptr<ComputeUnit>(make_split_unit(units, true, isa, place));
  LayerProbe probe(model, layers_of_bytes(model, model.h.layers / 2, uncached_bytes()), *unit, kStepWidths.back());
  probe.warm_up(std::chrono::hours(1));
  const double one = 1e-9 * probe.measure() * static_cast<double>(read_bytes(model.file, model.h, {0, model.h.layers}));
  std::vector<double> seconds{one};
  for (const double multiple : probe.width_multiples(kStepWidths)) seconds.push_back(one * multiple);
  model.file.release_pages();
  return seconds;
}

/// Multiplications and additions of weights per token.
double ops_of_token(const ModelFile& model) {
  double numbers = 0, held = 0;
  for (const FoundTensor& found : find_tensors(model.file, model.h, {0, model.h.layers}, Shard(model.h))) {
    if (is_looked_up(found.role)) continue;
    numbers += static_cast<double>(found.rows * found.cols), held += static_cast<double>(found.held_bytes());
  }
  const auto read = static_cast<double>(read_bytes(model.file, model.h, {0, model.h.layers}));
  return 2 * numbers * read / std::max(1.0, held);
}

}  // namespace

void add_machine_units(Flags& flags, const char* group) {
  auto add = flags.group(group);
  add("--units", "One machine: compute units of the target, as in run, such as cpu+cuda:0", FlagKind::kWord, "UNITS", "auto");
  add("-ngl, --gpu-layers, --n-gpu-layers",
      "-ngl: a GPU has the first N layers of each rank (auto: as many as fit into its memory beside drafts there)", FlagKind::kWord, "N",
      "");
  add("--draft-units", "Compute units of the draft or heads, as in run (auto: those of the target, with -ngl its cores)", FlagKind::kWord,
      "UNITS", "auto");
  add("--heads", "Draft heads", FlagKind::kFile, "FILE");
}

MachineUnits read_machine_units(const GivenFlags& r) {
  MachineUnits machine;
  machine.units = parse_units(r.text("units"));
  machine.draft_units = parse_units(r.text("draft-units"), "--draft-units");
  if (r.given("gpu-layers")) machine.gpu_layers = parse_gpu_layers(r.text("gpu-layers"), machine.units);
  machine.draft_heads = r.text("heads");
  machine.draft_model = r.text("model-draft");
  if (!machine.draft_heads.empty() && !machine.draft_model.empty()) throw UsageError("--heads and -md: leave out one of them");
  if (!machine.draft_units.empty() && machine.draft_heads.empty() && machine.draft_model.empty())
    throw UsageError("--draft-units needs a draft; name one with --heads FILE or -md FILE.gguf");
  return machine;
}

MachineDraft open_draft(const MachineUnits& machine, const ModelFile& target, CacheTypes cache_types) {
  MachineDraft draft;
  if (!machine.draft_model.empty()) draft.model = ModelFile::open(machine.draft_model);
  if (machine.draft_heads.empty()) return draft;
  draft.heads = draft_heads::DraftHeadsFile::open(machine.draft_heads, std::nullopt);
  draft.needs = draft.heads->needs(target, {0, 1, cache_types}, ModelFiles().draft_heads_matrices);
  return draft;
}

wire::Start plan_machine(const MachineUnits& machine, const ModelFile& model, const MachineDraft& draft, wire::PipelinePlan target,
                         CacheTypes cache_types, int batch) {
  const Topology topology = Topology::detect();
  wire::Start plan;
  plan.cache_types = cache_types, plan.batch = batch;
  const auto ranks = static_cast<int>(target.ranks.size());
  const std::int32_t cells = target.cells;
  plan.pipelines.push_back(std::move(target));
  if (draft.guesses()) {
    const std::int64_t layers = draft.model ? draft.model->h.layers : 1;
    plan.pipelines.push_back({.model = 1, .ranks = {0}, .layers = {{0, layers}}, .cells = cells});
  }
  std::vector<wire::Hello> hellos;
  for (int rank = 0; rank < ranks; ++rank) hellos.push_back(hello_of(machine, {topology, rank, ranks}));
  if (const std::string without = ranks_without_device(hellos); !without.empty())
    warn(fmt::format("-ngl {}: {}", gpu_layers_text(*machine.gpu_layers), without));
  std::vector<const ModelFile*> models{&model};
  std::vector<RankBytes> heads;
  if (draft.model) models.push_back(&*draft.model);
  if (draft.heads) heads.push_back(draft_bytes(model, draft, plan));
  plan_device_layers(models, plan, hellos, heads);
  plan_memory(models, plan, hellos, heads);
  std::ranges::for_each(ranks_without_layers(plan, hellos), warn);
  return plan;
}

RankBytes draft_bytes(const ModelFile& target, const MachineDraft& draft, const wire::Start& plan) {
  if (draft.model) return rank_bytes(*draft.model, {0, draft.model->h.layers}, Shard(draft.model->h), plan.cache_types, plan.batch, 1);
  if (!draft.heads || target.h.layers == 0) return {};
  return {draft.needs.weight_bytes, draft.needs.cache_per_cell, draft.needs.row_bytes * static_cast<std::uint64_t>(plan.batch)};
}

DraftingTimes measure_drafting(const MachineUnits& machine, const ModelFile& target, const MachineDraft& draft, std::int64_t device_layers,
                               int threads, double acceptance) {
  const Topology topology = Topology::detect();
  const RankPlace place{topology};
  const bool layered = machine.gpu_layers.value_or(0) > 0;
  std::string why_not;  // plan_machine has said so
  const std::vector<UnitSpec> units = find_units(units_of_target(machine, place, why_not), threads, place, layered);
  const std::vector<UnitSpec> cores = cores_among(units), own = layered ? cores : units;
  const std::vector<UnitSpec> guessing =
      machine.draft_units.empty() ? own : find_units(machine.draft_units, threads, place, false, "--draft-units");
  const std::optional<UnitSpec> of_target = device_among(units), device = of_target ? of_target : device_among(guessing);
  const auto layers = static_cast<double>(target.h.layers),
             bytes = static_cast<double>(read_bytes(target.file, target.h, {0, target.h.layers}));
  const double there = layered ? static_cast<double>(device_layers) / layers : 0;

  DraftingTimes times{.acceptance = acceptance};
  std::vector<double> seconds = seconds_on(own, target, place), on_device;
  if (device) on_device = own.size() == 1 && own.front().device ? seconds : seconds_on({*device}, target, place);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (there > 0) seconds[i] = (1 - there) * seconds[i] + there * on_device[i];
    if (i > 0) times.verify_s.emplace_back(kStepWidths[i - 1] - 1, seconds[i]);
  }
  times.token_s = seconds.front();
  const std::vector<double> of_draft = seconds_on(guessing, draft.model ? *draft.model : target, place);
  times.draft_s = draft.model ? of_draft.front() : of_draft.front() * static_cast<double>(draft.needs.evaluation_bytes) / bytes;
  times.at_once = draft.heads && draft.heads->kind() == draft_heads::Kind::kMedusa;
  if (device) times.load_s = bytes / (1e9 * machine.bus_gb_s), times.device_s = on_device.front();
  if (!cores.empty()) {
    MachineProbe probe(cpus_of(cores, topology), cpu::choose_isa(), probe_memory_bytes());
    times.compute_s = (1 - there) * ops_of_token(target) / probe.byte_ops_per_s(probe.most_threads());
    times.memory_s = (1 - there) * bytes / probe.read_bytes_per_s(probe.most_threads());
  }
  return times;
}

}  // namespace yamata
