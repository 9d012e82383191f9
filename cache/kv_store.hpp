#pragma once
// Keys and values of a stage's layers.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace yamata {

enum class CacheType { kF16, kF32 };

/// K and V memory of `layers` layers: [layer][kv head][cell][head_dim], pages touched only when written.
class KvStore {
 public:
  KvStore(int layers, int kv_heads, int head_dim, std::int32_t cells, CacheType type);
  ~KvStore();
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  CacheType type() const { return type_; }
  void* k(int layer, int kv_head) const;
  void* v(int layer, int kv_head) const;
  std::size_t bytes() const { return bytes_; }
  /// Bytes a store of this shape takes.
  static std::size_t bytes_for(int layers, int kv_heads, int head_dim, std::int64_t cells, CacheType type);

 private:
  int kv_heads_;
  std::size_t plane_bytes_;  // one kv head's K or V
  CacheType type_;
  std::size_t bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace yamata
