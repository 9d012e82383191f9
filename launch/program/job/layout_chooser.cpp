#include "launch/program/job/layout_chooser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "launch/program/input/interrupts.hpp"
#include "launch/program/output/warnings.hpp"
#include "launch/program/planning/kept_links.hpp"
#include "launch/program/planning/layout_choice.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "mpi/planning/drafter_placement.hpp"
#include "mpi/planning/memory_plan.hpp"
#include "mpi/planning/rank_speed.hpp"
#include "mpi/transport/congestion.hpp"
#include "node/error.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {

LayoutChooser::LayoutChooser(JobRank& rank, JobExperience& experience) : rank_(rank), experience_(experience) {}

std::uint64_t layer_bytes(const JobRank& rank) {
  const ModelFile& target = rank.models().target();
  const CacheOptions& cache = rank.options().cache;
  const RankBytes all = rank_bytes(target, {0, target.h.layers}, Shard(target.h), cache.types, cache.batch, 1);
  return (all.weights + all.cache(static_cast<std::uint64_t>(rank.context()))) / static_cast<std::uint64_t>(target.h.layers);
}

GroupRecord LayoutChooser::group_record() const {
  return {measurement_folder(), std::time(nullptr), rank_.layout().measures_anew(), uncached_bytes()};
}

/// The machines have links from the cache; there are none if planned_hosts is empty.
std::optional<wire::BenchmarkRequest> LayoutChooser::next_group(const std::vector<wire::Hello>& hellos, std::span<const Link> links,
                                                                std::span<const GroupTime> so_far) {
  if (so_far.empty()) {
    const bool anew = rank_.layout().measures_anew();
    machines_ = planned_hosts(hellos, settled_links(measurement_folder(), hellos, links, std::time(nullptr), anew), layer_bytes(rank_));
    if (const std::string paced = pacing_warning(links, congestion_control()); !paced.empty()) warn(paced);
  }
  return yamata::next_group(rank_.models().target(), machines_, so_far, group_record());
}

void LayoutChooser::choose(const std::vector<wire::Hello>& hellos, const ExpectedText& text, std::span<const GroupTime> groups) {
  if (rank_.layout().is_open()) choose_layout(text, groups);
  if (rank_.layout().drafters_are_open()) place_drafters_by_speed(hellos);
}

/// Simulates the possible layouts. If a rank could not be measured or lacks a file, or if no layout fits, the flags' own layout remains.
void LayoutChooser::choose_layout(const ExpectedText& text, std::span<const GroupTime> groups) {
  constexpr int kTokens = 48;  // of the simulated texts: enough to compare layouts, in a fraction of a second
  if (machines_.empty()) return;
  const JobOptions& options = rank_.options();
  PlannedJob job{.target = rank_.models().target(), .draft = rank_.models().find(1)};
  job.interrupted = &g_interrupted;
  job.speculation = text.speculation;
  job.cache_types = options.cache.types;
  job.context = rank_.context();
  job.batch = options.cache.batch;
  job.prompt = std::min(job.prompt, static_cast<int>(text.prompt_tokens));
  job.generate = std::clamp(text.generate, 2, kTokens);
  job.requests = std::min(text.requests, text.slots);
  job.draws = 8;
  if (job.draft) {
    const auto first = experience_.first_choices();
    if (first) job.acceptance = first->right, job.draft_cost = first->cost;
    job.acceptance4 = among_first_four(job.acceptance);
    if (first) job.over_confidence = simulation::over_confidence_of({.top1 = job.acceptance, .top4 = job.acceptance4}, first->probability);
  }
  const KeptForecasts earlier = experience_.forecasts();
  if (job.requests == 1) job.correction = [&](const LayoutCandidate& layout) { return earlier.correction(layout); };
  job.group_costs = group_costs(job.target, machines_, groups, group_record());
  job.strategy = rank_.layout().asked_strategy();
  job.guesses_text = options.layout.guesses_text;
  job.draft_on_head = options.layout.draft_on_head;
  experience_.measured(machines_);
  if (auto choice = yamata::choose_layout(job, machines_)) rank_.layout().choose(std::move(*choice));
}

/// Chooses the drafters' ranks by speed. Throws ModelError if a rank lacks the file of its part.
void LayoutChooser::place_drafters_by_speed(const std::vector<wire::Hello>& hellos) {
  const RankModels& models = rank_.models();
  const std::size_t count = models.transformers().size();
  std::vector<DrafterCandidate> candidates;
  std::vector<int> with_target;
  for (std::size_t r = 0; r < hellos.size(); ++r) {
    candidates.emplace_back();
    for (std::size_t m = 0; m < count; ++m) candidates[r].has_model.push_back(hellos[r].fingerprints[m] == models.fingerprints()[m]);
    if (candidates[r].has_model[0]) with_target.push_back(static_cast<int>(r));
  }
  const std::vector<double> ns_per_byte = relative_ns_per_byte(hellos, with_target);
  for (std::size_t i = 0; i < ns_per_byte.size(); ++i) candidates[static_cast<std::size_t>(with_target[i])].ns_per_byte = ns_per_byte[i];
  std::vector<double> costs;
  for (std::size_t m = 1; m < count; ++m) costs.push_back(models.relative_cost(static_cast<int>(m)));
  rank_.layout().place(place_drafters(rank_.layout().places(), candidates, costs));
  for (const ModelPlace& place : rank_.layout().places()) {
    const auto model = static_cast<std::size_t>(place.model);
    for (const int rank : place.ranks) {
      if (candidates[static_cast<std::size_t>(rank)].has_model[model]) continue;
      throw ModelError(fmt::format("rank {} ({}) has no {}, or another one; copy the file to that machine", rank,
                                   hellos[static_cast<std::size_t>(rank)].host, models.path(model)));
    }
  }
}

}  // namespace yamata
