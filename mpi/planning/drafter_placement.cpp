#include "mpi/planning/drafter_placement.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace yamata {
namespace {

/// Evaluations of the draft per step of the pipeline. With a drafter whose first choice is right in 65 to 80 % of cases, two guesses in a
/// row give .65 + .65² to .8 + .8² = 1.1 to 1.4 accepted tokens. A third would add .3 to .5, which is less than what the stages lose to a
/// drafter that is too slow.
constexpr double kGuessesPerStep = 2;
constexpr double kSame = 0.999;  // equal sums differ in their last digits

/// A stage's time per token of the target if `members` share all layers in proportion to their speeds. The unit is the time of the fastest
/// rank for all layers.
double stage_time(const std::vector<DrafterCandidate>& candidates, const std::set<int>& members) {
  double speed = 0;
  for (const int rank : members) speed += 1 / candidates[static_cast<std::size_t>(rank)].ns_per_byte;
  return 1 / speed;
}

/// Time of a step of the job if `rank` holds the draft.
double step_time(const std::vector<DrafterCandidate>& candidates, std::set<int> members, int rank, double draft_cost) {
  const DrafterCandidate& candidate = candidates[static_cast<std::size_t>(rank)];
  if (!candidate.has_model[0]) return 0;
  members.erase(rank);
  return std::max(stage_time(candidates, members), kGuessesPerStep * draft_cost * candidate.ns_per_byte);
}

}  // namespace

Layout place_drafters(const Layout& layout, const std::vector<DrafterCandidate>& candidates, const std::vector<double>& draft_costs) {
  std::set<int> target;
  for (int rank = 0; rank < static_cast<int>(candidates.size()); ++rank) target.insert(rank);
  Layout placed = layout;
  for (std::size_t d = 1; d < layout.size(); ++d) {
    const auto model = static_cast<std::size_t>(layout[d].model);
    int best = 0;
    double best_time = std::numeric_limits<double>::infinity();
    for (auto rank = target.rbegin(); *rank != 0; ++rank) {
      if (!candidates[static_cast<std::size_t>(*rank)].has_model[model]) continue;
      const double time = step_time(candidates, target, *rank, draft_costs[model - 1]);
      if (time >= best_time * kSame) continue;
      best = *rank;
      best_time = time;
    }
    if (best == 0) return layout;
    placed[d].ranks = {best};
    target.erase(best);
  }
  placed.front().ranks.assign(target.begin(), target.end());
  const bool complete =
      std::all_of(target.begin(), target.end(), [&](int rank) { return candidates[static_cast<std::size_t>(rank)].has_model[0]; });
  return complete ? placed : layout;
}

}  // namespace yamata
