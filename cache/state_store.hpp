#pragma once
// The memory of layers with states: these, and the inputs of the latest tokens.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "node/compute_unit.hpp"

namespace yamata {

/// How many states, and tokens' inputs, each layer has.
struct StateCounts {
  std::int32_t inputs = 0, states = 0;
  std::int32_t kept = StateShape::kColumns;  ///< columns with each state
};

/// [layer]: as StateMemory says, in F32.
class StateStore {
 public:
  /// Allocates in the memory of the unit that computes with it. Throws ModelError if there is too little.
  StateStore(ComputeUnit& unit, const StateShape& shape, std::int64_t layers, StateCounts counts);

  StateMemory layer(std::int64_t layer) const;
  /// Writes to every page, so that all memory is allocated. Call it before anything is stored.
  void touch();
  static std::size_t bytes_for(const StateShape& shape, std::int64_t layers, StateCounts counts);

 private:
  std::size_t states_ = 0, columns_ = 0, updates_ = 0;  // floats of a layer
  std::unique_ptr<Buffer> memory_;
};

}  // namespace yamata
