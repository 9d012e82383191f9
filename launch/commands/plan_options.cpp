#include "launch/commands/plan_options.hpp"

#include <fmt/format.h>

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

/// The given flags with the same meaning for run.
std::string flags_of_run(const cxxopts::ParseResult& r, bool measures) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kShared{
      {{"threads", "-t"}, {"ctx-size", "-c"}, {"cache-type-k", "-ctk"}, {"cache-type-v", "-ctv"}, {"predict", "-n"}, {"batch-size", "-b"}}};
  std::string flags;
  for (const auto& [name, flag] : kShared) {
    if (std::string_view(name) == "threads" && !measures) continue;
    std::string value;  // the last one counts
    for (const auto& argument : r.arguments()) value = argument.key() == name ? argument.value() : value;
    if (!value.empty()) flags += fmt::format(" {} {}", flag, value);
  }
  return flags;
}

}  // namespace

cxxopts::Options plan_flags() {
  auto flags = describe("plan",
                        "Predicts the fastest layout: simulates the ways in which the machines could share a model. "
                        "Loads no weights, except a few layers if this machine must be measured.");
  auto machines = flags.add_options("Machines and network");
  machines("from", "Take machines, links and group benchmarks from a file of 'yamata run --json' or 'yamata plan --json' with this model",
           cxxopts::value<std::string>(), "FILE");
  machines("hostfile", "The machines, in the format of mpirun's --hostfile; the first is rank 0", cxxopts::value<std::string>(), "FILE");
  machines("profiles", "Folder with the profile of each machine, written by 'yamata profile -m FILE.gguf --json FOLDER/HOST.json'",
           cxxopts::value<std::string>(), "FOLDER");
  machines("ranks", "Without these: N machines like this one", value_or<int>("4"), "N");
  machines("slow", "A machine that takes FACTOR times as long; repeatable", cxxopts::value<std::vector<std::string>>(), "RANK=FACTOR");
  machines("t,threads", "Compute threads, if this machine is measured (0: one per core)", value_or<int>("0"), "N");
  machines("latency", "Latency of every message, one way", value_or<Decimal<double>>("0.1"), "MS");
  machines("bandwidth", "Bandwidth of every machine's link", value_or<Decimal<double>>("1000"), "MBIT/S");
  machines("wake-up", "Time a rank needs to wake up", value_or<Decimal<double>>("0.05"), "MS");
  auto job = flags.add_options("Job");
  job("model-draft", "-md, draft model: also consider layouts with a drafter", cxxopts::value<std::string>(), "FILE");
  job("c,ctx-size", kContextSize, value_or<int>("0"), "N");
  job("b,batch-size", "Prompt tokens per run", value_or<int>("64"), "N");
  job("n,predict", "Tokens to generate", value_or<int>("128"), "N");
  job("prompt-tokens", "Tokens of the prompt", value_or<int>("64"), "N");
  job("acceptance", "Share of tokens that are the draft's first choice (default: from --from, or 0.65)", cxxopts::value<Decimal<double>>(),
      "P");
  job("acceptance4", "Share of tokens among its first four (default: the first choice, plus 58 % of the rest)",
      cxxopts::value<Decimal<double>>(), "P");
  add_cache_types(flags, "Job", "TYPE");
  auto output = flags.add_options("Output");
  output("rows", "Number of layouts to show, the fastest first; always includes the best single machine", value_or<int>("10"), "N");
  output("json", "Write all figures to this file", cxxopts::value<std::string>(), "FILE");
  return flags;
}

PlanOptions read_plan(const cxxopts::ParseResult& r) {
  constexpr const char* kShare = "between 0 and 1";
  PlanOptions o;
  o.model = read_model(r);
  o.draft_model = text_of(r, "model-draft");
  o.hostfile = text_of(r, "hostfile");
  o.profiles = text_of(r, "profiles");
  o.from_file = text_of(r, "from");
  for (const char* flag : {"hostfile", "profiles", "ranks", "latency", "bandwidth", "wake-up"}) {
    if (!o.from_file.empty() && given(r, flag))
      throw UsageError(fmt::format("--{} is for machines that --from does not describe; leave out one", flag));
  }
  const bool named = !o.hostfile.empty() || !o.profiles.empty() || !o.from_file.empty();
  if (named && given(r, "ranks")) throw UsageError("--ranks is for machines like this one; leave it out, or --hostfile and --profiles");
  o.ranks = r["ranks"].as<int>();
  require(o.ranks >= 1 && o.ranks <= kMaxRanks, "--ranks", "between 1 and 1024");
  if (r.count("slow")) o.slow = parse_slow(r["slow"].as<std::vector<std::string>>());
  if (!named) require_slow_ranks(o.slow, o.ranks);
  o.threads = number_in(r, "threads", 0, 1024, "between 0 and 1024", "-t").value_or(0);
  o.context = read_context_size(r);
  o.batch = read_batch(r, {});
  o.cache_types = read_cache_types(r);
  o.generate = number_in(r, "predict", 1, std::numeric_limits<int>::max(), "at least 1", "-n");
  if (o.generate == 1) throw UsageError(kNoSpeed);
  o.prompt_tokens = number_in(r, "prompt-tokens", 1, std::numeric_limits<int>::max(), "at least 1").value_or(o.prompt_tokens);
  o.acceptance = number_in(r, "acceptance", 0.0, 1.0, kShare);
  o.acceptance4 = number_in(r, "acceptance4", o.acceptance.value_or(0), 1.0, "between --acceptance and 1");
  o.latency_ms = number_in(r, "latency", 0.0, 1e6, "between 0 and 1000000").value_or(o.latency_ms);
  o.bandwidth_mbit_s = number_in(r, "bandwidth", 1e-3, 1e9, "between 0.001 and 1000000000").value_or(o.bandwidth_mbit_s);
  o.wake_up_ms = number_in(r, "wake-up", 0.0, 1000.0, "between 0 and 1000").value_or(o.wake_up_ms);
  o.rows = number_in(r, "rows", 1, 1000, "between 1 and 1000").value_or(o.rows);
  o.json_file = text_of(r, "json");
  if (o.draft_model.empty())
    o.idle_flags = idle_flags(r, {{{"acceptance", "acceptance4"}, "without a draft model; name one with -md FILE.gguf"}});
  o.job_flags = flags_of_run(r, o.from_file.empty() && o.profiles.empty());
  return o;
}

}  // namespace yamata
