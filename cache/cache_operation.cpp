#include "cache/cache_operation.hpp"

#include <stdexcept>

namespace yamata {

void apply(const CacheOperation& operation, CellTable& cells) {
  using Kind = CacheOperation::Kind;
  switch (operation.kind) {
    case Kind::kCopy:
      return cells.copy(operation.from, operation.sequences, operation.positions);
    case Kind::kKeep:
      return cells.keep(operation.sequences, operation.positions);
    case Kind::kRemove:
      return cells.remove(operation.sequences, operation.positions);
    case Kind::kClear:
      return cells.clear();
  }
  throw std::out_of_range("cell table: no such operation");
}

}  // namespace yamata
