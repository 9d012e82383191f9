#include "cache/kv_store.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include "node/error.hpp"

namespace yamata {
namespace {

std::size_t element_bytes(CacheType type) { return type == CacheType::kF16 ? 2 : 4; }

}  // namespace

std::size_t KvStore::bytes_for(int layers, int kv_heads, int head_dim, std::int64_t cells, CacheType type) {
  return 2 * static_cast<std::size_t>(layers) * static_cast<std::size_t>(kv_heads) * static_cast<std::size_t>(head_dim) *
         static_cast<std::size_t>(cells) * element_bytes(type);
}

KvStore::KvStore(int layers, int kv_heads, int head_dim, std::int32_t cells, CacheType type)
    : kv_heads_(kv_heads),
      plane_bytes_(bytes_for(1, 1, head_dim, cells, type) / 2),
      type_(type),
      bytes_(bytes_for(layers, kv_heads, head_dim, cells, type)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw ModelError(fmt::format("no memory for a KV cache of {} MiB; lower -c", bytes_ >> 20));
  base_ = static_cast<std::byte*>(memory);
}

KvStore::~KvStore() { munmap(base_, bytes_); }

void* KvStore::k(int layer, int kv_head) const {
  return base_ +
         2 * plane_bytes_ * (static_cast<std::size_t>(layer) * static_cast<std::size_t>(kv_heads_) + static_cast<std::size_t>(kv_head));
}

void* KvStore::v(int layer, int kv_head) const { return static_cast<std::byte*>(k(layer, kv_head)) + plane_bytes_; }

}  // namespace yamata
