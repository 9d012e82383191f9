#pragma once
// What a rank measured, kept for a day so that the same cluster splits the same way.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

/// Nanoseconds per byte kept in `folder` less than a day before `now_s` (seconds of the calendar clock). Nothing where there is
/// no such file or it cannot be understood.
std::optional<double> read_ns_per_byte(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
/// Keeps a measurement, whole or not at all; a folder that cannot be written is no fault.
void keep_ns_per_byte(const std::string& folder, const MeasurementKey& key, double ns_per_byte, std::int64_t now_s);

/// What a quick check makes of a kept speed: nothing where they differ by more than a third; else the check counts for a quarter, so that a
/// measurement which something disturbed is mended run by run, and a split changes little by noise.
std::optional<double> checked_ns_per_byte(double kept, double check);

/// What runs of kProbedWidths tokens take, in runs of one; kept as long.
std::optional<std::vector<double>> read_width_multiples(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_width_multiples(const std::string& folder, const MeasurementKey& key, std::span<const double> multiples, std::int64_t now_s);

/// How messages travel to another host.
std::optional<Link> read_link(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_link(const std::string& folder, const MeasurementKey& key, const Link& link, std::int64_t now_s);

/// What hosts that share a layer take: kept as long, under a key whose fingerprint stands for the hosts, too, and with threads = members.
std::optional<GroupCost> read_group_cost(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_group_cost(const std::string& folder, const MeasurementKey& key, const GroupCost& cost, std::int64_t now_s);

/// How often tokens of a text were a draft's first choice, of late; kept as long, for these models on whatever machines.
std::optional<double> read_first_choice_rate(const std::string& folder, std::uint64_t target, std::uint64_t draft, std::int64_t now_s);
void keep_first_choice_rate(const std::string& folder, std::uint64_t target, std::uint64_t draft, double rate, std::int64_t now_s);

struct KeptThreads {
  int threads = 0;
  std::int64_t measured_s = 0;  ///< when, in seconds of the calendar clock
};
/// The number of threads that proved fastest, under a key with threads = 0; kept as long.
std::optional<KeptThreads> read_thread_choice(const std::string& folder, const MeasurementKey& key, std::int64_t now_s);
void keep_thread_choice(const std::string& folder, const MeasurementKey& key, int threads, std::int64_t now_s);

}  // namespace yamata
