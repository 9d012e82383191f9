#pragma once
// The working memory of a run's operations.
#include "node/float_buffer.hpp"
#include "src/model/stage_buffers.hpp"

namespace yamata {

/// Each is [rows][...], with sizes from StageBuffers. A member of a group updates only its own columns of x.
class RunBuffers {
  static constexpr BufferUse kOwn = BufferUse::kIntermediate;
  ComputeUnit& unit_;  // before what is made with it

 public:
  /// `whole_model`: the host neither writes nor reads x.
  RunBuffers(ComputeUnit& unit, bool whole_model) : unit_(unit), x(unit, whole_model ? kOwn : BufferUse::kActivations) {}

  void reserve(const StageBuffers& sizes, std::int64_t rows, std::int64_t logit_rows);
  std::size_t floats() const;

  FloatBuffer x, input{unit_, kOwn}, q{unit_, kOwn}, k{unit_, kOwn}, v{unit_, kOwn}, attention{unit_, kOwn}, low_queries{unit_, kOwn};
  FloatBuffer cell_q{unit_, kOwn}, cell_k{unit_, kOwn}, cell_v{unit_, kOwn};
  FloatBuffer index_q{unit_, kOwn}, index_k{unit_, kOwn}, index_weights{unit_, kOwn};
  FloatBuffer picked{unit_};  // numbers of cells
  FloatBuffer convolved{unit_, kOwn}, convolved_gate{unit_, kOwn}, state_gates{unit_, kOwn}, state_inputs{unit_, kOwn};
  FloatBuffer gate{unit_, kOwn}, up{unit_, kOwn}, normed{unit_, kOwn}, ffn_input{unit_, kOwn}, branch{unit_, kOwn};
  FloatBuffer stream_normed{unit_, kOwn}, stream_gates{unit_, kOwn}, stream_low{unit_, kOwn}, block{unit_, kOwn};
  FloatBuffer stream_numbers{unit_};               // of hyper-connections: [rows][streams]
  FloatBuffer router{unit_};                       // [rows][experts], then [rows] of the shared expert
  FloatBuffer choice{unit_};                       // weights, pairs, tokens, chosen: [rows][experts used] each
  FloatBuffer angles{unit_};                       // [ropes][rows][rotary_dim/2][2]
  FloatBuffer block_angles{unit_};                 // of blocks of an index that end with rows: [rows][rotary_dim/2][2]
  FloatBuffer query_scales{unit_};                 // [rows]
  FloatBuffer chosen{unit_, kOwn}, logits{unit_};  // [logit_rows][dim], [logit_rows][vocabulary]
  FloatBuffer highest{unit_};                      // Highest: [units][logit_rows]
  FloatBuffer expert_begins{unit_};                // [experts + 1]
  FloatBuffer head_pairs{unit_};                   // for latent attention: tokens and heads: [heads][rows] each
  FloatBuffer head_begins{unit_};                  // [heads + 1]
  FloatBuffer sums{unit_, kOwn};                   // of a dense feed-forward, then of experts: [rows][own columns] each
  FloatBuffer layer_inputs{unit_};                 // per-layer embeddings: [rows][layers from this stage on][input_dim]
  FloatBuffer layer_gates{unit_, kOwn};            // the same
  FloatBuffer passed{unit_};                       // keys, then values of each layer that another stage shares
  FloatBuffer ones{unit_};                         // weights of a norm or of an index
  FloatBuffer suppressed{unit_};                   // [vocabulary here]: 0, or minus infinity
};

}  // namespace yamata
