#include "cache/kv_store.hpp"

#include <fmt/format.h>

#include <new>

#include "node/error.hpp"

namespace yamata {
namespace {

std::size_t plane_bytes(int head_dim, std::int64_t cells, CacheType type) {
  const TypeTraits& t = traits(tensor_type(type));
  return static_cast<std::size_t>(head_dim) / t.block_elements * t.block_bytes * static_cast<std::size_t>(cells);
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
    : kv_heads_(shape.kv_heads),
      k_bytes_(plane_bytes(shape.head_dim, cells, types.k)),
      v_bytes_(shape.values ? plane_bytes(shape.head_dim, cells, types.v) : 0),
      types_(shape.values ? types : CacheTypes(types.k)),
      bytes_(bytes_for(shape, cells, types)) {
  require_storable(types_, shape.head_dim);
  try {
    memory_ = unit.allocate(bytes_, BufferUse::kCache);
  } catch (const std::bad_alloc&) {
    throw ModelError(fmt::format("no memory for a KV cache of {} MiB; lower -c", bytes_ >> 20));
  }
  base_ = memory_->host().data();
}

void KvStore::touch() {
  constexpr std::size_t kPage = 4096;
  volatile std::byte* bytes = base_;
  for (std::size_t at = 0; at < bytes_; at += kPage) bytes[at] = std::byte{0};
}

void* KvStore::k(int layer, int kv_head) const {
  return base_ + (k_bytes_ + v_bytes_) *
                     (static_cast<std::size_t>(layer) * static_cast<std::size_t>(kv_heads_) + static_cast<std::size_t>(kv_head));
}

void* KvStore::v(int layer, int kv_head) const { return static_cast<std::byte*>(k(layer, kv_head)) + (v_bytes_ > 0 ? k_bytes_ : 0); }

}  // namespace yamata
