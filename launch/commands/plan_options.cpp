#include "launch/commands/plan_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "launch/commands/idle_flags.hpp"
#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr int kMaxRanks = 1024;

/// The given flags with the same meaning for the job: run, or engine if it `serves`.
std::string flags_of_job(const GivenFlags& r, bool measures, bool serves) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kShared{
      {{"threads", "-t"}, {"ctx-size", "-c"}, {"cache-type-k", "-ctk"}, {"cache-type-v", "-ctv"}, {"predict", "-n"}, {"batch-size", "-b"}}};
  std::string flags;
  for (const auto& [name, flag] : kShared) {
    if ((std::string_view(name) == "threads" && !measures) || (std::string_view(name) == "predict" && serves)) continue;
    if (r.given(name)) flags += fmt::format(" {} {}", flag, r.text(name));
  }
  return flags;
}

/// One machine with units, if a flag of them is given. Throws UsageError for flags of several machines beside them.
std::optional<MachineUnits> read_machine(const GivenFlags& r) {
  constexpr std::array kOfUnits{"units", "gpu-layers", "draft-units", "heads"};
  const auto* const first = std::ranges::find_if(kOfUnits, [&](const char* flag) { return r.given(flag); });
  if (first == kOfUnits.end()) {
    if (r.given("bus")) throw UsageError("--bus is the rate at which a device gets weights; add --units or --draft-units");
    return std::nullopt;
  }
  for (const char* flag : {"from", "hostfile", "profiles", "ranks", "slow", "latency", "bandwidth", "wake-up", "rows", "predict",
                           "prompt-tokens", "requests", "acceptance4"})
    if (r.given(flag)) throw UsageError(fmt::format("--{} is for several machines; leave it out, or --{}", flag, *first));
  MachineUnits machine = read_machine_units(r);
  if (machine.draft_heads.empty() && machine.draft_model.empty())
    throw UsageError(fmt::format("--{} needs a draft to plan with; name one with --heads FILE or -md FILE.gguf", *first));
  machine.bus_gb_s = number_in(r, "bus", 1e-3, 1e6, "between 0.001 and 1000000").value_or(machine.bus_gb_s);
  return machine;
}

}  // namespace

Flags plan_flags() {
  auto flags = describe("plan",
                        "Predicts the fastest layout: simulates the ways in which the machines could share a model. "
                        "Loads no weights, except a few layers if this machine must be measured.");
  auto machines = flags.group("Machines and network");
  machines("--from", "Take machines, links and group benchmarks from a file of 'yamata run --json' or 'yamata plan --json' with this model",
           FlagKind::kFile, "FILE");
  machines("--hostfile", "The machines, in the format of mpirun's --hostfile; the first is rank 0", FlagKind::kFile, "FILE");
  machines("--profiles", "Folder with the profile of each machine, written by 'yamata profile -m FILE.gguf --json FOLDER/HOST.json'",
           FlagKind::kFolder, "FOLDER");
  machines("--ranks", "Without these: N machines like this one", FlagKind::kInt, "N", "4");
  machines("--slow", "A machine that takes FACTOR times as long; repeatable", FlagKind::kWords, "RANK=FACTOR");
  machines("-t, --threads", "Compute threads, if this machine is measured (0: one per core)", FlagKind::kInt, "N", "0");
  machines("--latency", "Latency of every message, one way", FlagKind::kDouble, "MS", "0.1");
  machines("--bandwidth", "Bandwidth of every machine's link", FlagKind::kDouble, "MBIT/S", "1000");
  machines("--wake-up", "Time a rank needs to wake up", FlagKind::kDouble, "MS", "0.05");
  add_machine_units(flags, "Machine");
  flags.group("Machine")("--bus", "Rate at which weights could be copied to the GPU", FlagKind::kDouble, "GB/S", "12");
  auto job = flags.group("Job");
  job("-md, --model-draft", "-md, draft model: also consider layouts with a drafter", FlagKind::kFile, "FILE");
  job("-c, --ctx-size", kContextSize, FlagKind::kInt, "N", "0");
  job("-b, --batch-size", "Prompt tokens per run", FlagKind::kInt, "N", "64");
  job("-n, --predict", "Tokens to generate", FlagKind::kInt, "N", "128");
  job("--prompt-tokens", "Tokens of the prompt", FlagKind::kInt, "N", "64");
  job("--requests", "Texts at a time, up to 64, as with yamata engine --slots; tokens/s are those of all", FlagKind::kInt, "N", "1");
  job("--acceptance", "Share of tokens that are the draft's first choice (default: from --from, or 0.65)", FlagKind::kDouble, "P");
  job("--acceptance4", "Share of tokens among its first four (default: the first choice, plus 58 % of the rest)", FlagKind::kDouble, "P");
  add_cache_types(flags, "Job", "TYPE");
  auto output = flags.group("Output");
  output("--rows", "Number of layouts to show, the fastest first; always includes the best single machine", FlagKind::kInt, "N", "10");
  output("--json", "Write all figures to this file", FlagKind::kFile, "FILE");
  return flags;
}

PlanOptions read_plan(const GivenFlags& r) {
  constexpr const char* kShare = "between 0 and 1";
  PlanOptions o;
  o.model = read_model(r);
  o.draft_model = r.text("model-draft");
  o.hostfile = r.text("hostfile");
  o.profiles = r.text("profiles");
  o.from_file = r.text("from");
  for (const char* flag : {"hostfile", "profiles", "ranks", "latency", "bandwidth", "wake-up"}) {
    if (!o.from_file.empty() && r.given(flag))
      throw UsageError(fmt::format("--{} is for machines that --from does not describe; leave out one", flag));
  }
  o.machine = read_machine(r);
  const bool named = !o.hostfile.empty() || !o.profiles.empty() || !o.from_file.empty();
  if (named && r.given("ranks")) throw UsageError("--ranks is for machines like this one; leave it out, or --hostfile and --profiles");
  o.ranks = r.number<int>("ranks");
  require(o.ranks >= 1 && o.ranks <= kMaxRanks, "--ranks", "between 1 and 1024");
  if (r.given("slow")) o.slow = parse_slow(r.list("slow"));
  if (!named) require_slow_ranks(o.slow, o.ranks);
  o.threads = number_in(r, "threads", 0, 1024, "between 0 and 1024", "-t").value_or(0);
  o.context = read_context_size(r);
  o.batch = read_batch(r, {});
  o.cache_types = read_cache_types(r);
  o.generate = number_in(r, "predict", 1, std::numeric_limits<int>::max(), "at least 1", "-n");
  if (o.generate == 1) throw UsageError(kNoSpeed);
  o.prompt_tokens = number_in(r, "prompt-tokens", 1, std::numeric_limits<int>::max(), "at least 1").value_or(o.prompt_tokens);
  o.requests = r.number<int>("requests");
  require(o.requests >= 1 && o.requests <= 64, "--requests", "between 1 and 64");
  o.acceptance = number_in(r, "acceptance", 0.0, 1.0, kShare);
  o.acceptance4 = number_in(r, "acceptance4", o.acceptance.value_or(0), 1.0, "between --acceptance and 1");
  o.latency_ms = number_in(r, "latency", 0.0, 1e6, "between 0 and 1000000").value_or(o.latency_ms);
  o.bandwidth_mbit_s = number_in(r, "bandwidth", 1e-3, 1e9, "between 0.001 and 1000000000").value_or(o.bandwidth_mbit_s);
  o.wake_up_ms = number_in(r, "wake-up", 0.0, 1000.0, "between 0 and 1000").value_or(o.wake_up_ms);
  o.rows = number_in(r, "rows", 1, 1000, "between 1 and 1000").value_or(o.rows);
  o.json_file = r.text("json");
  if (o.draft_model.empty() && !o.machine)
    o.idle_flags = idle_flags(r, {{{"acceptance", "acceptance4"}, "without a draft model; name one with -md FILE.gguf"}});
  o.job_flags = flags_of_job(r, o.from_file.empty() && o.profiles.empty(), o.requests > 1);
  return o;
}

}  // namespace yamata
