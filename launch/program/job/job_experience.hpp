#pragma once
// What a job learns from earlier jobs, and keeps for later ones.
#include <optional>
#include <vector>

#include "launch/program/job/expected_text.hpp"
#include "launch/program/job/job_rank.hpp"
#include "launch/program/planning/first_choices.hpp"
#include "launch/program/planning/kept_forecasts.hpp"
#include "launch/program/planning/layout_choice.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "mpi/engine/request.hpp"
#include "mpi/protocol/wire.hpp"

namespace yamata {

/// On rank 0.
class JobExperience {
 public:
  /// `rank` outlives this.
  explicit JobExperience(const JobRank& rank) : rank_(rank) {}

  /// The acceptance of the draft's first choices, and the cost of its evaluations; nothing if no job had this draft.
  std::optional<FirstChoices> first_choices() const;
  /// How fast jobs with these models were, relative to their forecasts.
  KeptForecasts forecasts() const;
  /// For what savings of a draft hold, with these decoding options. Once the layout is known.
  MeasurementKey savings_key(int model, const DecodeOptions& decode, const SamplingParams& sampling) const;

  /// The ranks' speeds, for `remember`.
  void measured(const std::vector<PlannedHost>& machines) { machines_ = machines; }
  /// Keeps the acceptance of the draft's first choices in a text, what its evaluations cost, and how fast a chosen layout was, relative to
  /// its forecast; `reports`: one per rank. After the job.
  void remember(const Completion& text, const std::vector<wire::Report>& reports) const;

 private:
  double draft_cost(const std::vector<wire::Report>& reports) const;
  bool has_draft() const { return rank_.options().models.drafts.size() == 1; }

  const JobRank& rank_;
  std::vector<PlannedHost> machines_;  // empty: the layout is not chosen by speed
};

}  // namespace yamata
