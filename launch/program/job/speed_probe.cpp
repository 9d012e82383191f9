#include "launch/program/job/speed_probe.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <new>
#include <string>
#include <vector>

#include "launch/program/planning/measurement_cache.hpp"
#include "node/error.hpp"
#include "src/model/weights.hpp"

namespace yamata {

SpeedProbe::SpeedProbe(const RankModels& models, RankUnits& units, const JobLayout& layout, const RankLocation& location,
                       std::chrono::milliseconds patience)
    : models_(models), units_(units), layout_(layout), location_(location), patience_(patience) {}

void SpeedProbe::prepare() {
  if (!models_.has(0) || !layout_.needs_speed_of(location_.rank, models_.target().h.layers)) return;
  const ModelFile& target = models_.target();
  try {
    probe_ = std::make_unique<LayerProbe>(target, layers_of_bytes(target, location_.probed_layer(target.h.layers), uncached_bytes()),
                                          units_.of(0), layout_.needs_widths() ? kProbedWidths.back() : 1, units_.copies_others());
    if (!probe_->warm_up(patience_)) probe_.reset();
  } catch (const ModelError&) {  // the rank that will hold the damaged layer reports it
    probe_.reset();
  } catch (const std::bad_alloc&) {  // the plan reports that
    probe_.reset();
  }
}

/// The median of this measurement and the kept ones, which a quick check must confirm; keeps it.
SpeedProbe::Speed SpeedProbe::measure_speed(LayerProbe& probe, const MeasurementKey& key, const std::atomic<bool>& stop) const {
  const std::string folder = measurement_folder();
  const std::int64_t now_s = std::time(nullptr);
  auto speeds = layout_.measures_anew() ? std::vector<MeasuredSpeed>{} : read_speeds(folder, key, now_s);
  const double check = speeds.empty() ? 0 : probe.quick_check();
  const bool holds = agrees(speeds, check);
  if (!holds) speeds.clear();
  speeds = with_latest(std::move(speeds), {holds ? check : probe.measure(), now_s});
  if (!stop) keep_speeds(folder, key, speeds, now_s);
  return {median_ns_per_byte(speeds), holds};
}

wire::Measured SpeedProbe::measure(const std::atomic<bool>& stop) {
  if (!probe_) return {};
  probe_->stop_on(stop);
  const MeasurementKey key = units_.speed_key();
  const Speed speed = measure_speed(*probe_, key, stop);
  wire::Measured measured{speed.ns_per_byte, {}};
  if (layout_.needs_widths()) {
    const std::string folder = measurement_folder();
    const std::int64_t now_s = std::time(nullptr);
    const auto kept = speed.as_kept ? read_width_multiples(folder, key, now_s) : std::nullopt;
    measured.width_multiples = kept ? *kept : probe_->width_multiples(kProbedWidths);
    if (!kept && !stop) keep_width_multiples(folder, key, measured.width_multiples, now_s);
  }
  probe_.reset();  // its memory is now available for the weights
  measured.ns_per_byte = with_device(measured.ns_per_byte, stop);
  models_.target().file.release_pages();
  return measured;
}

/// Number of layers that the device is likely to compute alone: as told, or as many as its free memory holds. The plan decides, as the
/// cache and drafts count, too.
double SpeedProbe::device_layers(std::int64_t layer) const {
  if (units_.first_layers() != wire::kLayersThatFit) return units_.first_layers();
  const ModelFile& target = models_.target();
  const auto bytes = static_cast<double>(layer_bytes(target.file, target.h, layer));
  return std::floor(static_cast<double>(units_.first_layers_bytes()) / std::max(1.0, bytes));
}

/// If a device has some of the rank's layers: the mean over as many layers as the rank would have with equal shares. The device's own speed
/// is kept like that of the others, which cores compute, or which are copied.
double SpeedProbe::with_device(double ns_per_byte, const std::atomic<bool>& stop) {
  if (units_.first_layers() == 0) return ns_per_byte;
  const ModelFile& target = models_.target();
  try {
    const std::int64_t layer = location_.probed_layer(target.h.layers);
    LayerProbe probe(target, {layer, layer + 1}, units_.of(0).first_unit());
    probe.stop_on(stop);
    if (!probe.warm_up(patience_)) return ns_per_byte;
    const double layers = std::max(1.0, static_cast<double>(target.h.layers) / location_.ranks);
    const double device = measure_speed(probe, units_.device_key(), stop).ns_per_byte;
    return ns_per_byte + (device - ns_per_byte) * std::min(device_layers(layer), layers) / layers;
  } catch (const ModelError&) {
    return ns_per_byte;
  } catch (const std::bad_alloc&) {  // not enough memory for a layer: the plan reports that, and how many layers would fit
    return ns_per_byte;
  }
}

}  // namespace yamata
