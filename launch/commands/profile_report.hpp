#pragma once
// What yamata profile found, for people and for programs.
#include <cstdint>
#include <string>
#include <vector>

#include "launch/commands/model_timer.hpp"

namespace yamata {

/// What a number of threads can do at most.
struct ThreadCeiling {
  int threads = 0;
  double read_bytes_per_s = 0, byte_ops_per_s = 0, float_ops_per_s = 0;
  double barrier_s = 0;
};

/// Of what all rounds found for one number of threads, the median of each: where the machine is shared, runs had no more.
ThreadCeiling median(const std::vector<ThreadCeiling>& rounds);

/// Runs of one width behind one context.
struct RunTimes {
  int width = 1, context = 0;
  RunDemand demand;
  std::vector<double> samples_s;  ///< one per round

  /// The median.
  double time_s() const;
};

/// The least time that something may take on a machine: reading, or computing, whichever is longer.
struct Floor {
  double read_s = 0, compute_s = 0;
  double time_s() const { return read_s > compute_s ? read_s : compute_s; }
};
Floor floor_of(const RunDemand& demand, const ThreadCeiling& ceiling);

struct ModelProfile {
  std::string file, type, type_k, type_v;
  double weight_numbers = 0;  ///< of the matrices that are multiplied with
  RunDemand weights;          ///< of one token, without its attention
  bool packed = true;
  std::vector<RunTimes> widths, contexts;
};

struct Profile {
  std::string version, date, host, cpu, isa, numa;
  int cores = 0, numa_nodes = 1, rounds = 0;
  std::uint64_t cache_bytes = 0, memory_bytes = 0;  ///< last-level caches; what bandwidth was measured on
  std::uint64_t available_bytes = 0;                ///< memory that was free before
  std::vector<ThreadCeiling> ceilings;              ///< the medians of all rounds, by the number of threads, ascending
  std::vector<ModelProfile> models;                 ///< one at most
};

/// The width at which reading a model's weights and computing with them take equally long.
double ridge_width(const ModelProfile& model, const ThreadCeiling& ceiling);

std::string to_json(const Profile& profile);
std::string to_table(const Profile& profile);

}  // namespace yamata
