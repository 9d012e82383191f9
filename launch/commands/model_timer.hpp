#pragma once
// What one run of a whole model costs on one compute unit, without ranks and pipeline.
#include <vector>

#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {

/// What a run cannot do without: the least it reads, and the multiplications and additions of its weights and its attention.
struct RunDemand {
  double bytes = 0;
  double byte_ops = 0;   ///< with quantized weights
  double float_ops = 0;  ///< with others, and of attention
};

class ModelTimer {
 public:
  /// `model` and `unit` outlive this. Throws ModelError or UsageError.
  ModelTimer(const ModelFile& model, ComputeUnit& unit, const ContextOptions& options);

  /// Brings weights and cache into memory.
  void load();
  /// Seconds of a run of `width` tokens, all of whose logits are asked for, behind `context` others; the mean of those that fit into
  /// some hundredths of a second, one at least.
  double run(int width, int context);
  RunDemand demand(int width, int context) const;
  /// Of all weights, each for one token.
  RunDemand weights() const;

 private:
  void hold(int context);
  void compute(int width);
  void wait();

  const Hyperparameters h_;
  const CacheTypes types_;
  ComputeUnit& unit_;
  TransformerStage stage_;
  RunDemand weights_, experts_;  // of one token that uses all experts
  int held_ = -1;                // tokens in the cache
  std::vector<std::int32_t> tokens_, logit_rows_;
  std::vector<Placement> placements_;
};

/// Bytes of the weights that are multiplied with, as `unit` would pack them; those it does not pack left out.
std::size_t packed_bytes(const ModelFile& model, const ComputeUnit& unit);

}  // namespace yamata
