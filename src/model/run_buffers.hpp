#pragma once
// The working memory of a run's operations.
#include "node/buffer.hpp"
#include "src/model/stage_buffers.hpp"

namespace yamata {

/// Each is [rows][...], with sizes from StageBuffers. A member of a group updates only its own columns of x.
struct RunBuffers {
  explicit RunBuffers(ComputeUnit& unit)
      : x(unit),
        input(unit),
        q(unit),
        k(unit),
        v(unit),
        attention(unit),
        low_queries(unit),
        latent_q(unit),
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
        highest(unit),
        expert_begins(unit),
        head_pairs(unit),
        head_begins(unit) {}

  void reserve(const StageBuffers& sizes, std::int64_t rows, std::int64_t logit_rows);
  std::size_t floats() const;

  FloatBuffer x, input, q, k, v, attention, low_queries, latent_q, gate, up, normed, ffn_input, branch;
  FloatBuffer router;          // [rows][experts], then [rows] of the shared expert
  FloatBuffer choice;          // weights, pairs, tokens, chosen: [rows][experts used] each
  FloatBuffer angles;          // [ropes][rows][rotary_dim/2][2]
  FloatBuffer chosen, logits;  // [logit_rows][dim], [logit_rows][vocabulary]
  FloatBuffer highest;         // Highest: [units][logit_rows]
  FloatBuffer expert_begins;   // [experts + 1]
  FloatBuffer head_pairs;      // for latent attention: tokens and heads: [heads][rows] each
  FloatBuffer head_begins;     // [heads + 1]
};

}  // namespace yamata
