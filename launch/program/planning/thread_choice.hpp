#pragma once
// Chooses the number of threads of a rank if the flags do not set it, and warns if they set too many.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launch/program/planning/measurement_cache.hpp"
#include "mpi/protocol/wire.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

/// A number of threads that can be measured.
class ThreadTrial {
 public:
  virtual ~ThreadTrial() = default;
  /// A quick measurement of about 10 ms.
  virtual double ns_per_byte() = 0;
};
/// Makes a trial on these logical CPUs; null if nothing can be measured in time.
using TrialMaker = std::function<std::unique_ptr<ThreadTrial>(const std::vector<int>& cpus)>;

/// Trials that compute layer `layer` of the model for one token; null if reading it takes longer than `patience`. They throw ModelError if
/// the layer is invalid. `model` must outlive them.
TrialMaker layer_trials(const ModelFile& model, std::int64_t layer, cpu::Isa isa, std::chrono::milliseconds patience);

/// Where a choice is kept, and the current time.
struct ThreadRecord {
  std::string folder;
  MeasurementKey key;  ///< with threads = 0
  std::int64_t now_s = 0;
  bool renew = false;       ///< ignore the kept choice
  std::string load_file{};  ///< see is_busy; empty: the machine is not busy
};

/// The system's file of its load: /proc/loadavg, or the one that YAMATA_LOAD_FILE names.
std::string load_file();
/// Whether more threads want to run than the machine has logical CPUs, in the mean of the last minute: what `file` says first. False if it
/// cannot be read.
bool is_busy(const std::string& file, long logical_cpus);

struct ThreadChoice {
  std::vector<int> cpus;
  std::int64_t measured_s = 0;  ///< when, in seconds since the epoch; 0: nothing was measured
};

/// Chooses the fastest of `choices`: sets of logical CPUs, the largest first. A smaller set must be faster by 5 %; after one that is not,
/// the following ones are not tried. The choice is kept, unless the machine is busy: then it says little of other times. A kept choice is
/// first compared with the next larger and smaller one; if one of them is faster by 10 %, all are measured anew. If nothing can be
/// measured, it is the first.
ThreadChoice choose_threads(const std::vector<std::vector<int>>& choices, const ThreadRecord& record, const TrialMaker& make_trial);

/// A warning for each host whose ranks together have more threads than it has logical CPUs, unless each rank has one thread.
std::vector<std::string> crowded_hosts(std::span<const wire::Hello> ranks);

}  // namespace yamata
