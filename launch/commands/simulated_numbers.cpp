#include "launch/commands/simulated_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace yamata {
namespace {

/// Share of the tokens that were among the draft's first `choices`, of those for which it has choices; nothing if there are none.
std::optional<double> share_among(const simulation::Recording& text, std::size_t choices) {
  double told = 0, accepted = 0;
  for (const auto& token : text.choices) {
    told += token.draft_probabilities.empty() ? 0 : 1;
    accepted += token.accepted && *token.accepted < choices ? 1 : 0;
  }
  return told > 0 ? std::optional(accepted / told) : std::nullopt;
}

void take_target_times(const PlanFile& plan, SimulatedNumbers& numbers) {
  const PlannedHost& first = plan.hosts.front();
  numbers.target_ms = 1e-6 * plan.target_bytes * first.ns_per_byte;
  numbers.width = first.width;
  for (int rank = 1; rank < std::ssize(plan.hosts); ++rank)
    numbers.slow[rank] = plan.hosts[static_cast<std::size_t>(rank)].ns_per_byte / first.ns_per_byte;
}

void take_machines(const PlanFile& plan, SimulatedNumbers& numbers) {
  const auto ranks = static_cast<int>(plan.hosts.size());
  const PlannedHost& first = plan.hosts.front();
  take_target_times(plan, numbers);
  numbers.draft_ms = 1e-6 * plan.draft_bytes * plan.draft_cost * first.ns_per_byte;
  numbers.drafters = plan.draft_bytes > 0 ? 1 : 0;
  numbers.draft_width = first.width;
  numbers.layers = plan.layers;
  numbers.widths = plan.widths;
  numbers.exchange_bytes = plan.exchange_bytes;
  numbers.acceptance = plan.acceptance;
  numbers.acceptance4 = plan.acceptance4;
  numbers.prompt = plan.prompt;
  numbers.generate = plan.generate;
  numbers.ranks = {ranks, ranks + 1, 2 * ranks};
}

}  // namespace

void SimulatedNumbers::take(const MeasuredRun& run) {
  groups = run.groups;
  stage_ms = run.stage_ms;
  exchange_ms = run.exchange_ms;
  target_ms = run.computing_ms;
  width = run.width.value_or(width);
  width_of_computing = !run.width;
  draft_ms = run.draft_ms.value_or(draft_ms);
  draft_width = run.draft_width.value_or(width);
  draft_heads = run.draft_heads;
  head_ms = run.head_ms;
  exchange_bytes *= static_cast<double>(run.widths.hidden) / static_cast<double>(widths.hidden);
  widths = run.widths;
  if (run.layers > 0) layers = run.layers;
  // A draft on rank 0 has no rank in the list, but its choices are recorded.
  drafters = std::max(run.drafters, run.text.choices.empty() ? 0 : 1);
  ranks = {run.ranks, run.ranks + 1, 2 * run.ranks};
  if (run.first_choice_rate > 0) acceptance = run.first_choice_rate;
  if (run.text.tokens.empty()) return;
  text = run.text;
  prompt = static_cast<int>(run.text.prompt.size());
  generate = static_cast<int>(run.text.tokens.size());
  acceptance = share_among(run.text, 1).value_or(acceptance);
  acceptance4 = share_among(run.text, 4);
}

void SimulatedNumbers::take(const PlanFile& plan) {
  const bool shares_layers = std::ranges::any_of(groups, [](int members) { return members > 1; });
  if (!plan.of_run) {
    take_machines(plan, *this);
  } else if (shares_layers) {
    take_target_times(plan, *this);
  }
  network = benchmarked = plan.slowest_link();
  group_costs = plan.group_costs;
}

simulation::Nanoseconds SimulatedNumbers::exchange_here(simulation::Nanoseconds tried, double bytes) const {
  const auto way_ns = [&](const simulation::NetworkOptions& link) {
    return static_cast<double>(link.latency) + 1e9 * bytes / link.bytes_per_s;
  };
  return std::max<simulation::Nanoseconds>(1, tried + std::llround(way_ns(network) - way_ns(benchmarked)));
}

}  // namespace yamata
