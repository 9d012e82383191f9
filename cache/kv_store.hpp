#pragma once
// Keys and values of a stage's layers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "node/compute_unit.hpp"
#include "node/tensor_type.hpp"

namespace yamata {

enum class CacheType { kF16, kF32, kQ8_0 };
TensorType tensor_type(CacheType type);

/// How keys and values are stored.
struct CacheTypes {
  constexpr CacheTypes(CacheType both = CacheType::kF16) : k(both), v(both) {}
  constexpr CacheTypes(CacheType keys, CacheType values) : k(keys), v(values) {}
  CacheType k, v;
  friend bool operator==(const CacheTypes&, const CacheTypes&) = default;
};

/// Throws UsageError if heads of this size cannot be stored in this type: heads in Q8_0 are whole blocks of 32.
void require_storable(CacheTypes types, std::int64_t head_dim);

/// What the cache stores per token.
struct CacheShape {
  int layers = 0, kv_heads = 0, head_dim = 0;
  bool values = true;  ///< false: values are parts of the keys, without memory of their own
};

/// A layer in the cache.
struct CacheLayer {
  CacheShape shape;  ///< of one layer
  std::int32_t cells = 0;
};

/// K and V memory of some layers: [layer][kv head][cell][head_dim]. Pages are touched only when written. Layers may have different numbers
/// of cells, and different shapes.
class KvStore {
 public:
  /// Allocates in the memory of the unit that reads it. Throws ModelError if there is too little.
  KvStore(ComputeUnit& unit, CacheShape shape, std::int32_t cells, CacheTypes types);
  KvStore(ComputeUnit& unit, const std::vector<CacheLayer>& layers, CacheTypes types);

  CacheTypes types() const { return types_; }
  void* k(int layer, int kv_head) const;
  void* v(int layer, int kv_head) const;  ///< if values are parts of keys: the keys
  std::size_t bytes() const { return bytes_; }
  /// Writes to every page, so that all memory is allocated. Call it before anything is stored.
  void touch();
  /// Bytes of a store of this shape.
  static std::size_t bytes_for(CacheShape shape, std::int64_t cells, CacheTypes types);

 private:
  struct Planes {
    std::size_t begin, k_bytes, v_bytes;  // offset of the layer; sizes of one kv head
  };
  std::vector<Planes> layers_;
  CacheTypes types_;
  std::size_t bytes_ = 0;
  std::unique_ptr<Buffer> memory_;
  std::byte* base_ = nullptr;
};

}  // namespace yamata
