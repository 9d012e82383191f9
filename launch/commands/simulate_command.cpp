// yamata simulate: simulates whole jobs in virtual time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "launch/commands/commands.hpp"
#include "launch/commands/simulate_report.hpp"
#include "launch/commands/simulated_numbers.hpp"
#include "launch/program/input/input_text.hpp"
#include "launch/program/input/interrupts.hpp"
#include "launch/program/job/guessing.hpp"
#include "launch/program/options/flag_values.hpp"
#include "launch/program/output/output_file.hpp"
#include "launch/program/output/report.hpp"
#include "launch/program/output/standard_output.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/planning/group_cost.hpp"
#include "launch/program/planning/layout_planner.hpp"
#include "mpi/planning/layer_split.hpp"
#include "node/counted.hpp"
#include "node/error.hpp"
#include "src/model/shard.hpp"
#include "src/model/weights.hpp"
#include "src/speculation/shaped_policies.hpp"

namespace yamata {
namespace {

using simulation::Nanoseconds;
using simulation::Scenario;
using simulation::TextOptions;
using Numbers = SimulatedNumbers;

Nanoseconds nanoseconds(double ms) { return std::llround(ms * 1e6); }

/// The number of ranks, and the number of ranks that share each stage of the target.
struct Shape {
  int ranks = 1, group = 1;
};

/// "4 ranks", "8 ranks in groups of 2"
std::string to_text(const Shape& shape) {
  const std::string ranks = counted(shape.ranks, "rank");
  return shape.group == 1 ? ranks : fmt::format("{} in groups of {}", ranks, shape.group);
}

class Simulator {
 public:
  explicit Simulator(const SimulationOptions& flags);
  /// The result for one cluster and strategy.
  SimulatedRow row(Shape shape, const std::string& strategy, const Numbers& numbers) const;
  /// The effect of one more machine, of half the latency, and of a better draft, in words.
  std::string advice(const SimulatedRow& row) const;
  const Numbers& numbers() const { return numbers_; }
  /// A line about the run of --from, or empty.
  const std::string& measured() const { return measured_; }
  /// The strategies of the flag, or else those for which there is a guess source.
  std::vector<std::string> strategies() const;

 private:
  bool has_guesses(const std::string& strategy) const;
  void take_run(const MeasuredRun& run);
  void take_models();
  void take_text();
  void add_stages(const Numbers& numbers, Scenario& s) const;
  Scenario scenario(Shape shape, const std::string& strategy, const Numbers& numbers) const;
  std::vector<Nanoseconds> stage_times(int stages, const Numbers& numbers) const;

  const SimulationOptions& flags_;
  std::optional<ModelFile> model_;
  bool draft_has_states_ = false;
  Numbers numbers_;
  std::string measured_;
};

Simulator::Simulator(const SimulationOptions& flags) : flags_(flags) {
  bool knows_network = false;
  if (!flags_.from_file.empty()) {
    const std::string text = read_text(flags_.from_file, kFromFlag);  // once: it may be a pipe
    const auto plan = parse_plan_file(text, flags_.from_file);
    if (!plan || plan->of_run) take_run(parse_measured_run(text, flags_.from_file));
    if (plan) numbers_.take(*plan);
    knows_network = plan.has_value();
  }
  if (!flags_.width_cost.empty()) {
    numbers_.width = numbers_.draft_width = simulation::WidthCost(flags_.width_cost);
    numbers_.width_of_computing = true;
  }
  if (flags_.target_ms) numbers_.stage_ms.clear();
  numbers_.target_ms = flags_.target_ms.value_or(numbers_.target_ms);
  take_models();
  if (numbers_.draft_ms == 0) numbers_.draft_ms = numbers_.target_ms / 20;
  numbers_.draft_ms = flags_.draft_ms.value_or(numbers_.draft_ms);
  numbers_.head_ms = flags_.head_ms.value_or(numbers_.head_ms);
  if (flags_.latency_ms) numbers_.network.latency = nanoseconds(*flags_.latency_ms);
  if (flags_.bandwidth_mbit_s) numbers_.network.bytes_per_s = *flags_.bandwidth_mbit_s * 1e6 / 8;
  if (flags_.wake_up_ms) numbers_.network.wake_up = nanoseconds(*flags_.wake_up_ms);
  if (!knows_network) numbers_.benchmarked = numbers_.network;  // the run was on the network that the flags describe
  for (const auto& [rank, factor] : flags_.slow) numbers_.slow[rank] = factor;
  const bool drafts = flags_.draft_ms || flags_.acceptance || flags_.acceptance4 || flags_.over_confidence;
  numbers_.drafters = flags_.drafters.value_or(drafts ? std::max(1, numbers_.drafters) : numbers_.drafters);
  std::erase_if(numbers_.ranks, [this](int ranks) { return model_ && ranks > numbers_.layers; });
  if (!flags_.ranks.empty()) numbers_.ranks = flags_.ranks;
  std::ranges::sort(numbers_.ranks);
  numbers_.ranks.erase(std::unique(numbers_.ranks.begin(), numbers_.ranks.end()), numbers_.ranks.end());
  if (!numbers_.ranks.empty()) require_slow_ranks(flags_.slow, numbers_.ranks.back());
  if (!flags_.draft_models.empty()) {
    numbers_.drafters = static_cast<int>(flags_.draft_models.size());
    numbers_.draft_heads = false;
  }
  take_text();
}

void Simulator::take_run(const MeasuredRun& run) {
  numbers_.take(run);
  const char* draft = numbers_.drafters == 0 ? ", without a draft (--acceptance or -md adds one)"
                      : numbers_.draft_heads ? ", with draft heads"
                                             : "";
  measured_ = fmt::format("measured: {:.2f} tokens/s, {} on {}{}\n", run.tokens_per_s, run.strategy, counted(run.ranks, "rank"), draft);
}

/// Flags about the text override the recording.
void Simulator::take_text() {
  const bool other_draft = flags_.acceptance || flags_.acceptance4 || flags_.over_confidence;
  if (flags_.prompt_tokens) numbers_.text.reset();
  if (other_draft && numbers_.text) numbers_.text->choices.clear();
  numbers_.prompt = flags_.prompt_tokens.value_or(numbers_.prompt);
  numbers_.generate = flags_.generate.value_or(numbers_.generate);
  if (!other_draft) return;
  numbers_.acceptance = flags_.acceptance.value_or(std::min(numbers_.acceptance, flags_.acceptance4.value_or(1)));
  numbers_.acceptance4 = flags_.acceptance4;
}

/// Whether there is a draft, or a text with possible repetitions.
bool Simulator::has_guesses(const std::string& strategy) const {
  return strategy == "iterative" || numbers_.drafters > 0 || (flags_.speculation.looks_up() && numbers_.text);
}

std::vector<std::string> Simulator::strategies() const {
  if (flags_.strategies.empty()) {
    std::vector<std::string> all{"iterative", "speculative", "pipeinfer"};
    std::erase_if(all, [this](const std::string& strategy) { return !has_guesses(strategy); });
    return all;
  }
  for (const std::string& strategy : flags_.strategies) {
    if (!has_guesses(strategy))
      throw UsageError(fmt::format("{} has no guess source; add a draft with --drafters 1, or leave it out of --strategy", strategy));
  }
  return flags_.strategies;
}

void Simulator::take_models() {
  const auto bytes = [](const ModelFile& model) { return static_cast<double>(read_bytes(model.file, model.h, {0, model.h.layers})); };
  if (flags_.model.empty() && !flags_.draft_models.empty())
    throw UsageError("-md needs -m: the draft's time is computed from the bytes of both models");
  if (flags_.model.empty()) return;
  model_ = ModelFile::open(flags_.model);
  numbers_.layers = static_cast<int>(model_->h.layers);
  numbers_.widths = {model_->h.dim, model_->h.vocabulary};
  numbers_.exchange_bytes = exchange_bytes(model_->h);
  if (flags_.draft_models.empty()) return;
  const ModelFile draft = ModelFile::open(flags_.draft_models[0]);
  require_common_vocabulary(*model_, draft);
  draft_has_states_ = draft.h.is_recurrent();
  if (numbers_.draft_ms == 0) numbers_.draft_ms = numbers_.target_ms * bytes(draft) / bytes(*model_);
}

/// By the bytes of the model's layers; without a model, all stages are equal.
std::vector<Nanoseconds> Simulator::stage_times(int stages, const Numbers& numbers) const {
  std::vector<double> shares(static_cast<std::size_t>(stages), 1.0);
  if (model_) {
    const auto ranges = split_layers(model_->file, model_->h, {}, stages);
    for (std::size_t s = 0; s < shares.size(); ++s) shares[s] = static_cast<double>(read_bytes(model_->file, model_->h, ranges[s]));
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<Nanoseconds> times;
  for (const double share : shares) times.push_back(nanoseconds(numbers.target_ms * share / sum));
  return times;
}

/// The number of ranks of each stage; the last stage has the rest.
std::vector<int> groups_of(int ranks, int group) {
  std::vector<int> groups(static_cast<std::size_t>(ranks / group), group);
  if (ranks % group > 0) groups.push_back(ranks % group);
  return groups;
}

/// Bytes that a member sends in one exchange of a one-row run.
double slice_bytes(const Numbers& numbers, int members) { return numbers.exchange_bytes / kExchangesPerLayer * (members - 1) / members; }

/// Measured stages have their measured times, corrected for a different network. Wider runs lengthen exchanges by the time of their bytes,
/// or, where they were measured, exchanges and computing alike. The member that waits least shows what exchanges take.
void add_measured_stages(const Numbers& numbers, Scenario& s) {
  s.exchange_bytes = numbers.width_of_computing ? numbers.exchange_bytes : 0;
  const double exchanges = kExchangesPerLayer * static_cast<double>(numbers.layers) / static_cast<double>(s.groups.size());
  for (const int members : s.groups) {
    const auto first = numbers.exchange_ms.begin() + std::ssize(s.stages);
    const double exchange_ms = numbers.width_of_computing ? *std::min_element(first, first + members) : 0;
    for (int member = 0; member < members; ++member) s.stages.push_back(nanoseconds(numbers.stage_ms.at(s.stages.size()) - exchange_ms));
    s.exchanges[members] = numbers.exchange_here(nanoseconds(exchange_ms / exchanges), slice_bytes(numbers, members));
  }
}

/// In groups that were not measured each member has an equal part of its stage.
void Simulator::add_stages(const Numbers& numbers, Scenario& s) const {
  if (numbers.measured(s.groups)) return add_measured_stages(numbers, s);
  const std::vector<Nanoseconds> times = stage_times(static_cast<int>(s.groups.size()), numbers);
  for (std::size_t stage = 0; stage < times.size(); ++stage) {
    const int members = s.groups[stage];
    const GroupCost cost = group_cost(numbers.group_costs, members);
    const double part = static_cast<double>(times[stage]) * cost.computing / members;
    s.stages.insert(s.stages.end(), static_cast<std::size_t>(members), std::llround(part));
    if (cost.exchange > 0) s.exchanges[members] = numbers.exchange_here(cost.exchange, slice_bytes(numbers, members));
  }
  s.exchange_bytes = numbers.exchange_bytes;
}

Scenario Simulator::scenario(Shape shape, const std::string& strategy, const Numbers& numbers) const {
  const int ranks = shape.ranks;
  const int drafts = strategy == "iterative" ? 0 : numbers.drafters;
  if (drafts > 1 && flags_.draft_on_head) throw UsageError("--no-async is for one drafter, on rank 0; give --drafters 1");
  if (drafts > 1 && ranks <= drafts)
    throw UsageError(fmt::format("{} drafters need ranks of their own beside the target's, so more than --ranks {}", drafts, ranks));
  const Layout layout = make_layout("auto", ranks, drafts, flags_.draft_on_head);
  Scenario s;
  s.groups = groups_of(static_cast<int>(layout[0].ranks.size()), shape.group);
  add_stages(numbers, s);
  s.drafters.assign(static_cast<std::size_t>(drafts), nanoseconds(numbers.draft_ms));
  s.draft_on_head = drafts > 0 && layout[1].ranks.front() == 0;
  s.draft_heads = numbers.draft_heads;
  s.states = model_ && model_->h.is_recurrent();
  s.draft_states = draft_has_states_;
  s.interrupted = &g_interrupted;
  s.slowness.assign(static_cast<std::size_t>(ranks), 1.0);
  for (const auto& [rank, factor] : numbers.measured(s.groups) ? flags_.slow : numbers.slow) {
    if (rank < ranks) s.slowness[static_cast<std::size_t>(rank)] = factor;
  }
  s.width = numbers.width;
  s.draft_width = numbers.draft_width;
  s.layers = numbers.layers;
  s.network = numbers.network;
  s.widths = numbers.widths;
  s.head = nanoseconds(numbers.head_ms);
  s.text = {0, numbers.acceptance, numbers.among_first_four(), flags_.over_confidence.value_or(0), TextOptions{}.vocabulary};
  s.prompt = numbers.prompt;
  s.requests = flags_.requests;
  s.requests_per_s = flags_.requests_per_s;
  s.slots = flags_.slots;
  s.recording = numbers.text;
  s.decode =
      decode_options(*find_strategy(strategy), flags_.speculation, flags_.batch, numbers.generate, numbers.prompt + numbers.generate, {});
  if (s.states) limit_guesses(s.decode, static_cast<int>(s.groups.size()));
  s.decode.lookup = s.decode.lookup && numbers.text;  // a random text has no repetitions
  if (const std::string& policy = s.decode.policy.name; policy == "chain" || policy == "multi-sequence")
    s.draft = draft_options(s.decode.policy);
  return s;
}

SimulatedRow Simulator::row(Shape shape, const std::string& strategy, const Numbers& numbers) const {
  Scenario s = scenario(shape, strategy, numbers);
  SimulatedRow row;
  row.ranks = shape.ranks;
  row.group = shape.group;
  row.strategy = strategy;
  for (int i = 0; i < flags_.repeats; ++i) {
    s.text.seed = flags_.seed + static_cast<std::uint64_t>(i);
    const simulation::Outcome outcome = simulation::simulate(s);
    if (!outcome.exact)
      throw ClusterError(
          fmt::format("{} on {} wrote another text than the target alone; this is a bug in Yamata", strategy, to_text(shape)));
    row.add(outcome, 1.0 / flags_.repeats);
  }
  return row;
}

std::string Simulator::advice(const SimulatedRow& base) const {
  Numbers fast = numbers_, drawn = numbers_;
  fast.network.latency /= 2;
  if (drawn.text) drawn.text->choices.clear();
  Numbers sure = drawn;
  sure.acceptance += (1 - sure.acceptance) / 4;
  sure.acceptance4 = drawn.among_first_four() + (1 - drawn.among_first_four()) / 4;
  struct Change {
    const char* words;
    double gain;
  };
  std::vector<Change> changes;
  const auto speed = [&](int ranks, const Numbers& n) { return row({ranks, base.group}, base.strategy, n).tokens_per_s; };
  const auto gain = [&](int ranks, const Numbers& n) { return 100 * (speed(ranks, n) / base.tokens_per_s - 1); };
  const int most = model_ ? numbers_.layers : 1024;
  if (base.ranks < most) changes.push_back({"one more machine", gain(base.ranks + 1, numbers_)});
  changes.push_back({"half the latency", gain(base.ranks, fast)});
  if (base.strategy != "iterative" && numbers_.drafters > 0) {
    const bool recorded = numbers_.text && !numbers_.text->choices.empty();
    const double drawn_speed = recorded ? speed(base.ranks, drawn) : base.tokens_per_s;
    changes.push_back({"a draft with a quarter fewer misses", 100 * (speed(base.ranks, sure) / drawn_speed - 1)});
  }
  std::string words;
  for (const Change& c : changes) words += fmt::format("{}{} {:+.0f} %", words.empty() ? "" : ", ", c.words, c.gain);
  const auto best = std::max_element(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.gain < b.gain; });
  const std::string cluster = fmt::format("{} on {}", base.strategy, to_text({base.ranks, base.group}));
  if (best->gain < 1) return fmt::format("{}: {}; none of them helps", cluster, words);
  return fmt::format("{}: {}; {} helps most", cluster, words, best->words);
}

/// Each number of ranks, with each size of groups that is not larger.
std::vector<Shape> shapes(const std::vector<int>& ranks, const std::vector<int>& groups) {
  std::vector<Shape> all;
  for (const int count : ranks) {
    for (const int group : groups) {
      if (group <= count) all.push_back({count, group});
    }
  }
  if (all.empty()) throw UsageError(fmt::format("--group {} is more than all --ranks; give smaller groups or more ranks", groups.front()));
  return all;
}

}  // namespace

void simulate_command(const SimulationOptions& flags) {
  std::vector<std::string> inputs = flags.draft_models;
  inputs.insert(inputs.end(), {flags.model, flags.from_file, flags.speculation.tree_file});
  check_outputs({{flags.json_file, OutputKind::kJson}, {flags.csv_file, OutputKind::kSimulationCsv}}, inputs);
  std::ranges::for_each(flags.idle_flags, warn);
  const Simulator simulator(flags);
  const Numbers& n = simulator.numbers();
  if (n.generate < 2) throw UsageError(kNoSpeed);
  if (!n.text && std::max(n.prompt, n.generate) > kMaxSimulatedTokens)
    throw UsageError(fmt::format("the plan's text of {} + {} tokens would take long to simulate; give --prompt-tokens and -n of at most {}",
                                 n.prompt, n.generate, kMaxSimulatedTokens));
  const std::vector<std::string> strategies = simulator.strategies();
  std::vector<SimulatedRow> rows;
  const std::vector<Shape> all = shapes(n.ranks, flags.groups);
  show_warnings();
  for (const Shape shape : all) {
    const SimulatedRow plain = simulator.row(shape, "iterative", n);
    for (const std::string& strategy : strategies) {
      rows.push_back(strategy == "iterative" ? plain : simulator.row(shape, strategy, n));
      rows.back().ratio = plain.tokens_per_s > 0 ? rows.back().tokens_per_s / plain.tokens_per_s : 0;
    }
  }
  print_error(simulator.measured());
  print_out(to_table(rows, flags.requests > 1));
  const auto best = std::max_element(rows.begin(), rows.end(),
                                     [](const SimulatedRow& a, const SimulatedRow& b) { return a.tokens_per_s < b.tokens_per_s; });
  print_out("\n{}\n", simulator.advice(*best));
  SimulatedFrom from{{"target_ms", n.target_ms},
                     {"draft_ms", n.draft_ms},
                     {"head_ms", n.head_ms},
                     {"latency", 1e-6 * static_cast<double>(n.network.latency)},
                     {"acceptance", n.acceptance},
                     {"acceptance4", n.among_first_four()},
                     {"bandwidth", 8e-6 * n.network.bytes_per_s},
                     {"drafters", n.drafters},
                     {"prompt_tokens", n.prompt},
                     {"predict", n.generate},
                     {"requests", flags.requests},
                     {"slots", flags.slots},
                     {"repeats", flags.repeats}};
  if (flags.requests_per_s > 0) from.emplace_back("arrival", flags.requests_per_s);
  write_outputs({{flags.json_file, [&] { return to_json(rows, from); }}, {flags.csv_file, [&] { return to_csv(rows); }}});
}

}  // namespace yamata
