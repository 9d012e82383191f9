#pragma once
// Measures the speed of a rank.
#include <atomic>
#include <chrono>
#include <memory>

#include "launch/program/job/job_layout.hpp"
#include "launch/program/job/rank_location.hpp"
#include "launch/program/job/rank_models.hpp"
#include "launch/program/job/rank_units.hpp"
#include "mpi/protocol/wire.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {

/// Computes a few layers of the target on the rank's unit, before the layout is known. Speeds are kept for a day.
class SpeedProbe {
 public:
  /// The arguments outlive this. `patience`: how long it may read from the disk.
  SpeedProbe(const RankModels& models, RankUnits& units, const JobLayout& layout, const RankLocation& location,
             std::chrono::milliseconds patience);

  /// Reads and packs the layers, if the speed of this rank will be measured. Does nothing if the disk is too slow for a measurement.
  void prepare();
  /// Measures; empty if nothing was prepared. Ends soon after `stop` becomes true, with a meaningless result.
  wire::Measured measure(const std::atomic<bool>& stop);
  /// Frees what was prepared. Before stages are made.
  void drop() { probe_.reset(); }

 private:
  struct Speed {
    double ns_per_byte;
    bool as_kept;  ///< a kept speed still holds
  };
  Speed measure_speed(LayerProbe& probe, const MeasurementKey& key, const std::atomic<bool>& stop) const;
  double device_layers(std::int64_t layer) const;
  double with_device(double ns_per_byte, const std::atomic<bool>& stop);

  const RankModels& models_;
  RankUnits& units_;
  const JobLayout& layout_;
  const RankLocation& location_;
  const std::chrono::milliseconds patience_;
  std::unique_ptr<LayerProbe> probe_;  // until the speed is measured
};

}  // namespace yamata
