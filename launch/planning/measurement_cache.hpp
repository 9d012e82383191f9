#pragma once
// What a rank measured, kept for a day so that the same cluster splits the same way.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/planning/first_choices.hpp"
#include "launch/planning/group_cost.hpp"
#include "mpi/cluster/link_probe.hpp"
#include "node/topology.hpp"

namespace yamata {

/// What a measurement holds for. Equal keys have equal file names.
struct MeasurementKey {
  std::string host, isa;
  std::uint64_t fingerprint = 0;  ///< of the model
  int threads = 0, local_rank = 0, local_size = 1;
  Numa numa = Numa::kAuto;
  std::string units{};  ///< as --units names them; empty: one

  std::string file_name(const char* extension = ".speed") const;
};

/// ${XDG_CACHE_HOME:-~/.cache}/yamata; empty where neither is known.
std::string measurement_folder();

/// A speed, and when it was measured, in seconds of the calendar clock.
struct MeasuredSpeed {
  double ns_per_byte = 0;
  std::int64_t measured_s = 0;
};
/// Those kept in `folder` that are less than a day old at `now_s`, the oldest first. None where there is no such file or it cannot be
/// understood.
std::vector<MeasuredSpeed> read_speeds(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
/// Keeps them, all or none; a folder that cannot be written is no fault.
void keep_speeds(const std::string& folder, const MeasurementKey& key, std::span<const MeasuredSpeed> speeds);

/// Whether neither of two measurements is more than so many times the other.
inline bool within_factor(double factor, double a, double b) { return a <= factor * b && b <= factor * a; }

/// Whether a quick check agrees with the median of the speeds that are kept, to a third.
bool agrees(std::span<const MeasuredSpeed> kept, double check);
/// The latest five, with this one. Their median is what counts: a measurement that something disturbed changes no plan for long, noise
/// changes few, and each expires a day after it was made, whatever confirms it.
std::vector<MeasuredSpeed> with_latest(std::vector<MeasuredSpeed> kept, MeasuredSpeed latest);
double median_ns_per_byte(std::span<const MeasuredSpeed> speeds);

/// What runs of kProbedWidths tokens take, in runs of one; kept as long.
std::optional<std::vector<double>> read_width_multiples(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_width_multiples(const std::string& folder, const MeasurementKey& key, std::span<const double> multiples, std::int64_t now_s);

/// How messages travel to another host.
std::optional<Link> read_link(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_link(const std::string& folder, const MeasurementKey& key, const Link& link, std::int64_t now_s);

/// What hosts that share a layer take: kept as long, under a key whose fingerprint stands for the hosts, too, and with threads = members.
std::optional<GroupCost> read_group_cost(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_group_cost(const std::string& folder, const MeasurementKey& key, const GroupCost& cost, std::int64_t now_s);

/// Kept as long, for these models on whatever machines.
std::optional<FirstChoices> read_first_choices(const std::string& folder, std::uint64_t target, std::uint64_t draft, std::int64_t now_s);
void keep_first_choices(const std::string& folder, std::uint64_t target, std::uint64_t draft, const FirstChoices& first,
                        std::int64_t now_s);

struct KeptThreads {
  int threads = 0;
  std::int64_t measured_s = 0;  ///< when, in seconds of the calendar clock
};
/// The number of threads that proved fastest, under a key with threads = 0; kept as long.
std::optional<KeptThreads> read_thread_choice(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_thread_choice(const std::string& folder, const MeasurementKey& key, int threads, std::int64_t now_s);

}  // namespace yamata
