#include "launch/program/job/job_layout.hpp"

#include <utility>

namespace yamata {

JobLayout::JobLayout(const LayoutOptions& options, const Job& job, std::optional<Strategy> asked)
    : options_(options),
      job_(job),
      asked_(asked),
      places_(make_layout(options.split.text, job.ranks, job.drafts, options.draft_on_head, job.draft_heads)),
      strategy_(options.strategy.value_or(Strategy::kIterative)) {}

bool JobLayout::is_open() const {
  if (!options_.planned || job_.draft_heads > 0 || !places_.front().shares.empty() || job_.drafts > 1) return false;
  if (options_.split.by != LayerSplit::By::kSpeed && options_.split.by != LayerSplit::By::kMeasuredSpeed) return false;
  return job_.several_hosts;
}

bool JobLayout::splits_by_speed() const {
  const ModelPlace& target = places_.front();
  return target.ranks.size() > 1 && target.shares.empty() && options_.split.by != LayerSplit::By::kBytes;
}

bool JobLayout::drafters_are_open() const {
  return job_.draft_heads == 0 && splits_by_speed() && places_.size() > 1 && places_[1].ranks.front() != 0;
}

bool JobLayout::needs_speed_of(int rank, std::int64_t layers) const {
  if (is_open()) return true;
  return splits_by_speed() && (place_of(places_, rank) == 0 || drafters_are_open()) &&
         static_cast<std::int64_t>(places_.front().ranks.size()) <= layers;
}

void JobLayout::choose(LayoutChoice choice) {
  choice_ = std::move(choice);
  places_ = choice_->candidate.layout;
  strategy_ = choice_->candidate.strategy;
}

}  // namespace yamata
