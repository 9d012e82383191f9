#include "launch/commands/plan_options.hpp"

#include <limits>

#include "launch/flag_groups.hpp"
#include "launch/flag_values.hpp"
#include "launch/planning/layout_planner.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr int kMostRanks = 1024;

}  // namespace

cxxopts::Options plan_flags() {
  auto flags = describe("plan",
                        "Which layout is the fastest: each way in which some machines could share a model is played in virtual time. "
                        "Loads no weights, but for a layer where this machine is to be measured.");
  const auto text = [](const char* fallback) { return cxxopts::value<std::string>()->default_value(fallback); };
  const auto real = [](const char* fallback) { return cxxopts::value<double>()->default_value(fallback); };
  const auto integer = [](const char* fallback) { return cxxopts::value<int>()->default_value(fallback); };
  const auto plain = [] { return cxxopts::value<std::string>(); };
  auto machines = flags.add_options("Machines and network");
  machines("hostfile", "The machines, as mpirun's --hostfile names them; the first leads", plain(), "FILE");
  machines("profiles", "Folder with what 'yamata profile -m FILE.gguf --json FOLDER/HOST.json' wrote on each machine", plain(), "FOLDER");
  machines("ranks", "Without both: so many machines like this one", integer("4"), "N");
  machines("slow", "A machine that takes this many times as long; repeatable", cxxopts::value<std::vector<std::string>>(), "RANK=FACTOR");
  machines("t,threads", "Compute threads, where this machine is measured (0: all cores)", integer("0"), "N");
  machines("latency", "Of every message, one way", real("0.1"), "MS");
  machines("bandwidth", "Of every machine's link", real("1000"), "MBIT/S");
  machines("wake-up", "From what a rank waits for until it is awake", real("0.05"), "MS");
  auto job = flags.add_options("Job");
  job("model-draft", "-md, draft model: layouts with a drafter are tried too", plain(), "FILE");
  job("c,ctx-size", "Tokens the context holds (0: what the model was trained for, at most 4096)", integer("0"), "N");
  job("b,batch-size", "Prompt tokens that go through the pipeline together", integer("64"), "N");
  job("cache-type-k", "-ctk, storage of keys: f16, f32 or q8_0", text("f16"), "TYPE");
  job("cache-type-v", "-ctv, storage of values", text("f16"), "TYPE");
  job("n,predict", "Tokens to generate", integer("128"), "N");
  job("prompt-tokens", "Tokens of the prompt", integer("64"), "N");
  job("acceptance", "Share of tokens that are the draft's first choice", real("0.65"), "P");
  job("acceptance4", "Share that is among its first four (left out: of the others 58 %)", cxxopts::value<double>(), "P");
  auto output = flags.add_options("Output");
  output("rows", "How many layouts to show, the fastest first; the best single machine is always among them", integer("10"), "N");
  output("json", "Write all figures to this file", plain(), "FILE");
  return flags;
}

PlanOptions read_plan(const cxxopts::ParseResult& r) {
  constexpr const char* kShare = "between 0 and 1";
  PlanOptions o;
  o.model = read_model(r);
  o.draft_model = text_of(r, "model-draft");
  o.hostfile = text_of(r, "hostfile");
  o.profiles = text_of(r, "profiles");
  const bool named = !o.hostfile.empty() || !o.profiles.empty();
  if (named && given(r, "ranks")) throw UsageError("--ranks is for machines like this one; leave it out, or --hostfile and --profiles");
  o.ranks = r["ranks"].as<int>();
  require(o.ranks >= 1 && o.ranks <= kMostRanks, "--ranks", "between 1 and 1024");
  if (r.count("slow")) o.slow = parse_slow(r["slow"].as<std::vector<std::string>>(), named ? kMostRanks : o.ranks);
  o.threads = number_in(r, "threads", 0, 1024, "between 0 and 1024").value_or(0);
  o.context = read_context_size(r);
  o.batch = read_batch(r);
  o.cache_types = {parse_cache_type(r["cache-type-k"].as<std::string>(), "-ctk"),
                   parse_cache_type(r["cache-type-v"].as<std::string>(), "-ctv")};
  o.generate = number_in(r, "predict", 2, 100000, "between 2 and 100000").value_or(o.generate);
  o.prompt_tokens = number_in(r, "prompt-tokens", 1, 100000, "between 1 and 100000").value_or(o.prompt_tokens);
  o.acceptance = number_in(r, "acceptance", 0.0, 1.0, kShare).value_or(o.acceptance);
  o.acceptance4 = number_in(r, "acceptance4", o.acceptance, 1.0, "between --acceptance and 1").value_or(among_first_four(o.acceptance));
  o.latency_ms = number_in(r, "latency", 0.0, 1e6, "between 0 and 1000000").value_or(o.latency_ms);
  o.bandwidth_mbit_s = number_in(r, "bandwidth", 1e-3, 1e9, "between 0.001 and 1000000000").value_or(o.bandwidth_mbit_s);
  o.wake_up_ms = number_in(r, "wake-up", 0.0, 1000.0, "between 0 and 1000").value_or(o.wake_up_ms);
  o.rows = number_in(r, "rows", 1, 1000, "between 1 and 1000").value_or(o.rows);
  o.json_file = text_of(r, "json");
  return o;
}

}  // namespace yamata
