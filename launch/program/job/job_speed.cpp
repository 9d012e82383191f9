// Measures the speed of a rank of a job.
#include <algorithm>
#include <ctime>

#include "launch/program/job/job.hpp"
#include "launch/program/planning/measurement_cache.hpp"
#include "node/error.hpp"
#include "src/model/layer_probe.hpp"

namespace yamata {

/// The layer for the measurement: most likely one of this rank's own, whose part of the file it reads in any case.
std::int64_t Job::probe_layer(const ModelFile& model) const {
  return (2 * transport_.rank() + 1) * model.h.layers / (2 * transport_.size());
}

/// Whether the cost of wider runs is measured, too: to choose a layout for a strategy that guesses.
bool Job::measures_widths() const { return layout_is_open() && strategy_ != Strategy::kIterative; }

/// Reads and packs the layers for the measurement. Does nothing if the disk is too slow for a measurement.
void Job::prepare_probe() {
  const ModelFile& target = *models_.front();
  try {
    probe_ = std::make_unique<LayerProbe>(target, layers_of_bytes(target, probe_layer(target), uncached_bytes()), unit_of(0),
                                          measures_widths() ? kProbedWidths.back() : 1);
    if (!probe_->warm_up(options_.timeout / 4)) probe_.reset();
  } catch (const ModelError&) {  // the rank that will hold the damaged layer reports it
    probe_.reset();
  }
}

MeasurementKey Job::speed_key() const {
  return {host_,
          hello_.isa,
          hello_.fingerprints.front(),
          hello_.threads,
          local_rank_,
          local_size_,
          options_.numa,
          first_layers_ > 0 ? names_of(units_) + "-layered" : names_of(units_)};
}

/// The median of this measurement and the kept ones, which a quick check must confirm; keeps it.
Job::Speed Job::measure_speed(LayerProbe& probe, const MeasurementKey& key, const std::atomic<bool>& stop) const {
  const std::string folder = measurement_folder();
  const std::int64_t now_s = std::time(nullptr);
  const bool anew = options_.layer_split.by == LayerSplit::By::kMeasuredSpeed;
  auto speeds = anew ? std::vector<MeasuredSpeed>{} : read_speeds(folder, key, now_s);
  const double check = speeds.empty() ? 0 : probe.quick_check();
  const bool holds = agrees(speeds, check);
  if (!holds) speeds.clear();
  speeds = with_latest(std::move(speeds), {holds ? check : probe.measure(), now_s});
  if (!stop) keep_speeds(folder, key, speeds, now_s);
  return {median_ns_per_byte(speeds), holds};
}

wire::Measured Job::measure(const std::atomic<bool>& stop) {
  if (!probe_) return {};
  probe_->stop_on(stop);
  const Speed speed = measure_speed(*probe_, speed_key(), stop);
  wire::Measured measured{speed.ns_per_byte, {}};
  if (measures_widths()) {
    const std::string folder = measurement_folder();
    const std::int64_t now_s = std::time(nullptr);
    const auto kept = speed.as_kept ? read_width_multiples(folder, speed_key(), now_s) : std::nullopt;
    measured.width_multiples = kept ? *kept : probe_->width_multiples(kProbedWidths);
    if (!kept && !stop) keep_width_multiples(folder, speed_key(), measured.width_multiples, now_s);
  }
  probe_.reset();  // its memory is now available for the weights
  measured.ns_per_byte = with_device(measured.ns_per_byte, stop);
  models_.front()->file.release_pages();
  return measured;
}

/// If a device computes some of the rank's layers: the mean over as many layers as the rank would have with equal shares. The device's own
/// speed is kept like the cores'.
double Job::with_device(double ns_per_byte, const std::atomic<bool>& stop) {
  if (first_layers_ == 0) return ns_per_byte;
  const ModelFile& target = *models_.front();
  MeasurementKey key = speed_key();
  key.units = std::ranges::find_if(units_, &UnitSpec::device)->name + "-one-layer";
  try {
    const std::int64_t layer = probe_layer(target);
    LayerProbe probe(target, {layer, layer + 1}, unit_of(0).first_unit());
    probe.stop_on(stop);
    if (!probe.warm_up(options_.timeout / 4)) return ns_per_byte;
    const double layers = std::max(1.0, static_cast<double>(target.h.layers) / transport_.size());
    const double device = measure_speed(probe, key, stop).ns_per_byte;
    return ns_per_byte + (device - ns_per_byte) * std::min<double>(first_layers_, layers) / layers;
  } catch (const ModelError&) {  // not enough memory for a layer: the plan reports that, and how many layers would fit
    return ns_per_byte;
  }
}

}  // namespace yamata
