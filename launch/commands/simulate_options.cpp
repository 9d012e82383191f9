#include "launch/commands/simulate_options.hpp"

#include <fmt/format.h>

#include "launch/commands/idle_flags.hpp"
#include "launch/program/options/flag_groups.hpp"
#include "launch/program/options/flag_values.hpp"
#include "node/error.hpp"

namespace yamata {
namespace {

constexpr int kMaxRanks = 1024;
constexpr const char* kTokens = "between 1 and 10000: the time of a simulation grows with the square of the text's length";

void read_lists(const GivenFlags& r, SimulationOptions& o) {
  if (r.given("ranks")) o.ranks = parse_counts("--ranks", r.joined("ranks"), 1, kMaxRanks);
  o.groups = parse_counts("--group", r.joined("group"), 1, kMaxRanks);
  if (r.given("strategy")) o.strategies = split_list(r.text("strategy"));
  for (const std::string& name : o.strategies) {
    require_word(name, {"iterative", "speculative", "pipeinfer"}, "--strategy", "some of iterative,speculative,pipeinfer");
  }
  if (r.given("width-cost")) {
    for (const std::string& word : split_list(r.text("width-cost"))) o.width_cost.push_back(parse_number(word));
  }
  for (const double cost : o.width_cost) {
    require(cost >= 0 && cost <= 100 && (o.width_cost.size() == 1 || cost > 0), "--width-cost",
            "one share of 0 or more, or the times of 1, 2, 3, ... rows relative to one row, such as 1,1.04,1.1");
  }
  if (r.given("slow")) o.slow = parse_slow(r.list("slow"));
}

void read_requests(const GivenFlags& r, SimulationOptions& o) {
  constexpr int kMostRequests = 1000, kMostSlots = 64, kSlots = 8;
  o.requests = r.number<int>("requests");
  require(o.requests >= 1 && o.requests <= kMostRequests, "--requests", "between 1 and 1000");
  if (const std::string arrival = r.text("arrival"); arrival != "all") {
    o.requests_per_s = parse_number(arrival);
    require(o.requests_per_s >= 1e-6 && o.requests_per_s <= 1e6, "--arrival", "all, or requests per second, between 0.000001 and 1000000");
  }
  o.slots =
      number_in(r, "slots", 1, kMostSlots, "between 1 and 64").value_or(o.requests_per_s > 0 ? kSlots : std::min(kMostSlots, o.requests));
}

}  // namespace

Flags simulate_flags() {
  auto flags = describe("simulate",
                        "Simulates whole jobs in virtual time: the program's own code, on machines described by numbers. Needs no model.");
  auto job = flags.group("Job");
  job("--ranks", "Numbers of ranks to compare, such as 2,4,8 or 2-16 (default: that of --from, one more, and twice as many; or 2,4,8)",
      FlagKind::kWord, "LIST");
  job("--group", "Group sizes to compare, such as 1,2,4: so many ranks share each layer (1: a pipeline)", FlagKind::kWord, "LIST", "1");
  job("-n, --predict", "Tokens to generate (default: as many as the run of --from, or 128)", FlagKind::kInt, "N");
  job("--prompt-tokens", "Tokens of a random prompt (default: the text of --from, or 64)", FlagKind::kInt, "N");
  job("--requests", "Texts in all; tokens/s are those of all", FlagKind::kInt, "N", "1");
  job("--arrival", "Requests per second, at random times (a Poisson process); all: at the beginning", FlagKind::kWord, "R", "all");
  job("--slots", "Texts at a time, at most, as with yamata engine; further ones wait (default: all, with --arrival 8)", FlagKind::kInt,
      "N");
  job("-b, --batch-size", "Prompt tokens per run", FlagKind::kInt, "N", "64");
  job("-s, --seed", "Random seed", FlagKind::kUint64, "SEED", "0");
  job("--repeats", "Show the average of N texts; they are random, or, if --from has a text, differ in the guesses that it does not record",
      FlagKind::kInt, "N", "3");
  auto machines = flags.group("Machines and network");
  machines(
      "--from",
      "Take times, text and draft from a file of 'yamata run --json', or machines from a file of 'yamata plan --json'; flags override. "
      "Network and group benchmarks are taken if the file has a plan. The run's own flags are not taken",
      FlagKind::kFile, "FILE");
  machines("--target-ms", "Time of one token through all layers of the target on one machine", FlagKind::kDouble, "MS", "400");
  machines("--draft-ms",
           "Time of one evaluation of the draft model (default: from --from; else with -m and -md by their bytes, or a twentieth of "
           "--target-ms)",
           FlagKind::kDouble, "MS");
  machines("--width-cost",
           "Cost of each additional row of a run, as a share of the first; or a list: the times of 1,2,3,... rows relative to one row, "
           "such as 1,1.04,1.1 (default: from --from, or 0.05)",
           FlagKind::kWord, "LIST");
  machines("--head-ms", "The head's own work per token", FlagKind::kDouble, "MS", "0.05");
  machines("--latency", "Latency of every message", FlagKind::kDouble, "MS", "0.1");
  machines("--bandwidth", "Bandwidth of every rank's link", FlagKind::kDouble, "MBIT/S", "1000");
  machines("--wake-up", "Time a rank needs to wake up", FlagKind::kDouble, "MS", "0.05");
  machines("--slow", "A rank that takes FACTOR times as long; repeatable", FlagKind::kWords, "RANK=FACTOR");
  auto draft = flags.group("Draft");
  draft("--acceptance", "Share of tokens that are the draft's first choice (default: the draft of --from, or 0.65)", FlagKind::kDouble,
        "P");
  draft("--acceptance4", "Share of tokens among its first four (default: the draft of --from, or the first choice plus 58 % of the rest)",
        FlagKind::kDouble, "P");
  draft("--over-confidence", "Over-confidence of its probabilities: their exponent, minus 1; below 0: too low", FlagKind::kDouble, "X",
        "0");
  add_speculation(flags, "Strategies to compare", "iterative,speculative,pipeinfer", {"--suffix-store", "--draft-units"},
                  "Number of drafters, with -md of each model (not given: as many as the run of --from had; 0: none)");
  flags.group("Output")("--json", "Write all figures to this file", FlagKind::kFile, "FILE");
  flags.group("Output")("--csv", "Write the table as CSV", FlagKind::kFile, "FILE");
  return flags;
}

SimulationOptions read_simulation(const GivenFlags& r) {
  constexpr const char* kTime = "between 0 and 1000000";
  constexpr const char* kShare = "between 0 and 1";
  SimulationOptions o;
  o.model = r.text("model");
  o.json_file = r.text("json");
  o.csv_file = r.text("csv");
  JobOptions job;
  read_drafts(r, job);
  o.speculation = read_speculation(r);
  require(o.speculation.suffix_store.empty(), "--suffix-store", "left out: a simulation keeps no text and reads none");
  require(o.speculation.datastore.empty(), "--datastore", "left out: a simulation reads no text");
  require(!o.speculation.lookahead.on(), "--lookahead", "left out: simulated texts have no n-grams that come again");
  o.draft_models = job.models.drafts;
  o.draft_on_head = job.layout.draft_on_head;
  o.batch = read_batch(r, job.compute);
  o.seed = r.number<std::uint64_t>("seed");
  read_lists(r, o);
  if (r.given("from")) o.from_file = r.text("from");
  o.target_ms = number_in(r, "target-ms", 1e-3, 1e6, "between 0.001 and 1000000");
  o.draft_ms = number_in(r, "draft-ms", 0.0, 1e6, kTime);
  o.head_ms = number_in(r, "head-ms", 0.0, 1e6, kTime);
  o.acceptance = number_in(r, "acceptance", 0.0, 1.0, kShare);
  o.acceptance4 = number_in(r, "acceptance4", 0.0, 1.0, kShare);
  o.latency_ms = number_in(r, "latency", 0.0, 1e6, kTime);
  o.bandwidth_mbit_s = number_in(r, "bandwidth", 1e-3, 1e9, "between 0.001 and 1000000000");
  o.wake_up_ms = number_in(r, "wake-up", 0.0, 1000.0, "between 0 and 1000");
  o.over_confidence = number_in(r, "over-confidence", -0.95, 100.0, "between -0.95 and 100");
  o.generate = number_in(r, "predict", 1, kMaxSimulatedTokens, kTokens, "-n");
  o.drafters = number_in(r, "drafters", 0, 16, "between 0 and 16");
  o.prompt_tokens = number_in(r, "prompt-tokens", 1, kMaxSimulatedTokens, kTokens);
  o.repeats = r.number<int>("repeats");
  require(o.repeats >= 1 && o.repeats <= 10000, "--repeats", "between 1 and 10000");
  read_requests(r, o);
  require(!o.acceptance || !o.acceptance4 || *o.acceptance <= *o.acceptance4, "--acceptance4", "at least --acceptance");
  if (o.strategies == std::vector<std::string>{"iterative"}) job.layout.strategy = Strategy::kIterative;
  o.idle_flags = idle_flags(
      r, {.models = job.models, .layout = job.layout, .speculation = o.speculation, .simulated = true, .drafts = o.drafters != 0});
  return o;
}

}  // namespace yamata
