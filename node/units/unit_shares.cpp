#include "node/units/unit_shares.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace yamata {
namespace {

// Longer than the periods of CPU quotas and schedulers, in which a core alternately seems fast and slow.
constexpr double kFadesIn_s = 0.3;
// Least improvement that justifies moving the cuts: less is noise.
constexpr double kWorthIt = 1.01;
// A unit without work could never show that it has become faster.
constexpr double kMinShare = 0.02;
// Runs after which the share of a unit whose piece was rounded to nothing is doubled, so that it is measured again: a run in hundreds.
constexpr int kRunsWithoutWork = 32;

std::vector<double> normalised(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  std::vector<double> shares(values.begin(), values.end());
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

int width_class_of(std::int64_t rows) { return rows <= 1 ? 0 : rows <= 4 ? 1 : rows <= 8 ? 2 : rows <= 16 ? 3 : rows <= 32 ? 4 : 5; }

int context_bucket_of(std::int64_t cells) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(cells, 16, 2048))));
}

UnitShares::UnitShares(std::vector<double> shares, bool adapts) : adapts_(adapts) {
  works_.push_back({.kind = {}, .shares = normalised(shares), .fractions = {}, .work = {}, .seconds = {}});
}

int UnitShares::label(const WorkKind& kind) {
  for (std::size_t i = 1; i < works_.size(); ++i)
    if (works_[i].kind == kind) return static_cast<int>(i);
  Work work = works_[kOther];
  work.kind = kind;
  work.work.assign(work.shares.size(), 0);
  work.seconds = work.work;
  works_.push_back(std::move(work));
  return static_cast<int>(works_.size()) - 1;
}

void UnitShares::set(const WorkKind& kind, std::span<const double> shares) {
  works_[static_cast<std::size_t>(label(kind))].shares = normalised(shares);
}

void UnitShares::given(int label, std::span<const double> fractions) {
  works_[static_cast<std::size_t>(label)].fractions.assign(fractions.begin(), fractions.end());
}

void UnitShares::computed(int label, std::span<const double> seconds, double now_s) {
  Work& work = works_[static_cast<std::size_t>(label)];
  const double longest = std::ranges::max(seconds);
  if (label == kOther || longest <= 0 || work.fractions.empty()) return;
  if (std::ranges::min(work.fractions) <= 0) return retry(work);
  work.without = 0;
  work.total_s += longest;
  const double fade = std::exp((work.last_s - now_s) / kFadesIn_s);
  work.last_s = now_s;
  for (std::size_t unit = 0; unit < seconds.size(); ++unit) {
    work.work[unit] = fade * work.work[unit] + work.fractions[unit];
    work.seconds[unit] = fade * work.seconds[unit] + seconds[unit];
  }
  if (adapts_) follow(work);
}

/// Gives units that had nothing in many runs a larger share, until they get a piece of the work.
void UnitShares::retry(Work& work) const {
  constexpr double kMost = 0.5;
  if (!adapts_ || ++work.without < kRunsWithoutWork) return;
  work.without = 0;
  for (std::size_t unit = 0; unit < work.shares.size(); ++unit) {
    if (work.fractions[unit] <= 0) work.shares[unit] = std::max(work.shares[unit], std::clamp(2 * work.shares[unit], kMinShare, kMost));
  }
  work.shares = normalised(work.shares);
}

/// Sets the shares in proportion to the speeds, if that is worth it.
void UnitShares::follow(Work& work) const {
  std::vector<double> speeds;
  for (std::size_t unit = 0; unit < work.shares.size(); ++unit) speeds.push_back(work.work[unit] / std::max(work.seconds[unit], 1e-12));
  double slowest = 0;
  for (std::size_t unit = 0; unit < speeds.size(); ++unit) slowest = std::max(slowest, work.shares[unit] / speeds[unit]);
  const std::vector<double> wish = normalised(speeds);
  if (slowest * std::accumulate(speeds.begin(), speeds.end(), 0.0) < kWorthIt) return;
  for (std::size_t unit = 0; unit < speeds.size(); ++unit) work.shares[unit] = std::max(wish[unit], kMinShare);
  work.shares = normalised(work.shares);
}

std::vector<double> UnitShares::overall() const {
  std::vector<double> sums(works_[kOther].shares.size(), 0);
  for (const Work& work : works_)
    for (std::size_t unit = 0; unit < sums.size(); ++unit) sums[unit] += work.total_s * work.shares[unit];
  return std::accumulate(sums.begin(), sums.end(), 0.0) > 0 ? normalised(sums) : works_[kOther].shares;
}

}  // namespace yamata
