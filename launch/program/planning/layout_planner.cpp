#include "launch/program/planning/layout_planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "launch/program/planning/layout_memory.hpp"
#include "mpi/planning/layer_split.hpp"
#include "src/model/passed_rows.hpp"
#include "src/model/shard.hpp"
#include "src/model/weights.hpp"
#include "src/speculation/shaped_policies.hpp"

namespace yamata {
namespace {

using simulation::Nanoseconds;
using simulation::Scenario;

constexpr int kScreeningTokens = 24, kScreeningPrompt = 16;
constexpr std::size_t kFinalists = 8;
constexpr int kMaxTokens = 256, kMaxPrompt = 256;  // the time of a simulation grows with their squares
constexpr int kMaxTokensOfAll = 2048;              // of several texts

double sum(std::span<const double> numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }

/// Time of one row on each rank of the target; within a group, in proportion to the weights that a member reads.
std::vector<Nanoseconds> stage_times(const LayoutCandidate& candidate, const PlannedJob& job, std::span<const PlannedHost> hosts) {
  const auto& [file, h] = job.target;
  const ModelPlace& place = candidate.layout.front();
  const std::vector<double> costs = layer_costs(job.target.file, job.target.h);
  std::vector<Nanoseconds> times;
  for (std::size_t s = 0, rank = 0; s < candidate.stages.size(); ++s) {
    const LayerRange range = candidate.stages[s];
    const double bytes = sum(std::span(costs).subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.count())));
    const auto members = static_cast<std::size_t>(place.groups.empty() ? 1 : place.groups[s]);
    const std::span<const double> shares = std::span(place.shares).subspan(rank, members);
    const double slower = group_cost(job.group_costs, static_cast<int>(members)).computing;
    const auto whole = static_cast<double>(read_bytes(file, h, range));
    for (std::size_t m = 0; m < members; ++m, ++rank) {
      const auto part = static_cast<double>(read_bytes(file, h, range, Shard(h, shares, static_cast<int>(m))));
      times.push_back(std::llround(bytes * part / whole * slower * hosts[static_cast<std::size_t>(place.ranks[rank])].ns_per_byte));
    }
  }
  return times;
}

/// Floats of a row that each rank of the target sends to the next stage.
std::vector<std::int64_t> activations_sent(const LayoutCandidate& candidate, const Hyperparameters& h) {
  const std::vector<int>& groups = candidate.layout.front().groups;
  std::vector<std::int64_t> floats;
  for (std::size_t stage = 0; stage < candidate.stages.size(); ++stage)
    floats.insert(floats.end(), groups.empty() ? 1 : static_cast<std::size_t>(groups[stage]),
                  PassedRows(h, candidate.stages[stage].end).width());
  return floats;
}

Scenario scenario(const LayoutCandidate& candidate, const PlannedJob& job, std::span<const PlannedHost> hosts,
                  const simulation::NetworkOptions& network, int prompt, int generate) {
  const ModelPlace& place = candidate.layout.front();
  Scenario s;
  s.stages = stage_times(candidate, job, hosts);
  s.groups = place.groups;
  s.exchange_bytes = exchange_bytes(job.target.h);
  for (const int members : place.groups) {
    if (const GroupCost cost = group_cost(job.group_costs, members); cost.exchange > 0) s.exchanges[members] = cost.exchange;
  }
  for (const int rank : place.ranks) s.rank_widths.push_back(hosts[static_cast<std::size_t>(rank)].width);
  if (candidate.layout.size() > 1) {
    const PlannedHost& drafter = hosts[static_cast<std::size_t>(candidate.layout[1].ranks.front())];
    s.drafters = {std::llround(token_bytes(*job.draft) * job.draft_cost * drafter.ns_per_byte)};
    s.draft_width = drafter.width;
  }
  s.draft_on_head = candidate.draft_on_head();
  s.slowness.assign(static_cast<std::size_t>(candidate.hosts()), 1.0);
  s.layers = static_cast<int>(job.target.h.layers);
  s.network = network;
  s.widths = {job.target.h.dim, job.target.h.vocabulary, activations_sent(candidate, job.target.h)};
  s.text.top1 = job.acceptance;
  s.text.top4 = job.acceptance4;
  s.text.over_confidence = job.over_confidence;
  s.prompt = prompt;
  s.requests = job.requests;
  s.decode = decode_options(candidate.strategy, job.speculation, job.batch, generate, prompt + generate, {});
  if (job.target.h.is_recurrent()) limit_guesses(s.decode, static_cast<int>(candidate.stages.size()));
  s.decode.lookup = false;  // a random text has no repetitions
  s.interrupted = job.interrupted;
  return s;
}

/// The worst latency and rate of the layout's links; `network` if they are unknown.
simulation::NetworkOptions network_of(const LayoutCandidate& candidate, std::span<const PlannedHost> hosts,
                                      const simulation::NetworkOptions& network) {
  std::vector<int> ranks;
  for (const ModelPlace& place : candidate.layout) ranks.insert(ranks.end(), place.ranks.begin(), place.ranks.end());
  return slowest_link(hosts, ranks, network);
}

double exchange_share(const Scenario& s) {
  double most = 0;
  const auto stages = static_cast<int>(s.groups.size());
  for (std::size_t stage = 0, rank = 0; stage < s.groups.size(); rank += static_cast<std::size_t>(s.groups[stage++])) {
    const simulation::ExchangeCost exchanges = simulation::exchange_cost(s, s.groups[stage], stages);
    const auto begin = s.stages.begin() + static_cast<std::ptrdiff_t>(rank);
    const auto computing = static_cast<double>(*std::max_element(begin, begin + s.groups[stage]));
    const auto exchange = static_cast<double>(exchanges.run + exchanges.row);
    most = std::max(most, exchange / (exchange + computing));
  }
  return most;
}

/// The median of the texts.
double first_token_s(const simulation::Outcome& outcome) {
  std::vector<Nanoseconds> first;
  for (const simulation::TimedRequest& request : outcome.requests) first.push_back(request.arrived.front());
  const auto middle = first.begin() + std::ssize(first) / 2;
  std::ranges::nth_element(first, middle);
  return 1e-9 * static_cast<double>(*middle);
}

Forecast simulate(const LayoutCandidate& candidate, const PlannedJob& job, std::span<const PlannedHost> hosts,
                  const simulation::NetworkOptions& network, int prompt, int generate, int draws) {
  Forecast f{.candidate = candidate};
  Scenario s = scenario(candidate, job, hosts, network_of(candidate, hosts, network), prompt, generate);
  for (int draw = 0; draw < draws; ++draw) {
    s.text.seed = static_cast<std::uint64_t>(draw);
    const simulation::Outcome outcome = simulation::simulate(s);
    f.tokens_per_s += simulation::tokens_per_s(outcome.requests) / draws;
    f.ttft_s += first_token_s(outcome) / draws;
    f.busiest_stage += *std::ranges::max_element(outcome.stage_busy) / draws;
    f.drafter_busy += (outcome.drafter_busy.empty() ? 0 : outcome.drafter_busy.front()) / draws;
  }
  f.exchange_share = exchange_share(s);
  add_memory(job, hosts, s.decode, f);
  return f;
}

/// Whether the flags allow it. Without drafters, all strategies generate one token after another, except for repetitions in the text.
bool allowed(LayoutCandidate& candidate, const PlannedJob& job) {
  if (job.requests > 1 && candidate.draft_on_head()) return false;  // it guesses only for a text alone
  if (!job.draft && job.strategy) {
    candidate.strategy = *job.strategy;
    return true;
  }
  if (!job.strategy && job.guesses_text && candidate.layout.size() == 1)
    candidate.strategy = strategy_for_texts(candidate.layout.front().stages());
  if (job.draft_on_head && candidate.layout.size() > 1 && !candidate.draft_on_head()) return false;
  return !job.strategy || candidate.strategy == *job.strategy;
}

void sort_by_speed(std::vector<Forecast>& forecasts) {
  std::stable_sort(forecasts.begin(), forecasts.end(),
                   [](const Forecast& a, const Forecast& b) { return a.tokens_per_s > b.tokens_per_s; });
}

}  // namespace

double token_bytes(const ModelFile& model) { return sum(layer_costs(model.file, model.h)); }

Forecast forecast(const LayoutCandidate& candidate, const PlannedJob& job, std::span<const PlannedHost> hosts,
                  const simulation::NetworkOptions& network, int generate, int draws) {
  const int half = std::max(1, kMaxPrompt / 2 / job.batch) * job.batch;  // whole runs, so that all take equally long
  const int prompt = std::min(job.prompt, 2 * half);
  const bool several = job.requests > 1;
  const int tokens = std::min(generate, several ? std::max(kScreeningTokens, kMaxTokensOfAll / job.requests) : kMaxTokens);
  const auto simulated = [&](int prompt, int draws) { return simulate(candidate, job, hosts, network, prompt, tokens, draws); };
  // Several texts would grow together only for a short time if they had long prompts.
  Forecast f = several ? simulated(1, std::max(1, draws / job.requests)) : simulated(prompt, draws);
  if (several) f.ttft_s = simulated(prompt, 1).ttft_s;
  if (job.prompt == prompt) return f;
  const double before = several ? simulated(half, 1).ttft_s : simulate(candidate, job, hosts, network, half, 2, 1).ttft_s;
  f.ttft_s += (f.ttft_s - before) * (job.prompt - prompt) / half;
  return f;
}

std::vector<Forecast> plan_layouts(const PlannedJob& job, std::span<const PlannedHost> hosts, const simulation::NetworkOptions& network,
                                   std::size_t most) {
  auto candidates = layout_candidates(job.target, hosts, job.draft != nullptr, least_layer_cache(job));
  std::erase_if(candidates, [&](LayoutCandidate& candidate) { return !allowed(candidate, job); });
  std::vector<Forecast> all;
  for (const LayoutCandidate& candidate : candidates)
    all.push_back(simulate(candidate, job, hosts, network, job.requests > 1 ? 1 : kScreeningPrompt, kScreeningTokens, 1));
  const bool any_fits = std::ranges::any_of(all, &Forecast::fits);
  if (any_fits) std::erase_if(all, [](const Forecast& f) { return !f.fits; });
  sort_by_speed(all);
  std::vector<Forecast> best;
  bool alone = false;  // whether the fastest layout of a single host is included
  for (const Forecast& f : all) {
    const bool one_host = f.candidate.hosts() == 1;
    if (best.size() >= std::max(most, kFinalists) && !(one_host && !alone)) continue;
    alone |= one_host;
    best.push_back(forecast(f.candidate, job, hosts, network, job.generate, job.draws));
  }
  sort_by_speed(best);
  while (best.size() > most) {
    const bool keep_last =
        best.back().candidate.hosts() == 1 && std::ranges::count_if(best, [](const Forecast& f) { return f.candidate.hosts() == 1; }) == 1;
    best.erase(best.end() - (keep_last && best.size() > 1 ? 2 : 1));
  }
  return best;
}

std::string reason(const Forecast& f) {
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  std::string words;
  const auto add = [&words](const std::string& word) { words += (words.empty() ? "" : ", ") + word; };
  if (!f.fits) add("does not fit into memory");
  if (f.candidate.hosts() == 1) add("no links");
  if (f.exchange_share > 0) add(fmt::format("{} of a layer's time in exchanges", percent(f.exchange_share)));
  if (f.candidate.stages.size() > 1) add(fmt::format("busiest stage {}", percent(f.busiest_stage)));
  if (f.candidate.layout.size() > 1) {
    add(f.candidate.draft_on_head() ? "the draft takes turns with the head's layers"
                                    : fmt::format("drafter {} busy", percent(f.drafter_busy)));
  }
  return words;
}

}  // namespace yamata
