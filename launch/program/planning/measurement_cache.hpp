#pragma once
// Measurements of a rank, kept for a day, so that the same cluster gets the same split.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/program/planning/first_choices.hpp"
#include "launch/program/planning/group_cost.hpp"
#include "launch/program/planning/kept_values.hpp"
#include "mpi/cluster/link_probe.hpp"
#include "node/topology.hpp"
#include "src/speculation/draft_balance.hpp"

namespace yamata {

constexpr std::int64_t kKept_s = 24 * 60 * 60;  ///< for how long measurements are kept, in seconds

/// Identifies what a measurement is valid for. Equal keys have equal names.
struct MeasurementKey {
  std::string host, isa;
  std::uint64_t fingerprint = 0;  ///< of the model
  int threads = 0, local_rank = 0, local_size = 1;
  Numa numa = Numa::kAuto;
  std::string units{};  ///< as in --units; empty: one unit

  /// The name under which a measurement of this kind is kept (see kept_values.hpp).
  std::string name(const char* kind = ".speed") const;
};

/// ${XDG_CACHE_HOME:-~/.cache}/yamata; empty if neither is known, or if there is no such home, which is then not made.
std::string measurement_folder();

/// A speed, and when it was measured, in seconds since the epoch.
struct MeasuredSpeed {
  double ns_per_byte = 0;
  std::int64_t measured_s = 0;
};
/// The speeds kept in `folder` that are less than a day old at `now_s`, oldest first. Empty if there are none or they are damaged.
std::vector<MeasuredSpeed> read_speeds(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
/// Keeps these speeds, all or none, until the latest is a day old. A folder that cannot be written is not an error.
void keep_speeds(const std::string& folder, const MeasurementKey& key, std::span<const MeasuredSpeed> speeds, std::int64_t now_s);

/// Whether neither of two measurements is more than so many times the other.
inline bool within_factor(double factor, double a, double b) { return a <= factor * b && b <= factor * a; }

/// Whether a quick check agrees with the median of the kept speeds, to a third.
bool agrees(std::span<const MeasuredSpeed> kept, double check);
/// The latest five, including this one. Their median is used: a disturbed measurement changes no plan for long, noise changes few plans,
/// and each measurement expires a day after it was made, even if others confirm it.
std::vector<MeasuredSpeed> with_latest(std::vector<MeasuredSpeed> kept, MeasuredSpeed latest);
double median_ns_per_byte(std::span<const MeasuredSpeed> speeds);

/// Times of runs of kProbedWidths tokens, relative to a run of one token; kept likewise.
std::optional<std::vector<double>> read_width_multiples(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_width_multiples(const std::string& folder, const MeasurementKey& key, std::span<const double> multiples, std::int64_t now_s);

/// What steps with a draft saved, and when the first of them was measured, in seconds since the epoch.
struct Savings {
  DraftSums sums;
  std::int64_t since_s = 0;
};
/// Kept likewise, for a day from `since_s` on. Sums that no steps can have are neither kept nor read.
std::optional<Savings> read_savings(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_savings(const std::string& folder, const MeasurementKey& key, const Savings& savings, std::int64_t now_s);

/// The link to another host.
std::optional<Link> read_link(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_link(const std::string& folder, const MeasurementKey& key, const Link& link, std::int64_t now_s);

/// Results of hosts that share layers; kept likewise, under a key whose fingerprint also identifies the hosts, and with threads = members.
std::optional<GroupCost> read_group_cost(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_group_cost(const std::string& folder, const MeasurementKey& key, const GroupCost& cost, std::int64_t now_s);

/// Kept likewise, for these models on any machines.
std::optional<FirstChoices> read_first_choices(const std::string& folder, std::uint64_t target, std::uint64_t draft, std::int64_t now_s);
void keep_first_choices(const std::string& folder, std::uint64_t target, std::uint64_t draft, const FirstChoices& first,
                        std::int64_t now_s);

/// The mean of measured speeds relative to their forecasts, and the weight of these jobs.
struct ForecastError {
  double jobs = 0, mean = 1;
};
/// Kept likewise, for these models and a kind of layout. `kept`: what is in the folder.
std::optional<ForecastError> read_forecast_error(const KeptValues& kept, std::uint64_t target, std::uint64_t draft, const std::string& kind,
                                                 std::int64_t now_s);
void keep_forecast_error(const std::string& folder, std::uint64_t target, std::uint64_t draft, const std::string& kind,
                         const ForecastError& error, std::int64_t now_s);

struct KeptThreads {
  int threads = 0;
  std::int64_t measured_s = 0;  ///< when, in seconds since the epoch
};
/// The fastest number of threads, under a key with threads = 0; kept likewise.
std::optional<KeptThreads> read_thread_choice(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_thread_choice(const std::string& folder, const MeasurementKey& key, int threads, std::int64_t now_s);

}  // namespace yamata
