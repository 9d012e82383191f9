#include "mpi/decoding/feature_readers.hpp"

#include <algorithm>
#include <set>

namespace yamata {

FeatureReaders::FeatureReaders(const GuessSources& sources) {
  std::set<std::int32_t> all;
  for (const auto& source : sources.all()) {
    const std::vector<std::int32_t> layers = source->feature_layers();
    all.insert(layers.begin(), layers.end());
  }
  layers_.assign(all.begin(), all.end());
  for (const auto& source : sources.all()) {
    Reader reader{source.get(), {}};
    for (const std::int32_t layer : source->feature_layers())
      reader.layers.push_back(static_cast<std::size_t>(std::lower_bound(layers_.begin(), layers_.end(), layer) - layers_.begin()));
    if (!reader.layers.empty()) readers_.push_back(std::move(reader));
  }
}

void FeatureReaders::tell(std::int32_t position, std::span<const float> features) const {
  if (layers_.empty()) return;
  const std::size_t width = features.size() / layers_.size();
  std::vector<float> own;
  for (const Reader& reader : readers_) {
    own.clear();
    for (const std::size_t layer : reader.layers) {
      const auto values = features.subspan(layer * width, width);
      own.insert(own.end(), values.begin(), values.end());
    }
    reader.source->take_features(position, own);
  }
}

}  // namespace yamata
