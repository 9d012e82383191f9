#pragma once
// Measures runs of a whole model on one compute unit, without ranks and pipeline.
#include <vector>

#include "src/model/model_file.hpp"
#include "src/model/transformer_stage.hpp"

namespace yamata {

/// The work of a run: bytes that it must read, and multiply-adds of its weights and its attention.
struct RunDemand {
  double bytes = 0;
  double byte_ops = 0;   ///< with quantized weights
  double float_ops = 0;  ///< with other weights, and in attention
};

/// Bytes of the matrices that a model's tokens are multiplied with, those of all experts included.
double weight_bytes(const ModelFile& model);

class ModelTimer {
 public:
  /// `model` and `unit` must outlive this. Throws ModelError or UsageError.
  ModelTimer(const ModelFile& model, ComputeUnit& unit, const ContextOptions& options);

  /// Loads weights and cache into memory.
  void load();
  /// Seconds of a run of `width` tokens with all logits, after `context` others: the mean of as many runs as fit into some hundredths of a
  /// second, at least one.
  double run(int width, int context);
  RunDemand demand(int width, int context) const;
  /// The work of all weights, for one token.
  RunDemand weights() const;

 private:
  void compute(int width, int context);
  void wait();

  const Hyperparameters h_;
  const CacheTypes types_;
  ComputeUnit& unit_;
  TransformerStage stage_;
  RunDemand weights_, experts_;  // experts_: of one token that uses all experts
  std::vector<std::int32_t> tokens_, logit_rows_;
  std::vector<Placement> placements_;
};

/// Bytes of the weights that are multiplied with, packed for `unit`, without those that it does not pack.
std::size_t packed_bytes(const ModelFile& model, const ComputeUnit& unit);

}  // namespace yamata
