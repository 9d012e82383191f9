#pragma once
// The working memory of a run's operations.
#include "node/float_buffer.hpp"
#include "src/model/stage_buffers.hpp"

namespace yamata {

/// Each is [rows][...], with sizes from StageBuffers. A member of a group updates only its own columns of x.
struct RunBuffers {
  /// `whole_model`: the host neither writes nor reads x.
  RunBuffers(ComputeUnit& unit, bool whole_model)
      : x(unit, whole_model ? kOwn : BufferUse::kActivations),
        input(unit, kOwn),
        q(unit, kOwn),
        k(unit, kOwn),
        v(unit, kOwn),
        attention(unit, kOwn),
        low_queries(unit, kOwn),
        cell_q(unit, kOwn),
        cell_k(unit, kOwn),
        cell_v(unit, kOwn),
        convolved(unit, kOwn),
        convolved_gate(unit, kOwn),
        state_gates(unit, kOwn),
        state_inputs(unit, kOwn),
        gate(unit, kOwn),
        up(unit, kOwn),
        normed(unit, kOwn),
        ffn_input(unit, kOwn),
        branch(unit, kOwn),
        router(unit),
        choice(unit),
        angles(unit),
        query_scales(unit),
        chosen(unit, kOwn),
        logits(unit),
        highest(unit),
        expert_begins(unit),
        head_pairs(unit),
        head_begins(unit) {}

  void reserve(const StageBuffers& sizes, std::int64_t rows, std::int64_t logit_rows);
  std::size_t floats() const;

  FloatBuffer x, input, q, k, v, attention, low_queries, cell_q, cell_k, cell_v, convolved, convolved_gate, state_gates, state_inputs, gate,
      up, normed, ffn_input, branch;
  FloatBuffer router;          // [rows][experts], then [rows] of the shared expert
  FloatBuffer choice;          // weights, pairs, tokens, chosen: [rows][experts used] each
  FloatBuffer angles;          // [ropes][rows][rotary_dim/2][2]
  FloatBuffer query_scales;    // [rows]
  FloatBuffer chosen, logits;  // [logit_rows][dim], [logit_rows][vocabulary]
  FloatBuffer highest;         // Highest: [units][logit_rows]
  FloatBuffer expert_begins;   // [experts + 1]
  FloatBuffer head_pairs;      // for latent attention: tokens and heads: [heads][rows] each
  FloatBuffer head_begins;     // [heads + 1]

 private:
  static constexpr BufferUse kOwn = BufferUse::kIntermediate;
};

}  // namespace yamata
