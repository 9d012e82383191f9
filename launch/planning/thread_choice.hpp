#pragma once
// How many threads a rank computes with: where the flags do not say, and where they say too much.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "launch/planning/measurement_cache.hpp"
#include "mpi/protocol/wire.hpp"
#include "node/cpu/kernels/kernels.hpp"
#include "src/model/model_file.hpp"

namespace yamata {

/// Some threads, ready to be timed.
class ThreadTrial {
 public:
  virtual ~ThreadTrial() = default;
  /// A quick measurement, of some 10 ms.
  virtual double ns_per_byte() = 0;
};
/// Makes one on these logical CPUs; null where there is nothing to measure with in time.
using TrialMaker = std::function<std::unique_ptr<ThreadTrial>(const std::vector<int>& cpus)>;

/// Trials that compute layer `layer` of the model for one token; null where reading it takes longer than `patience`. They throw
/// ModelError where the layer is not as it should be. `model` outlives them.
TrialMaker layer_trials(const ModelFile& model, std::int64_t layer, cpu::Isa isa, std::chrono::milliseconds patience);

/// Where a choice is kept, and the time.
struct ThreadRecord {
  std::string folder;
  MeasurementKey key;  ///< with threads = 0
  std::int64_t now_s = 0;
  bool renew = false;  ///< what is kept does not count
};

struct ThreadChoice {
  std::vector<int> cpus;
  std::int64_t measured_s = 0;  ///< when, in seconds of the calendar clock; 0: nothing was measured
};

/// Of `choices`, logical CPUs with the most threads first, those with which the trials are fastest. Fewer threads must be faster by a
/// twentieth; where one choice is not, those after it are not tried. The choice is kept; a kept one is compared with its neighbours
/// first and measured anew where one of them is faster by a tenth. The first choice where nothing can be measured.
ThreadChoice choose_threads(const std::vector<std::vector<int>>& choices, const ThreadRecord& record, const TrialMaker& make_trial);

/// A warning for each host whose ranks have more threads than it has logical CPUs, unless each has but one.
std::vector<std::string> crowded_hosts(std::span<const wire::Hello> ranks);

}  // namespace yamata
