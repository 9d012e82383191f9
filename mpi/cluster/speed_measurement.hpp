#pragma once
// How fast this rank is, measured once all ranks are there: while others still start, their reading and packing would be measured, too.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <vector>

#include "mpi/protocol/wire.hpp"

namespace yamata {

/// Measures this rank; may take a second. Ends soon where `stop` becomes true. Called by a thread of its own, while nothing else computes here.
using Measure = std::function<wire::Measured(const std::atomic<bool>& stop)>;

/// The control thread goes on answering meanwhile.
class SpeedMeasurement {
 public:
  /// Begins.
  explicit SpeedMeasurement(const Measure& measure)
      : result_(std::async(std::launch::async, [this, measure] { return measure(stop_); })) {}
  /// Waits for the end, which it brings about.
  ~SpeedMeasurement() { stop_ = true; }
  SpeedMeasurement(const SpeedMeasurement&) = delete;
  SpeedMeasurement& operator=(const SpeedMeasurement&) = delete;

  bool finished() const { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  /// Once, after the end; throws what the measurement threw.
  wire::Measured take() { return result_.get(); }

 private:
  std::atomic<bool> stop_{false};
  std::future<wire::Measured> result_;  // waits as it is destroyed, before stop_ is
};

/// In which order ranks measure: those of one machine one after another, since together they would measure each other; machines at once.
class MeasuringOrder {
 public:
  /// One hello per rank. A rank that does not know its machine is alone there.
  explicit MeasuringOrder(const std::vector<wire::Hello>& hellos);
  /// Ranks to begin with.
  std::vector<int> first() const;
  /// The rank to go on with now that this one has measured; nothing: none. Throws ClusterError where it was not its turn.
  std::optional<int> after(int rank);
  bool finished() const { return waiting_.empty(); }

 private:
  std::map<std::uint64_t, std::vector<int>> waiting_;  // by machine, those that have not measured, the first of which does so now
  std::vector<std::uint64_t> machines_;                // per rank
};

}  // namespace yamata
