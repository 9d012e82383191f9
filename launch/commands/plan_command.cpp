// yamata plan: finds the fastest layout for some machines.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "launch/commands/commands.hpp"
#include "launch/commands/model_timer.hpp"
#include "launch/commands/plan_report.hpp"
#include "launch/program/input/interrupts.hpp"
#include "launch/program/job/guessing.hpp"
#include "launch/program/job/job_text.hpp"
#include "launch/program/options/flag_values.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/planning/group_benchmarks.hpp"
#include "launch/program/planning/host_profiles.hpp"
#include "launch/program/planning/layout_planner.hpp"
#include "launch/program/planning/plan_file.hpp"
#include "node/counted.hpp"
#include "node/cpu/cpu_unit.hpp"
#include "node/error.hpp"
#include "node/topology.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {
namespace {

constexpr double kAcceptance = 0.65;

std::string this_host() {
  char name[256] = "localhost";
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// This machine's speed, from layers in the middle of the model.
PlannedHost measure_this_machine(const PlanOptions& o, const ModelFile& model) {
  const Topology topology = Topology::detect();
  const std::vector<int> cpus = assign_cpus(topology, o.threads, 0, 1, Numa::kAuto);
  CpuUnit unit(cpus, cpu::choose_isa(), nodes_of(topology, cpus));
  const std::vector<int> widths{2, 4, 8, 16};
  LayerProbe probe(model, layers_of_bytes(model, model.h.layers / 2, uncached_bytes()), unit, widths.back());
  probe.warm_up(std::chrono::hours(1));
  PlannedHost host{.name = this_host(), .free_bytes = available_memory_bytes(), .threads = static_cast<int>(cpus.size())};
  host.ns_per_byte = probe.measure();
  std::vector<simulation::WidthTime> measured{{1, 1.0}};
  const std::vector<double> multiples = probe.width_multiples(widths);
  for (std::size_t i = 0; i < widths.size(); ++i) measured.push_back({static_cast<std::size_t>(widths[i]), multiples[i]});
  host.width = simulation::WidthCost(times_by_width(measured));
  model.file.release_pages();
  return host;
}

/// Reads a plan whose machines were measured with this model.
PlanFile read_plan_of(const std::string& path, const ModelFile& model) {
  const auto plan = read_plan_file(path);
  if (!plan)
    throw ModelError(
        fmt::format("--from {}: it has no plan; 'yamata run --json FILE' on several machines, or 'yamata plan', writes one", path));
  if (plan->layers != model.h.layers || plan->widths.hidden != model.h.dim || plan->widths.vocabulary != model.h.vocabulary)
    throw ModelError(fmt::format("--from {}: its plan is of another model than -m; give the same", path));
  return *plan;
}

/// Reads the profiles of --profiles, which were made with this model.
std::vector<HostProfile> read_profiles_of(const std::string& folder, const ModelFile& model) {
  std::vector<HostProfile> profiles = read_profiles(folder);
  const double bytes = weight_bytes(model);
  for (const HostProfile& profile : profiles) {
    if (std::abs(profile.weight_bytes - bytes) > 0.5)
      throw ModelError(fmt::format("--profiles: {} is of another model than -m; make it again with 'yamata profile -m {} --json {}'",
                                   profile.file, model.file.name(), profile.file));
  }
  return profiles;
}

/// Warns of profiles that are of none of these hosts.
void warn_of_unused(const std::vector<HostProfile>& profiles, const std::vector<std::string>& hosts, const PlanOptions& o) {
  std::vector<std::string> unused;
  for (const HostProfile& profile : profiles) {
    if (std::ranges::find(hosts, profile.host.name) == hosts.end()) unused.push_back(profile.host.name + ".json");
  }
  if (unused.empty()) return;
  warn(fmt::format("--profiles {}: {} {} not used, as --hostfile {} has no host of that name; a profile is named HOST.json", o.profiles,
                   fmt::join(unused, ", "), unused.size() == 1 ? "is" : "are", o.hostfile));
}

/// The machines: those of the hostfile, those with a profile, or --ranks machines like this one. The first one leads.
std::vector<PlannedHost> find_hosts(const PlanOptions& o, const ModelFile& model) {
  const auto profiles = o.profiles.empty() ? std::vector<HostProfile>{} : read_profiles_of(o.profiles, model);
  std::vector<std::string> names;
  if (!o.hostfile.empty()) {
    names = read_hostfile(o.hostfile);
    warn_of_unused(profiles, names, o);
  } else {
    for (const HostProfile& profile : profiles) names.push_back(profile.host.name);
    for (int r = 0; profiles.empty() && r < o.ranks; ++r) names.push_back(fmt::format("host{}", r));
  }
  std::vector<PlannedHost> hosts;
  std::optional<PlannedHost> like_this;
  for (const std::string& name : names) {
    const auto known = std::ranges::find(profiles, name, [](const HostProfile& profile) { return profile.host.name; });
    if (known == profiles.end() && !like_this) like_this = measure_this_machine(o, model);
    hosts.push_back(known != profiles.end() ? known->host : *like_this);
    hosts.back().name = name;
  }
  return hosts;
}

/// The number of tokens to generate. Throws UsageError if prompt or text do not fit the context.
int read_length(const PlanOptions& o, int context, const Hyperparameters& h) {
  constexpr int kLength = 128;
  require_prompt_fits(o.prompt_tokens, context, h, "lower --prompt-tokens");
  const std::int64_t room = std::int64_t{context} - o.prompt_tokens + 1;  // the last token of a text needs no cell
  if (o.generate && *o.generate > room)
    throw UsageError(fmt::format("the context of {} tokens is full after {} of -n {}{} lower -n", context, counted(room, "token"),
                                 *o.generate, or_larger_context(context, h)));
  return o.generate.value_or(static_cast<int>(std::clamp<std::int64_t>(room, 2, kLength)));
}

/// Applies --slow.
std::vector<PlannedHost> slowed(std::vector<PlannedHost> hosts, const PlanOptions& o) {
  for (const auto& [rank, factor] : o.slow) {
    if (rank >= std::ssize(hosts))
      throw UsageError(fmt::format("--slow names rank {}, but there are {}", rank, counted(std::ssize(hosts), "machine")));
    hosts[static_cast<std::size_t>(rank)].ns_per_byte *= factor;
  }
  return hosts;
}

simulation::NetworkOptions network_of(const PlanOptions& o) {
  const auto nanoseconds = [](double ms) { return static_cast<simulation::Nanoseconds>(std::llround(ms * 1e6)); };
  return {nanoseconds(o.latency_ms), o.bandwidth_mbit_s * 1e6 / 8, nanoseconds(o.wake_up_ms)};
}

/// Where the layers and the draft are, and the cost model.
void plan_units(const PlanOptions& o, const ModelFile& target) {
  const MachineUnits& machine = *o.machine;
  const MachineDraft draft = open_draft(machine, target, o.cache_types);
  const int context = o.context > 0 ? o.context : static_cast<int>(std::min<std::int64_t>(target.h.context, kDefaultContext));
  const wire::Start plan =
      plan_machine(machine, target, draft, {.ranks = {0}, .layers = {{0, target.h.layers}}, .cells = context}, o.cache_types, o.batch);
  const std::int64_t on_device = plan.pipelines.front().first_layers.front();
  if (machine.gpu_layers) print_out("{} of {} on the device\n\n", on_device, counted(target.h.layers, "layer"));
  const DraftingTimes times = measure_drafting(machine, target, draft, on_device, o.threads, o.acceptance.value_or(kAcceptance));
  print_out("{}", to_table(times));
  write_outputs({{o.json_file, [&] { return to_json(times); }}});
}

}  // namespace

void plan_command(const PlanOptions& o) {
  std::vector<std::string> inputs{o.model, o.draft_model, o.from_file, o.hostfile, o.machine ? o.machine->draft_heads : ""};
  if (!o.profiles.empty()) std::ranges::copy(profile_files(o.profiles), std::back_inserter(inputs));
  check_outputs({{o.json_file, OutputKind::kJson}}, inputs);
  const ModelFile target = ModelFile::open(o.model);
  std::optional<ModelFile> draft;
  if (!o.draft_model.empty()) {
    draft = ModelFile::open(o.draft_model);
    require_common_vocabulary(target, *draft);
  }
  require_storable(o.cache_types, target.h.head_dim);
  if (o.machine) return plan_units(o, target);
  const std::optional<PlanFile> plan = o.from_file.empty() ? std::nullopt : std::optional(read_plan_of(o.from_file, target));
  PlannedJob job{.target = target, .draft = draft ? &*draft : nullptr, .cache_types = o.cache_types, .batch = o.batch};
  job.interrupted = &g_interrupted;
  job.context = o.context > 0 ? o.context : static_cast<int>(std::min<std::int64_t>(target.h.context, kDefaultContext));
  job.prompt = o.prompt_tokens;
  job.requests = o.requests;
  job.generate = read_length(o, job.context, target.h);
  job.guesses_text = o.speculation.looks_up();
  if (plan) {
    job.group_costs = plan->group_costs;
    job.acceptance = plan->acceptance;
    job.acceptance4 = plan->acceptance4;
    job.over_confidence = plan->over_confidence;
  }
  if (o.acceptance) {
    job.acceptance = *o.acceptance;
    job.acceptance4 = among_first_four(job.acceptance);
  }
  job.acceptance4 = o.acceptance4.value_or(job.acceptance4);
  require(job.acceptance <= job.acceptance4, "--acceptance4", "between --acceptance and 1");
  std::ranges::for_each(o.idle_flags, warn);
  if (const std::string warning = beyond_training(target.h, job.context); !warning.empty()) warn(warning + "; lower -c");
  const std::vector<PlannedHost> hosts = slowed(plan ? plan->hosts : find_hosts(o, target), o);
  const simulation::NetworkOptions network = plan ? plan->network : network_of(o);
  const std::vector<Forecast> forecasts = plan_layouts(job, hosts, network, static_cast<std::size_t>(o.rows));
  if (forecasts.empty())
    throw UsageError(fmt::format("no layout of {} fits into their memory with a context of {} tokens; lower -c, or add machines",
                                 counted(std::ssize(hosts), "machine"), job.context));
  print_out(to_table(forecasts, hosts, job.requests));
  if (hosts.size() > 1) print_out("\n{}\n", benchmark_words(job.group_costs, why_no_group(target, hosts)));
  print_out("\n{}\n", run_command_line(forecasts.front().candidate, hosts, o));
  write_outputs({{o.json_file, [&] { return to_json(job, hosts, network, forecasts); }}});
}

}  // namespace yamata
