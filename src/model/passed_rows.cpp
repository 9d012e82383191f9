#include "src/model/passed_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace yamata {

PassedRows::PassedRows(const Hyperparameters& h, std::int64_t cut) : dim(h.residual_dim()) {
  if (cut == 0 || cut == h.layers) return;
  inputs = inputs_from(h, cut);
  const LayerSpec next = h.layer_at(cut);
  if (next.picked > 0 && next.index_heads == 0) picked = next.picked;
  std::vector<bool> passed(static_cast<std::size_t>(cut));
  for (std::int64_t layer = cut; layer < h.layers; ++layer) {
    if (h.cache_layer(layer) < cut) passed[static_cast<std::size_t>(h.cache_layer(layer))] = true;
  }
  for (std::int64_t layer = 0; layer < cut; ++layer) {
    if (!passed[static_cast<std::size_t>(layer)]) continue;
    const Hyperparameters one = h.of_layer(layer);
    keys.push_back({layer, one.kv_heads * one.key_dim()});
  }
}

std::int64_t PassedRows::width() const {
  std::int64_t floats = dim + inputs + picked;
  for (const Keys& one : keys) floats += 2 * one.floats;
  return floats;
}

std::span<const float> PassedRows::inputs_in(std::span<const float> activations, std::int64_t rows) const {
  return activations.subspan(static_cast<std::size_t>(rows * dim), static_cast<std::size_t>(rows * inputs));
}

std::span<const float> PassedRows::keys_in(std::span<const float> activations, std::int64_t rows, std::size_t index) const {
  std::int64_t before = dim + inputs;
  for (std::size_t i = 0; i < index; ++i) before += 2 * keys[i].floats;
  return activations.subspan(static_cast<std::size_t>(rows * before), static_cast<std::size_t>(2 * rows * keys[index].floats));
}

std::span<const float> PassedRows::picked_in(std::span<const float> activations, std::int64_t rows) const {
  return activations.last(static_cast<std::size_t>(rows * picked));
}

std::size_t PassedRows::index_of(std::int64_t layer) const {
  const auto found = std::ranges::find(keys, layer, &Keys::layer);
  if (found == keys.end()) throw std::out_of_range(fmt::format("keys of layer {} do not pass", layer));
  return static_cast<std::size_t>(found - keys.begin());
}

}  // namespace yamata
