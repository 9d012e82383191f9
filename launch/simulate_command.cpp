// yamata simulate: whole jobs in virtual time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "launch/job.hpp"
#include "launch/output_file.hpp"
#include "launch/report.hpp"
#include "launch/simulate_report.hpp"
#include "mpi/layer_split.hpp"
#include "mpi/simulation/virtual_cluster.hpp"
#include "node/error.hpp"
#include "src/model/weights.hpp"

namespace yamata {
namespace {

using simulation::Nanoseconds;
using simulation::Outcome;
using simulation::Scenario;

/// The cluster as numbers, once flags, --from and models have been read.
struct Numbers {
  double target_ms = 400, draft_ms = 0, head_ms = 0.05, latency_ms = 0.1, acceptance = 0.65, acceptance4 = 0.85;
  int layers = 32;
  simulation::RowWidths widths;
  std::vector<double> stage_ms;  ///< as measured, where --from has them; for as many stages
  simulation::WidthCost width;
};

Nanoseconds nanoseconds(double ms) { return std::llround(ms * 1e6); }

/// What runs of 1, 2, ... rows take all stages together, from the times of each; between widths that all have computed, along a line.
/// Empty where one has computed no run of one row.
std::vector<double> total_ms(const std::vector<std::vector<double>>& of_stages) {
  std::vector<double> totals;
  for (std::size_t known = 0, w = 0; !of_stages.empty() && w < of_stages[0].size(); ++w) {
    double total = 0;
    bool all = true;
    for (const auto& stage : of_stages) {
      all = all && w < stage.size() && stage[w] > 0;
      if (all) total += 1e3 * stage[w];
    }
    if (!all && w == 0) return {};
    if (!all) continue;
    const double from = totals.empty() ? total : totals.back(), to = std::max(from, total);
    for (std::size_t between = known + 1; between < w; ++between)
      totals.push_back(from + (to - from) * static_cast<double>(between - known) / static_cast<double>(w - known));
    totals.push_back(to);
    known = w;
  }
  return totals;
}

/// A yamata run's JSON: how long a row takes where, and what the draft is worth.
void take_measured(const std::string& path, Numbers& numbers) {
  const auto j = nlohmann::json::parse(read_text(path, "--from"), nullptr, false);
  try {
    std::vector<double> drafts;
    std::vector<std::vector<double>> stages;
    for (const auto& rank : j.at("per_rank")) {
      const auto run_s = rank.at("run_s").get<std::vector<double>>();
      if (rank.at("role") == "drafter") {
        drafts.push_back(1e3 * rank.at("busy_s").get<double>() / std::max(1.0, rank.at("runs").get<double>()));
      } else {
        stages.push_back(run_s);
        numbers.stage_ms.push_back(run_s.empty() ? 0 : 1e3 * run_s[0]);
      }
    }
    const std::vector<double> totals = total_ms(stages);
    if (totals.empty()) throw UsageError(fmt::format("{} has no run of a single token on every stage; let it write more tokens", path));
    if (totals.size() > 1) numbers.width = simulation::WidthCost(totals);
    numbers.target_ms = std::accumulate(numbers.stage_ms.begin(), numbers.stage_ms.end(), 0.0);
    if (!drafts.empty()) numbers.draft_ms = std::accumulate(drafts.begin(), drafts.end(), 0.0) / static_cast<double>(drafts.size());
    numbers.head_ms = j.at("head_us_per_token").get<double>() / 1e3;
    if (j.contains("model")) {
      const auto& model = j.at("model");
      numbers.layers = model.at("layers").get<int>();
      numbers.widths = {model.at("width").get<std::int64_t>(), model.at("vocabulary").get<std::int64_t>()};
    }
    const double first = j.value("first_choice_rate", 0.0);
    if (first > 0) numbers.acceptance = first;
  } catch (const nlohmann::json::exception&) {
    throw UsageError(fmt::format("{} is no result of a run; 'yamata run --json FILE' writes one", path));
  }
}

class Simulator {
 public:
  explicit Simulator(const Options& options);
  /// The row of one cluster and strategy.
  SimulatedRow row(int ranks, const std::string& strategy, const Numbers& numbers) const;
  /// What one more node, half the latency and a better draft would each change, in words.
  std::string advice(const SimulatedRow& row) const;
  const Numbers& numbers() const { return numbers_; }

 private:
  void take_models();
  Scenario scenario(int ranks, const std::string& strategy, const Numbers& numbers) const;
  std::vector<Nanoseconds> stage_times(int stages, const Numbers& numbers) const;

  const Options& options_;
  const SimulationOptions& flags_;
  std::optional<ModelFile> model_;
  Numbers numbers_;
};

Simulator::Simulator(const Options& options) : options_(options), flags_(options.simulation) {
  numbers_.latency_ms = flags_.latency_ms;
  if (!flags_.from_file.empty()) take_measured(flags_.from_file, numbers_);
  if (!flags_.width_cost.empty()) numbers_.width = simulation::WidthCost(flags_.width_cost);
  if (flags_.target_ms) numbers_.stage_ms.clear();
  numbers_.target_ms = flags_.target_ms.value_or(numbers_.target_ms);
  take_models();
  if (numbers_.draft_ms == 0) numbers_.draft_ms = numbers_.target_ms / 20;
  numbers_.draft_ms = flags_.draft_ms.value_or(numbers_.draft_ms);
  numbers_.head_ms = flags_.head_ms.value_or(numbers_.head_ms);
  numbers_.acceptance =
      flags_.acceptance.value_or(flags_.acceptance4 ? std::min(numbers_.acceptance, *flags_.acceptance4) : numbers_.acceptance);
  numbers_.acceptance4 = flags_.acceptance4.value_or(1 - 0.42 * (1 - numbers_.acceptance));
}

void Simulator::take_models() {
  const auto bytes = [](const ModelFile& model) { return static_cast<double>(stage_bytes(model.file, model.h, {0, model.h.layers})); };
  if (options_.model.empty()) return;
  model_ = ModelFile::open(options_.model);
  numbers_.layers = static_cast<int>(model_->h.layers);
  numbers_.widths = {model_->h.dim, model_->h.vocabulary};
  if (options_.draft_models.empty() || numbers_.draft_ms > 0) return;
  numbers_.draft_ms = numbers_.target_ms * bytes(ModelFile::open(options_.draft_models[0])) / bytes(*model_);
}

/// As measured on as many stages; else by the bytes of the model's layers; without a model each the same.
std::vector<Nanoseconds> Simulator::stage_times(int stages, const Numbers& numbers) const {
  std::vector<double> shares(static_cast<std::size_t>(stages), 1.0);
  if (numbers.stage_ms.size() == shares.size()) {
    shares = numbers.stage_ms;
  } else if (model_) {
    const auto ranges = split_layers(model_->file, model_->h, {}, stages);
    for (std::size_t s = 0; s < shares.size(); ++s) shares[s] = static_cast<double>(stage_bytes(model_->file, model_->h, ranges[s]));
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<Nanoseconds> times;
  for (const double share : shares) times.push_back(nanoseconds(numbers.target_ms * share / sum));
  return times;
}

Scenario Simulator::scenario(int ranks, const std::string& strategy, const Numbers& numbers) const {
  Options o = options_;
  o.strategy = strategy;
  const int named = o.draft_models.empty() ? flags_.drafters : static_cast<int>(o.draft_models.size());
  const int drafts = strategy == "iterative" ? 0 : named;
  const Layout layout = make_layout("auto", ranks, drafts, o.no_async);
  Scenario s;
  s.stages = stage_times(static_cast<int>(layout[0].ranks.size()), numbers);
  s.drafters.assign(static_cast<std::size_t>(drafts), nanoseconds(numbers.draft_ms));
  s.draft_on_head = drafts > 0 && layout[1].ranks.front() == 0;
  s.slowness.assign(static_cast<std::size_t>(ranks), 1.0);
  for (const auto& [rank, factor] : flags_.slow) {
    if (rank < ranks) s.slowness[static_cast<std::size_t>(rank)] = factor;
  }
  s.width = numbers.width;
  s.layers = numbers.layers;
  s.network = {nanoseconds(numbers.latency_ms), flags_.bandwidth_mbit_s * 1e6 / 8, nanoseconds(flags_.wake_up_ms)};
  s.widths = numbers.widths;
  s.head = nanoseconds(numbers.head_ms);
  s.text = {0, numbers.acceptance, numbers.acceptance4, flags_.over_confidence};
  s.prompt = flags_.prompt_tokens;
  s.decode = decode_options(o, flags_.prompt_tokens + o.generate);
  s.decode.lookup = false;  // the text never repeats itself
  return s;
}

/// Adds one text's share of the means.
void add(const Outcome& outcome, int prompt, double share, SimulatedRow& row) {
  Generation g;
  g.prompt_tokens = prompt;
  g.token_ids = outcome.tokens;
  g.prefill_s = 1e-9 * static_cast<double>(outcome.prefill);
  for (const Nanoseconds t : outcome.arrived) g.token_times_s.push_back(1e-9 * static_cast<double>(t));
  const Speed s = speed(g);
  const auto& c = outcome.counters;
  const auto ratio = [](auto a, auto b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0.0; };
  const auto mean = [&](const std::vector<double>& v) {
    return v.empty() ? 0.0 : std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  row.tokens_per_s += share * s.decode_tokens_per_s;
  row.prefill_s += share * g.prefill_s;
  row.ttft_ms += share * 1e3 * s.ttft_s;
  row.itl_p50_ms += share * 1e3 * s.itl_p50_s;
  row.itl_p99_ms += share * 1e3 * s.itl_p99_s;
  row.acceptance += share * ratio(c.accepted, c.drafted);
  row.tokens_per_run += share * ratio(outcome.tokens.size(), c.target_evaluations);
  row.runs_started += share * static_cast<double>(c.runs_started);
  row.runs_cancelled += share * static_cast<double>(c.runs_cancelled);
  row.busiest_stage += share * *std::max_element(outcome.stage_busy.begin(), outcome.stage_busy.end());
  row.mean_stage += share * mean(outcome.stage_busy);
  row.drafter += share * mean(outcome.drafter_busy);
}

SimulatedRow Simulator::row(int ranks, const std::string& strategy, const Numbers& numbers) const {
  Scenario s = scenario(ranks, strategy, numbers);
  SimulatedRow row;
  row.ranks = ranks;
  row.strategy = strategy;
  for (int i = 0; i < flags_.repeats; ++i) {
    s.text.seed = options_.sampling.seed + static_cast<std::uint64_t>(i);
    const Outcome outcome = simulation::play(s);
    if (!outcome.exact)
      throw ClusterError(
          fmt::format("{} on {} ranks wrote another text than the target alone; this is a fault of Yamata", strategy, ranks));
    add(outcome, s.prompt, 1.0 / flags_.repeats, row);
  }
  return row;
}

std::string Simulator::advice(const SimulatedRow& base) const {
  Numbers fast = numbers_, sure = numbers_;
  fast.latency_ms /= 2;
  sure.acceptance += (1 - sure.acceptance) / 4;
  sure.acceptance4 += (1 - sure.acceptance4) / 4;
  struct Change {
    const char* words;
    double gain;
  };
  std::vector<Change> changes;
  const auto gain = [&](int ranks, const Numbers& n) { return 100 * (row(ranks, base.strategy, n).tokens_per_s / base.tokens_per_s - 1); };
  const int most = model_ ? numbers_.layers : 1024;
  if (base.ranks < most) changes.push_back({"one more node", gain(base.ranks + 1, numbers_)});
  changes.push_back({"half the latency", gain(base.ranks, fast)});
  if (base.strategy != "iterative") changes.push_back({"a draft that misses a quarter less", gain(base.ranks, sure)});
  std::string words;
  for (const Change& c : changes) words += fmt::format("{}{} {:+.0f} %", words.empty() ? "" : ", ", c.words, c.gain);
  const auto best = std::max_element(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.gain < b.gain; });
  if (best->gain < 1) return fmt::format("{} on {} ranks: {}; none of them helps", base.strategy, base.ranks, words);
  return fmt::format("{} on {} ranks: {}; {} helps most", base.strategy, base.ranks, words, best->words);
}

void check_outputs(const Options& options) {
  std::vector<std::string> kept = options.draft_models;
  kept.push_back(options.model);
  kept.push_back(options.simulation.from_file);
  for (const std::string& path : {options.json_file, options.csv_file}) {
    if (path.empty()) continue;
    check_writable(path, kept);
    kept.push_back(path);
  }
}

}  // namespace

void simulate_command(const Options& options) {
  check_outputs(options);
  const SimulationOptions& flags = options.simulation;
  const Simulator simulator(options);
  const Numbers& n = simulator.numbers();
  std::vector<SimulatedRow> rows;
  for (const int ranks : flags.ranks) {
    const SimulatedRow plain = simulator.row(ranks, "iterative", n);
    for (const std::string& strategy : flags.strategies) {
      rows.push_back(strategy == "iterative" ? plain : simulator.row(ranks, strategy, n));
      rows.back().ratio = plain.tokens_per_s > 0 ? rows.back().tokens_per_s / plain.tokens_per_s : 0;
    }
  }
  fmt::print("{}", to_table(rows));
  if (options.generate > 1) {
    const auto best = std::max_element(rows.begin(), rows.end(),
                                       [](const SimulatedRow& a, const SimulatedRow& b) { return a.tokens_per_s < b.tokens_per_s; });
    fmt::print("\n{}\n", simulator.advice(*best));
  }
  const SimulatedFrom from{{"target_ms", n.target_ms},
                           {"draft_ms", n.draft_ms},
                           {"head_ms", n.head_ms},
                           {"latency", n.latency_ms},
                           {"acceptance", n.acceptance},
                           {"acceptance4", n.acceptance4},
                           {"bandwidth", flags.bandwidth_mbit_s},
                           {"prompt_tokens", flags.prompt_tokens},
                           {"predict", options.generate},
                           {"repeats", flags.repeats}};
  if (!options.json_file.empty()) write_file(options.json_file, to_json(rows, from));
  if (!options.csv_file.empty()) write_file(options.csv_file, to_csv(rows));
}

}  // namespace yamata
