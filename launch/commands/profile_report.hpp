#pragma once
// The results of yamata profile, as a table and as JSON.
#include <cstdint>
#include <string>
#include <vector>

#include "launch/commands/model_timer.hpp"

namespace yamata {

/// The peak rates of a number of threads.
struct ThreadCeiling {
  int threads = 0;
  double read_bytes_per_s = 0, byte_ops_per_s = 0, float_ops_per_s = 0;
  double barrier_s = 0;
};

/// For one number of threads, the median of each rate over all rounds: on a shared machine, runs had no more than that.
ThreadCeiling median(const std::vector<ThreadCeiling>& rounds);

/// Times of runs of one width after one context.
struct RunTimes {
  int width = 1, context = 0;
  RunDemand demand;
  std::vector<double> samples_s;  ///< one per round

  /// The median.
  double time_s() const;
};

/// The least time that work may take on a machine: the time for reading or for computing, whichever is longer.
struct MinTime {
  double read_s = 0, compute_s = 0;
  double time_s() const { return read_s > compute_s ? read_s : compute_s; }
};
MinTime min_time(const RunDemand& demand, const ThreadCeiling& ceiling);

struct ModelProfile {
  std::string file, type, type_k, type_v;
  double weight_numbers = 0;  ///< number of weights in the matrices that are multiplied with
  RunDemand weights;          ///< for one token, without its attention
  bool packed = true;
  std::vector<RunTimes> widths, contexts;
};

struct Profile {
  std::string version, date, host, cpu, isa, numa;
  int cores = 0, numa_nodes = 1, rounds = 0;
  std::uint64_t cache_bytes = 0, memory_bytes = 0;  ///< last-level caches; size of the memory for measuring bandwidth
  std::uint64_t available_bytes = 0;                ///< memory that was free before
  std::vector<ThreadCeiling> ceilings;              ///< medians over all rounds, by number of threads, ascending
  std::vector<ModelProfile> models;                 ///< at most one
};

/// The width at which reading a model's weights and computing with them take the same time.
double ridge_width(const ModelProfile& model, const ThreadCeiling& ceiling);

std::string to_json(const Profile& profile);
std::string to_table(const Profile& profile);

}  // namespace yamata
