#pragma once
// Measures a rank's speed after all ranks have joined: earlier, the loading of ranks that still start would disturb the measurement.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "mpi/protocol/wire.hpp"
#include "node/limits.hpp"

namespace yamata {

/// Measures this rank's speed; may take a second. Ends soon after `stop` becomes true. Called on a thread of its own, while nothing else
/// computes on this rank.
using Measure = std::function<wire::Measured(const std::atomic<bool>& stop)>;

/// A measurement on a thread of its own, so that the control thread can still answer messages.
class SpeedMeasurement {
 public:
  /// Starts the measurement. Throws ModelError if there can be no thread for it.
  explicit SpeedMeasurement(const Measure& measure) {
    try {
      result_ = std::async(std::launch::async, [this, measure] { return measure(stop_); });
    } catch (const std::system_error& error) {
      throw refused(error);
    }
  }
  /// Stops the measurement and waits for its end.
  ~SpeedMeasurement() { stop_ = true; }
  SpeedMeasurement(const SpeedMeasurement&) = delete;
  SpeedMeasurement& operator=(const SpeedMeasurement&) = delete;

  bool finished() const { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// The result, after the end; call it once. Throws what the measurement threw.
  wire::Measured take() { return result_.get(); }

 private:
  std::atomic<bool> stop_{false};
  std::future<wire::Measured> result_;  // its destructor waits for the thread, before stop_ is destroyed
};

/// The order in which ranks measure. Ranks of one machine measure one after another, since they would slow each other down; machines
/// measure at the same time.
class MeasuringOrder {
 public:
  /// One hello per rank. A rank that does not know its machine counts as alone on it.
  explicit MeasuringOrder(const std::vector<wire::Hello>& hellos);
  /// The ranks that begin.
  std::vector<int> first() const;
  /// The rank that follows after this one has measured; nothing: none. Throws ClusterError if it was not this rank's turn.
  std::optional<int> after(int rank);
  bool finished() const { return waiting_.empty(); }

 private:
  std::map<std::uint64_t, std::vector<int>> waiting_;  // per machine: ranks that have not measured; the first one measures now
  std::vector<std::uint64_t> machines_;                // per rank
};

}  // namespace yamata
