#pragma once
// The memory of draft heads, and what they read.
#include <cstdint>
#include <vector>

namespace yamata::draft_heads {

/// What a job needs to know about heads before they are loaded.
struct Needs {
  std::vector<std::int32_t> feature_layers;  ///< the target's layers that they read, ascending
  std::uint64_t weight_bytes = 0;            ///< bytes kept in memory, including a copy of the target's output if they use it
  std::uint64_t evaluation_bytes = 0;        ///< of these, bytes read by one evaluation
  std::uint64_t cache_per_cell = 0;          ///< bytes
  std::uint64_t row_bytes = 0;               ///< bytes of buffers per token of a run
};

}  // namespace yamata::draft_heads
