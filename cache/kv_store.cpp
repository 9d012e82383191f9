#include "cache/kv_store.hpp"

#include <fmt/format.h>

#include <new>

#include "node/error.hpp"
#include "node/limits.hpp"
#include "node/memory.hpp"

namespace yamata {
namespace {

std::size_t plane_bytes(int head_dim, std::int64_t cells, CacheType type) {
  return row_bytes(tensor_type(type), head_dim) * static_cast<std::size_t>(cells);
}

}  // namespace

TensorType tensor_type(CacheType type) {
  switch (type) {
    case CacheType::kF32:
      return TensorType::F32;
    case CacheType::kQ8_0:
      return TensorType::Q8_0;
    case CacheType::kF16:
      break;
  }
  return TensorType::F16;
}

void require_storable(CacheTypes types, std::int64_t head_dim) {
  if ((types.k == CacheType::kQ8_0 || types.v == CacheType::kQ8_0) && head_dim % 32 != 0) {
    throw UsageError(
        fmt::format("a q8_0 cache needs heads of a multiple of 32 numbers, and this model's have {}; use --cache-type f16", head_dim));
  }
}

std::size_t KvStore::bytes_for(CacheShape shape, std::int64_t cells, CacheTypes types) {
  return static_cast<std::size_t>(shape.layers) * static_cast<std::size_t>(shape.kv_heads) *
         (plane_bytes(shape.head_dim, cells, types.k) + (shape.values ? plane_bytes(shape.head_dim, cells, types.v) : 0));
}

KvStore::KvStore(ComputeUnit& unit, CacheShape shape, std::int32_t cells, CacheTypes types)
    : KvStore(unit,
              std::vector<CacheLayer>(static_cast<std::size_t>(shape.layers), {{1, shape.kv_heads, shape.head_dim, shape.values}, cells}),
              types) {}

KvStore::KvStore(ComputeUnit& unit, const std::vector<CacheLayer>& layers, CacheTypes types)
    : types_(layers.empty() || layers.front().shape.values ? types : CacheTypes(types.k)) {
  for (const auto& [shape, n] : layers) {
    require_storable(types_, shape.head_dim);
    const std::size_t v_bytes = shape.values ? plane_bytes(shape.head_dim, n, types.v) : 0;
    layers_.push_back({bytes_, plane_bytes(shape.head_dim, n, types.k), v_bytes});
    bytes_ += bytes_for(shape, n, types);
  }
  try {
    memory_ = unit.allocate(bytes_, BufferUse::kCache);
  } catch (const std::bad_alloc&) {
    throw ModelError(
        fmt::format("no memory for a KV cache of {} MiB on {}; lower -c{}", bytes_ >> 20, unit.device(), or_raise_memory_limit()));
  }
  base_ = memory_->host().data();
}

void KvStore::touch() { touch_pages(memory_->host()); }

void* KvStore::k(int layer, int kv_head) const {
  const Planes& planes = layers_[static_cast<std::size_t>(layer)];
  return base_ + planes.begin + (planes.k_bytes + planes.v_bytes) * static_cast<std::size_t>(kv_head);
}

void* KvStore::v(int layer, int kv_head) const {
  const Planes& planes = layers_[static_cast<std::size_t>(layer)];
  return static_cast<std::byte*>(k(layer, kv_head)) + (planes.v_bytes > 0 ? planes.k_bytes : 0);
}

}  // namespace yamata
