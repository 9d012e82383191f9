// yamata profile: measures this machine's peak rates, and how close a model comes to them.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <numeric>

#include "launch/commands/bench_report.hpp"
#include "launch/commands/commands.hpp"
#include "launch/commands/profile_report.hpp"
#include "launch/commands/tree_choice.hpp"
#include "launch/commands/unit_report.hpp"
#include "launch/program/input/interrupts.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/version.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "launch/program/planning/unit_profiler.hpp"
#include "launch/program/planning/units.hpp"
#include "mpi/cluster/head.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/cpu/probe/probe.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"
#include "src/model/layer_shapes.hpp"

namespace yamata {
namespace {

void stop_where_interrupted() {
  if (g_interrupted) throw Interrupted{};
}

ThreadCeiling measure_ceiling(MachineProbe& probe, int threads) {
  const ThreadCeiling found{threads, probe.read_bytes_per_s(threads), probe.byte_ops_per_s(threads), probe.float_ops_per_s(threads),
                            probe.barrier_s(threads)};
  stop_where_interrupted();
  return found;
}

/// The contexts for which the model was trained and the memory is large enough. Throws UsageError if the user gave others.
std::vector<int> possible_contexts(const ProfileOptions& o, const Hyperparameters& h, std::size_t free_bytes) {
  std::vector<int> possible;
  for (const int context : o.contexts) {
    const LayerRange all{0, h.layers};
    const std::size_t cell = cell_bytes(h, all, Shard(h), o.cache_types, false) + cell_bytes(h, all, Shard(h), o.cache_types, true);
    const std::size_t bytes = cell * static_cast<std::size_t>(context + 1);
    const bool fits = bytes <= free_bytes;
    if (context < h.context && fits) {
      possible.push_back(context);
    } else if (o.contexts_given) {
      throw UsageError(
          fits ? fmt::format("--contexts: {} tokens and one more are beyond this model's {}; give smaller ones", context, h.context)
               : fmt::format("--contexts: a cache of {} tokens takes {} MiB, {} are free; give smaller ones or -ctk q8_0", context,
                             bytes >> 20, free_bytes >> 20));
    }
  }
  return possible;
}

/// A model with its weights in memory, and the measurements to make with it.
class ModelSession {
 public:
  ModelSession(const ProfileOptions& o, CpuUnit& unit) : model_(ModelFile::open(o.model)) {
    require_storable(o.cache_types, model_.h.head_dim);
    const std::size_t free_bytes = available_memory_bytes(), packed = packed_bytes(model_, unit);
    const std::vector<int> contexts = possible_contexts(o, model_.h, free_bytes - std::min(free_bytes, packed));
    result_.packed = o.repack && packed > 0 && packed < free_bytes;
    ContextOptions context{0, 1, o.cache_types, result_.packed};
    for (const int width : o.widths) context.cells = std::max(context.cells, width);
    for (const int tokens : contexts) context.cells = std::max(context.cells, tokens + 1);
    timer_.emplace(model_, unit, context);
    timer_->load();
    result_.file = o.model;
    result_.type = model_type(model_.file, model_.h);
    result_.type_k = cache_type_name(o.cache_types.k);
    result_.type_v = cache_type_name(o.cache_types.v);
    result_.weights = timer_->weights();
    result_.weight_numbers = (result_.weights.byte_ops + result_.weights.float_ops) / 2;
    for (const int width : o.widths) result_.widths.push_back({width, 0, timer_->demand(width, 0), {}});
    for (const int tokens : contexts) result_.contexts.push_back({1, tokens, timer_->demand(1, tokens), {}});
  }

  void measure() {
    for (auto* runs : {&result_.widths, &result_.contexts}) {
      for (RunTimes& run : *runs) {
        run.samples_s.push_back(timer_->run(run.width, run.context));
        stop_where_interrupted();
      }
    }
  }
  const ModelProfile& result() const { return result_; }

 private:
  ModelFile model_;
  std::optional<ModelTimer> timer_;
  ModelProfile result_;
};

Profile describe_machine(const Topology& topology, cpu::Isa isa) {
  Profile profile;
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  profile.host = host;
  profile.version = version();
  profile.date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
  profile.cpu = cpu_name();
  profile.isa = cpu::isa_name(isa);
  profile.cores = static_cast<int>(topology.core_cpus.size());
  profile.numa_nodes = topology.numa_nodes;
  profile.cache_bytes = last_level_cache_bytes();
  profile.available_bytes = available_memory_bytes();
  return profile;
}

/// Peak rates and runs are measured alternately, in rounds, because the machine's speed changes with its other load.
void measure(MachineProbe& probe, Profile& profile, ModelSession* model) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::vector<std::vector<ThreadCeiling>> ceilings(static_cast<std::size_t>(probe.most_threads()));
  for (int round = 1; round <= profile.rounds; ++round) {
    if (terminal) fmt::print(stderr, "\rround {} of {}", round, profile.rounds);
    for (int threads = 1; threads <= probe.most_threads(); ++threads)
      ceilings[static_cast<std::size_t>(threads) - 1].push_back(measure_ceiling(probe, threads));
    if (model) model->measure();
  }
  for (const auto& rounds : ceilings) profile.ceilings.push_back(median(rounds));
  if (terminal) fmt::print(stderr, "\r{:40}\r", "");
}

/// --tree-from: finds the fastest tree for these units with their best shares.
void profile_the_trees(const ProfileOptions& o, const ModelFile& model, const TreeRates& rates, SplitUnit& unit,
                       const std::vector<UnitSpec>& units) {
  const auto heads = o.heads.mtp
                         ? draft_heads::DraftHeadsFile::in_target(model.file)
                         : draft_heads::DraftHeadsFile::open(o.heads.draft_heads[0], draft_heads::find_kind(o.heads.draft_heads_kind));
  TreeReport report{.rates_file = o.tree_from, .tree_file = o.tree_out, .units = names_of(units)};
  report.context = o.contexts_given ? o.contexts.front() : usual_context(model.h);
  report.choices = build_trees(rates, stop_where_interrupted);
  TreeBench bench(model, heads, o.heads.draft_heads_matrices, unit,
                  {.context = report.context, .cache_types = o.cache_types, .repack = o.repack});
  report.best_widths = measure_steps(bench, report.choices, o.rounds, stop_where_interrupted);
  print_out("\n{}", to_table(report));
  write_outputs({{o.tree_out, [&] { return to_json(report); }}});
}

/// --units: measures the best shares of the units for the model's layers, and keeps them for later runs.
void profile_the_units(const ProfileOptions& o, const Topology& topology, cpu::Isa isa) {
  const ModelFile model = ModelFile::open(o.model);
  require_storable(o.cache_types, model.h.head_dim);
  const RankPlace place{.topology = topology, .numa = o.numa};
  const std::vector<UnitSpec> units = find_units(o.units, o.threads, place);
  require_fit(units, model.h);
  std::optional<TreeRates> rates;
  if (!o.tree_from.empty()) {
    rates = read_rates(o.tree_from, "--tree-from");
    require_room_for_trees(o, model.h);
    warn_of_few_guesses(*rates, o.tree_from);
  }
  UnitProfileNeeds needs = default_needs(model.h);
  needs.cache_types = o.cache_types;
  needs.repack = o.repack;
  needs.attention_cut = o.attention_cut;
  const UnitProfile found = profile_units(model, units, isa, place, needs, stop_where_interrupted);
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  const int threads = static_cast<int>(cpus_of(units, topology).size());
  keep_unit_profile(measurement_folder(),
                    {host, cpu::isa_name(isa), model.file.fingerprint(), threads, 0, 1, o.numa, kept_name(units, o.attention_cut)}, found,
                    std::time(nullptr));
  print_out(to_table(found, units));
  write_outputs({{o.json_file, [&] { return to_json(found, units); }}});
  if (!rates) return;
  const auto unit = make_split_unit(units, false, isa, place);
  unit->divide_attention(o.attention_cut);
  apply(found, ShareRule::kTuned, *unit);
  profile_the_trees(o, model, *rates, *unit, units);
}

}  // namespace

void profile_command(const ProfileOptions& o) {
  std::vector<std::string> inputs{o.model, o.tree_from};
  inputs.insert(inputs.end(), o.heads.draft_heads.begin(), o.heads.draft_heads.end());
  check_outputs({{o.json_file, OutputKind::kJson}, {o.tree_out, OutputKind::kJson}}, inputs);
  if (!o.units.empty()) return profile_the_units(o, Topology::detect(), cpu::choose_isa());
  const cpu::Isa isa = cpu::choose_isa();
  const Topology topology = Topology::detect();
  const std::vector<int> cpus = assign_cpus(topology, o.threads, 0, 1, o.numa);
  Profile profile = describe_machine(topology, isa);
  profile.numa = kNumaNames.at(static_cast<std::size_t>(o.numa));
  profile.rounds = o.rounds;

  std::optional<CpuUnit> unit;
  std::optional<ModelSession> model;
  if (!o.model.empty()) {
    unit.emplace(cpus, isa, nodes_of(topology, cpus));
    model.emplace(o, *unit);
  }
  profile.memory_bytes = o.memory_mib ? static_cast<std::size_t>(o.memory_mib) << 20 : probe_memory_bytes();
  MachineProbe probe(cpus, isa, profile.memory_bytes);
  measure(probe, profile, model ? &*model : nullptr);
  if (model) profile.models.push_back(model->result());
  print_out(to_table(profile));
  write_outputs({{o.json_file, [&] { return to_json(profile); }}});
}

}  // namespace yamata
