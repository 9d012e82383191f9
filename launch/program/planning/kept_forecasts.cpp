#include "launch/program/planning/kept_forecasts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launch/program/planning/measurement_cache.hpp"

namespace yamata {
namespace {

constexpr double kTrust = 0.5;  // in a forecast, in jobs
constexpr double kMaxJobs = 4;  // the weight of all earlier jobs

const char* place_of_target(const LayoutCandidate& layout) {
  const ModelPlace& target = layout.layout.front();
  if (std::ranges::any_of(target.groups, [](int members) { return members > 1; })) return "group";
  if (target.ranks.size() > 1) return "pipeline";
  return layout.hosts() > 1 ? "one" : "alone";
}

const char* place_of_draft(const LayoutCandidate& layout) {
  if (layout.layout.size() == 1) return "none";
  return layout.draft_on_head() ? "head" : "drafter";
}

std::string kind_of(const LayoutCandidate& layout) {
  return fmt::format("{}-{}-{}", strategy_name(layout.strategy), place_of_target(layout), place_of_draft(layout));
}

}  // namespace

KeptForecasts::KeptForecasts(std::string folder, std::uint64_t target, std::uint64_t draft, std::int64_t now_s)
    : folder_(std::move(folder)), kept_(folder_), target_(target), draft_(draft), now_s_(now_s) {}

double KeptForecasts::correction(const LayoutCandidate& layout) const {
  const auto earlier = read_forecast_error(kept_, target_, draft_, kind_of(layout), now_s_);
  return earlier ? (kTrust + earlier->jobs * earlier->mean) / (kTrust + earlier->jobs) : 1;
}

void KeptForecasts::keep(const LayoutCandidate& layout, const CheckedForecast& job) const {
  const std::string kind = kind_of(layout);
  ForecastError all = read_forecast_error(kept_, target_, draft_, kind, now_s_).value_or(ForecastError{});
  all.jobs = std::min(all.jobs, kMaxJobs) + 1;
  all.mean += (std::clamp(job.measured / job.expected, 0.5, 2.0) - all.mean) / all.jobs;
  keep_forecast_error(folder_, target_, draft_, kind, all, now_s_);
}

}  // namespace yamata
