#include "launch/program/job/job_experience.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "launch/program/planning/kept_savings.hpp"
#include "launch/program/planning/layout_planner.hpp"

namespace yamata {

std::optional<FirstChoices> JobExperience::first_choices() const {
  const auto& fingerprints = rank_.models().fingerprints();
  return read_first_choices(measurement_folder(), fingerprints[0], fingerprints[1], std::time(nullptr));
}

KeptForecasts JobExperience::forecasts() const {
  const auto& fingerprints = rank_.models().fingerprints();
  return {measurement_folder(), fingerprints[0], rank_.options().models.drafts.empty() ? 0 : fingerprints[1], std::time(nullptr)};
}

MeasurementKey JobExperience::savings_key(int model, const DecodeOptions& decode, const SamplingParams& sampling) const {
  const RankModels& models = rank_.models();
  MeasurementKey key = rank_.units().speed_key();
  key.isa = fmt::format(
      "{}-{}-{:016x}", key.isa, model,
      fingerprint({.decode = decode, .sampling = sampling, .layout = rank_.layout().places(), .fingerprints = models.fingerprints()}));
  const ModelFiles& files = models.files();
  if (!files.draft_heads.empty())
    key.isa += fmt::format("-{}", files.draft_heads_matrices ? static_cast<int>(*files.draft_heads_matrices) : -1);
  if (rank_.units().has_draft_units()) key.units += "-" + rank_.units().draft_names();
  key.local_size = rank_.location().ranks;
  return key;
}

/// Relative to the target's weights on the same rank; if the rank's speed is unknown or it drafted nothing, the last known cost.
double JobExperience::draft_cost(const std::vector<wire::Report>& reports) const {
  const Layout& layout = rank_.layout().places();
  const auto rank = static_cast<std::size_t>(layout.at(1).ranks.front());
  const bool takes_turns = std::ranges::count(layout.front().ranks, static_cast<int>(rank)) > 0;
  const std::vector<double>& run_s = takes_turns ? reports[rank].draft_run_s : reports[rank].run_s;
  if (rank < machines_.size() && !run_s.empty() && run_s.front() > 0)
    return 1e9 * run_s.front() / (token_bytes(*rank_.models().find(1)) * machines_[rank].ns_per_byte);
  const auto kept = first_choices();
  return kept ? kept->cost : 1;
}

void JobExperience::remember(const Completion& text, const std::vector<wire::Report>& reports) const {
  constexpr std::size_t kEnough = 64;
  if (text.token_ids.size() < kEnough) return;
  const auto& choice = rank_.layout().choice();
  if (choice && std::ranges::none_of(reports, [](const auto& rank) { return rank.role == "lost"; })) {
    const double measured = static_cast<double>(text.token_ids.size() - 1) / text.token_times_s.back();
    forecasts().keep(choice->candidate, {choice->simulated_tokens_per_s, measured});
  }
  if (!has_draft() || rank_.layout().places().size() < 2) return;
  const auto kept = first_choices();
  FirstChoices first = yamata::first_choices(text.choices, text.token_ids, kept ? kept->right : kUsualAcceptance);
  if (first.right <= 0 || first.probability <= 0) return;
  first.cost = draft_cost(reports);
  const auto& fingerprints = rank_.models().fingerprints();
  keep_first_choices(measurement_folder(), fingerprints[0], fingerprints[1], first, std::time(nullptr));
}

}  // namespace yamata
