#include "launch/commands/simulated_row.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "launch/program/output/report.hpp"

namespace yamata {
namespace {

using simulation::Nanoseconds;

double mean(const std::vector<double>& v) {
  return v.empty() ? 0.0 : std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

double milliseconds(Nanoseconds time) { return 1e-6 * static_cast<double>(time); }

}  // namespace

void SimulatedRow::add(const simulation::Outcome& outcome, double share) {
  std::vector<double> first, gaps;
  std::size_t tokens = 0;
  for (const simulation::TimedRequest& request : outcome.requests) {
    const std::vector<Nanoseconds>& arrived = request.arrived;
    first.push_back(milliseconds(arrived.front() - request.submitted));
    for (std::size_t i = 1; i < arrived.size(); ++i) gaps.push_back(milliseconds(arrived[i] - arrived[i - 1]));
    tokens += arrived.size();
  }
  std::ranges::sort(first);
  std::ranges::sort(gaps);
  const auto& c = outcome.counters;
  const auto ratio = [](auto a, auto b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0.0; };
  tokens_per_s += share * simulation::tokens_per_s(outcome.requests);
  prefill_s += share * 1e-9 * static_cast<double>(outcome.prefill);
  ttft_ms += share * (outcome.arrived.size() > 1 ? milliseconds(outcome.arrived[1]) : 0);
  first_p50_ms += share * quantile(first, 0.5);
  first_p95_ms += share * quantile(first, 0.95);
  itl_p50_ms += share * quantile(gaps, 0.5);
  itl_p99_ms += share * quantile(gaps, 0.99);
  acceptance += share * ratio(c.accepted, c.drafted);
  tokens_per_run += share * ratio(tokens, c.target_evaluations);
  runs_started += share * static_cast<double>(c.runs_started);
  runs_cancelled += share * static_cast<double>(c.runs_cancelled);
  runs_skipped += share * static_cast<double>(outcome.runs_skipped);
  cancel_latency_s += share * outcome.cancel_latency_s;
  busiest_stage += share * *std::max_element(outcome.stage_busy.begin(), outcome.stage_busy.end());
  mean_stage += share * mean(outcome.stage_busy);
  drafter += share * mean(outcome.drafter_busy);
}

}  // namespace yamata
