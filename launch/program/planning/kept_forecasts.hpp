#pragma once
// How fast jobs were, relative to their forecasts; kept from one job to the next.
#include <cstdint>
#include <string>

#include "launch/program/planning/kept_values.hpp"
#include "launch/program/planning/layout_candidates.hpp"

namespace yamata {

/// The forecast of a job, and what was measured: tokens/s, or any other unit of speed.
struct CheckedForecast {
  double expected = 0, measured = 0;
};

/// Corrections of forecasts for a target and a draft (0: none), as they are kept when this object is made. Layouts with the same strategy
/// and the same use of machines have one correction: what a simulation lacks slows them all. It expires a day after the latest job.
class KeptForecasts {
 public:
  /// `folder`: see measurement_folder; `now_s`: seconds since the epoch.
  KeptForecasts(std::string folder, std::uint64_t target, std::uint64_t draft, std::int64_t now_s);

  /// The factor between a forecast of this layout and the expected speed; 1 if there was no such job. One job counts twice as much as
  /// the assumption that the forecast is right, further jobs add to that.
  double correction(const LayoutCandidate& layout) const;
  /// Adds a job. A job that was more than twice as fast or as slow as expected counts as twice.
  void keep(const LayoutCandidate& layout, const CheckedForecast& job) const;

 private:
  std::string folder_;
  KeptValues kept_;
  std::uint64_t target_, draft_;
  std::int64_t now_s_;
};

}  // namespace yamata
