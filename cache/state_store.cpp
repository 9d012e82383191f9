#include "cache/state_store.hpp"

#include <fmt/format.h>

#include <new>

#include "node/error.hpp"
#include "node/limits.hpp"
#include "node/memory.hpp"

namespace yamata {
namespace {

struct LayerFloats {
  std::int64_t states, columns, updates;
};

LayerFloats floats_of(const StateShape& shape, StateCounts counts) {
  return {counts.states * shape.state_floats(), (counts.inputs + counts.kept * counts.states) * shape.channels(),
          counts.inputs * shape.update_floats()};
}

}  // namespace

std::size_t StateStore::bytes_for(const StateShape& shape, std::int64_t layers, StateCounts counts) {
  const LayerFloats floats = floats_of(shape, counts);
  return static_cast<std::size_t>(layers * (floats.states + floats.columns + floats.updates)) * sizeof(float);
}

StateStore::StateStore(ComputeUnit& unit, const StateShape& shape, std::int64_t layers, StateCounts counts) {
  const LayerFloats floats = floats_of(shape, counts);
  states_ = static_cast<std::size_t>(floats.states);
  columns_ = static_cast<std::size_t>(floats.columns);
  updates_ = static_cast<std::size_t>(floats.updates);
  const std::size_t bytes = bytes_for(shape, layers, counts);
  try {
    memory_ = unit.allocate(bytes, BufferUse::kCache);
  } catch (const std::bad_alloc&) {
    throw ModelError(fmt::format("no memory for states of {} MiB on {}; lower -b{}", bytes >> 20, unit.device(), or_raise_memory_limit()));
  }
}

StateMemory StateStore::layer(std::int64_t layer) const {
  float* const begin = reinterpret_cast<float*>(memory_->host().data()) + static_cast<std::size_t>(layer) * (states_ + columns_ + updates_);
  return {begin, begin + states_, begin + states_ + columns_};
}

void StateStore::touch() { touch_pages(memory_->host()); }

}  // namespace yamata
