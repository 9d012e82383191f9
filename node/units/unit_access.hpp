#pragma once
// Which memory the operations of several units access, and whether the units must synchronize before the next operation.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "node/units/cut.hpp"

namespace yamata {

/// Memory that units read or write, each unit its part of every row.
struct UnitAccess {
  const std::byte *begin, *end;
  std::int64_t stride;  ///< from one row to the next; -1: rows are divided, 0: each unit may access all of it
  Cut cut;
  bool writes = false;

  /// Rows of `width` floats at distances of `stride` floats; each unit accesses its columns.
  static UnitAccess columns(const float* base, std::int64_t rows, std::int64_t stride, std::int64_t width, const Cut& cut, bool writes);
  /// Rows of `width` floats; each unit accesses its rows.
  static UnitAccess token_rows(const float* base, std::int64_t width, const Cut& cut, bool writes);
  /// The cells of a layer's key/value heads, whose memory begins at `planes`; each unit accesses those of its heads.
  static UnitAccess cells(void* const* planes, std::int64_t kv_heads, const Cut& heads, bool writes);
  /// Each unit may access all of it.
  static UnitAccess whole(const void* base, std::size_t bytes, bool writes);

  bool touches(const UnitAccess& other) const { return begin < other.end && other.begin < end; }
  /// Whether each unit accesses the same part of the same memory.
  bool same_parts(const UnitAccess& other) const {
    return begin == other.begin && stride == other.stride && stride != 0 && cut == other.cut;
  }
};

/// The accesses since the last synchronization.
class UnitAccesses {
 public:
  /// Whether a unit would read or overwrite what another has written, or overwrite what another may still be reading.
  bool conflicts(const UnitAccess& access) const;
  bool conflicts(std::span<const UnitAccess> accesses) const;
  void add(const UnitAccess& access) { accesses_.push_back(access); }
  void add(std::span<const UnitAccess> accesses) { accesses_.insert(accesses_.end(), accesses.begin(), accesses.end()); }
  void clear() { accesses_.clear(); }
  std::span<const UnitAccess> all() const { return accesses_; }

 private:
  std::vector<UnitAccess> accesses_;
};

}  // namespace yamata
