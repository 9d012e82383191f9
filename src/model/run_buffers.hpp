#pragma once
// The memory that the operations of a run work in.
#include "node/buffer.hpp"
#include "src/model/stage_buffers.hpp"

namespace yamata {

/// [rows][...] each, as StageBuffers says; of x a member of a group keeps up its own columns.
struct RunBuffers {
  explicit RunBuffers(ComputeUnit& unit)
      : x(unit),
        input(unit),
        q(unit),
        k(unit),
        v(unit),
        attention(unit),
        gate(unit),
        up(unit),
        normed(unit),
        ffn_input(unit),
        branch(unit),
        router(unit),
        choice(unit),
        angles(unit),
        chosen(unit),
        logits(unit),
        expert_begins(unit) {}

  void reserve(const StageBuffers& sizes, std::int64_t rows, std::int64_t logit_rows);
  std::size_t floats() const;

  FloatBuffer x, input, q, k, v, attention, gate, up, normed, ffn_input, branch;
  FloatBuffer router;          // [rows][experts], then [rows] of the shared expert
  FloatBuffer choice;          // weights, pairs, tokens, chosen: [rows][experts used] each
  FloatBuffer angles;          // [ropes][rows][rotary_dim/2][2]
  FloatBuffer chosen, logits;  // [logit_rows][dim], [logit_rows][vocabulary]
  FloatBuffer expert_begins;   // [experts + 1]
};

}  // namespace yamata
