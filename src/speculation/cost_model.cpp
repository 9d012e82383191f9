#include "src/speculation/cost_model.hpp"

#include <algorithm>

namespace yamata {
namespace {

/// What it is worth that results come a step earlier, in steps. The optimum is flat: in the sweep of docs/speculation.md 0, 0.5, 1 and 1.5
/// give 0.928, 0.997, 0.996 and 0.985 times the speed.
constexpr double kLateness = 0.75;

}  // namespace

double token_s(const TargetTimes& target) {
  return target.text_rate > 0 ? std::min(target.round_trip_s, 1 / target.text_rate) : target.round_trip_s;
}

double step_s(const TargetTimes& target) { return std::max({target.stage_s, target.link_s, target.result_s}); }

int most_runs_in_flight(const TargetTimes& target) {
  return target.stage_s > 0 ? std::max(target.stages, static_cast<int>(target.round_trip_s / step_s(target))) : target.stages;
}

double steps_on_links(const TargetTimes& target, std::size_t rows) {
  const double step = step_s(target);
  return step > 0 ? std::max(1.0, static_cast<double>(rows) * std::max(target.link_s, target.result_s) / step) : 1;
}

double delay_s(const TargetTimes& target, double marginal, std::size_t rows) {
  const double links_s = (target.stages - 1) * target.link_s + target.result_s;
  return target.stages * target.stage_s * marginal + static_cast<double>(rows) * links_s;
}

double least_row_cost(const std::vector<double>& marginal, std::size_t rows) {
  double least = marginal[rows + 1] - marginal[rows];
  for (std::size_t k = rows + 2; k < marginal.size(); ++k)
    least = std::min(least, (marginal[k] - marginal[rows]) / static_cast<double>(k - rows));
  return least;
}

RunCosts root_costs(const TargetTimes& target, const std::vector<double>& marginal, bool followed) {
  const double step = step_s(target);
  // Guesses that are rejected make the text slower; the time of their rows is worth no less for that.
  const double alone_s = followed ? step : target.in_turns ? 0 : target.round_trip_s;
  const double per_s = alone_s > 0 ? std::max(1 / alone_s, target.text_rate) : target.text_rate;
  RunCosts costs;
  for (std::size_t k = 0; k < marginal.size(); ++k) costs.occupancy.push_back(per_s * delay_s(target, marginal[k], k));
  return costs;
}

RunCosts guess_costs(const TargetTimes& target, const std::vector<double>& marginal) {
  const double step = step_s(target);
  if (step <= 0) return {};
  const double per_s = target.text_rate > 0 ? target.text_rate : 1 / (target.stages * step);
  const double link_s = std::max(target.link_s, target.result_s);
  RunCosts costs{.occupancy = {0}, .lateness = {0}};
  for (std::size_t k = 1; k < marginal.size(); ++k) {
    const double occupied_s = std::max(target.stage_s * (1 + marginal[k]), static_cast<double>(k) * link_s);
    costs.occupancy.push_back(per_s * (occupied_s - step));
    costs.lateness.push_back(kLateness * (delay_s(target, marginal[k], k - 1) - target.stage_s * marginal[k]) / step);
  }
  return costs;
}

double open_probability(const TokenTree& tree, const SourceCalibration& source, std::span<const NodeId> nodes) {
  double best = 0;
  const auto consider = [&](NodeId id) {
    if (source.continued(tree, id)) return;
    double open = tree.at(id).path_probability;
    for (const NodeId child : tree.at(id).children) open -= tree.at(child).path_probability;
    best = std::max(best, open);
  };
  consider(tree.root().id);
  for (const NodeId id : nodes) {
    if (source.guessed(tree, id)) consider(id);
  }
  return best;
}

double unguessed_probability(const TokenTree& tree, const SourceCalibration& source) {
  double open = 1;
  for (const NodeId child : tree.root().children) {
    if (!source.guessed(tree, child)) open -= tree.at(child).path_probability;
  }
  return std::max(0.0, open);
}

bool may_wait(const TargetTimes& target, const RootRun& run) {
  const std::size_t most = run.marginal->size() - 1;
  return target.stage_s > 0 && target.text_rate > 0 && (run.guesses < most || run.last_chance);
}

bool worth_waiting(const TargetTimes& target, const RootRun& run, const AwaitedSource& source) {
  const std::size_t most = run.marginal->size() - 1;
  const double row_s = run.guesses < most ? delay_s(target, least_row_cost(*run.marginal, run.guesses), 1) : 0;
  const double gain_s = run.last_chance ? token_s(target) : std::min(1 / target.text_rate, kLateness * step_s(target));
  double likely = source.open, wait_s = source.first_s, value_s = 0;
  for (std::size_t k = 0; k < (run.last_chance ? most : 1) && value_s <= 0; ++k, wait_s = source.next_s) {
    likely *= source.acceptance;
    const bool full = run.guesses + k >= most;
    value_s += (full ? likely - run.least_probability : likely) * gain_s - wait_s - (full ? 0 : row_s);
  }
  return value_s > 0;
}

}  // namespace yamata
