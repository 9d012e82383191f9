#pragma once
// The target's pipeline, as all texts share it.
#include "mpi/decoding/pipeline_speed.hpp"
#include "mpi/pipeline/batcher.hpp"

namespace yamata {

/// Cells that open guesses of all texts hold.
struct GuessCells {
  std::int32_t held = 0;
};

struct Target {
  /// The pipeline outlives this.
  explicit Target(Pipeline& target) : pipeline(target), batcher(target), speed(target) {}

  Pipeline& pipeline;
  Batcher batcher;
  PipelineSpeed speed;
  GuessCells guess_cells;
};

}  // namespace yamata
