#pragma once
// The list of operations of a layer, from its spec.
#include <span>
#include <vector>

#include "src/model/key_blocks.hpp"
#include "src/model/run_buffers.hpp"
#include "src/model/weights.hpp"

namespace yamata {

/// The cache of one layer, and the visible cells of each row.
struct LayerCache {
  void* const* k;  ///< [kv heads on this rank] -> [cell][head_dim]
  void* const* v;
  TensorType k_type, v_type;
  const std::int32_t* cells;                     ///< [rows]
  std::span<const std::int32_t> const* visible;  ///< [rows]
  const float* angles;                           ///< [rows][rotary_dim/2][2]
  const float* query_scales = nullptr;           ///< [rows], if the layer scales queries
  // Of sparse attention: the keys of the layer's index, and, where a row sees more cells than it picks, the cells that rows pick.
  void* const* index = nullptr;
  std::span<const std::int32_t> const* picked = nullptr;
  const KeyBlocks* blocks = nullptr;  ///< if the index has blocks
  // Keys and values that pass to another stage: [rows][kv heads of all members][head_dim], before RoPE; null: none.
  float *passed_k = nullptr, *passed_v = nullptr;
  // Per-layer embeddings: this layer's, and memory for their gates, both with rows `input_stride` floats apart.
  const float* inputs = nullptr;
  float* input_gates = nullptr;
  std::int64_t input_stride = 0;
  // Of a recurrent layer instead:
  const StatePlan* plan = nullptr;
  StateMemory states{};
  bool* finished = nullptr;        ///< as in DeltaRuleOp
  float* ngram_columns = nullptr;  ///< of the layer's n-gram embeddings: FarConvolutionOp::columns
};

/// Adds the operations of layers, and of the part after them, to a list. Its arguments must outlive the run.
class LayerOps {
 public:
  /// `exchange`: of the members of a group; null: this rank is alone.
  LayerOps(const Hyperparameters& h, const Shard& shard, GroupExchange* exchange, RunBuffers& buffers, std::vector<Op>& ops)
      : h_(h), shard_(shard), exchange_(exchange), buffers_(buffers), ops_(ops) {}

  /// `whole`: all columns of the residual stream are on this rank, as at the beginning of a stage.
  void add_layer(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, std::int64_t rows, bool whole);
  /// The output norm of rows of the residual stream; `out`: [rows][dim], may be x.
  void add_output_norm(const WeightSet& weights, float* x, std::int64_t rows, bool whole, float* out);
  /// Logits of rows of the residual stream, which may be changed.
  void add_logits(const WeightSet& weights, float* x, std::int64_t rows);

  /// Before the layers of a run: the inputs that each layer has of each token (per-layer embeddings), [rows][layers][input_dim].
  void add_layer_inputs(const WeightSet& weights, std::span<const std::int32_t> tokens);
  /// Writes keys, [rows][kv heads here][head_dim] before RoPE, and values of a layer of another stage into the cache.
  void add_cells(const LayerSpec& spec, const LayerCache& cache, float* k, const float* v, std::int64_t rows);
  /// With hyper-connections, before the layers of a run: numbers the streams of its rows.
  void number_streams(std::int64_t rows);
  /// Weights of hyper-connections; `weights`: null after the last block.
  struct StreamWeights {
    const float* norm;
    const Matrix *down, *up, *weights;
  };
  /// Mixes the streams of rows: the input of a block, or of the output; `out`: [rows][dim].
  void add_mix(const StreamWeights& streams, const float* x, std::int64_t rows, float* out);
  /// The mean of each row's streams; `out`: [rows][dim].
  void add_stream_mean(const float* x, std::int64_t rows, float* out);
  /// For latent attention, before the layers of a run: numbers the pairs of its rows and this rank's heads.
  void number_heads(std::int64_t rows);

  SharedColumns shared(std::span<const std::int64_t> cuts) const { return {shard_.whole() ? nullptr : exchange_, cuts}; }

 private:
  struct NormWeights {
    NormKind kind;
    const float *weight, *bias;
  };
  static StreamWeights attention_streams(const WeightSet& weights);
  static StreamWeights ffn_streams(const WeightSet& weights);
  static StreamWeights output_streams(const WeightSet& weights);
  LinearOp mixed_input(const StreamWeights& streams, std::int64_t rows);
  float* block_columns() const;
  void add_block(std::int64_t rows);
  void add_feed_forward_of_streams(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows);
  void norm_streams(const float* x, std::int64_t rows, const float* weight, float* out);
  void add_ngrams(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, std::int64_t rows);
  static NormWeights ffn_norm_of(const LayerSpec& spec, const WeightSet& weights);
  void add_feed_forward(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows);
  void add_norm(const NormWeights& norm, float* x, std::int64_t rows, bool whole, float* out);
  LinearOp residual_input(float* x, std::int64_t rows, const float* norm, bool whole) const;
  LinearOp normed_input(const NormWeights& norm, std::int64_t rows, bool whole);
  void add_token_norm(float* x, std::int64_t rows, std::span<const std::int64_t> cuts, Interval own, const float* weight);
  void add_attention(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, std::int64_t rows);
  ExpertChoice all_heads(std::int64_t rows) const;
  void add_own_heads(const LayerSpec& spec, const WeightSet& weights, LinearOp input);
  void norm_keys_and_values(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, std::int64_t rows);
  void pass_keys_and_values(const NormOp& keys, const NormOp& values, const LayerCache& cache, std::int64_t rows);
  StoreOp store(const LayerSpec& spec, const LayerCache& cache, std::int64_t rows) const;
  void suppress_tokens(std::int64_t rows);
  void norm_columns(float* x, std::int64_t rows, const NormWeights& norm);
  void add_both_feed_forwards(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows);
  void add_layer_input(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, std::int64_t rows);
  void add_head_norm(const LayerSpec& spec, float* x, std::int64_t rows, Interval own, const float* weight);
  void pad_heads(std::int64_t rows);
  bool stores_other_queries() const { return h_.is_latent() || h_.padding > 0; }
  void add_gated_queries(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, LinearOp input);
  void add_gate(std::int64_t rows);
  LinearOp rule_products(const LayerSpec& spec, const WeightSet& weights, LinearOp input) const;
  StateInputsOp state_inputs(const WeightSet& weights, const LayerCache& cache) const;
  StateInputsOp rule_inputs(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache) const;
  void add_rule(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, LinearOp input);
  void add_convolution(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, LinearOp input);
  StateInputsOp scan_inputs(const WeightSet& weights, const LayerCache& cache) const;
  void add_scan(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, LinearOp input);
  void add_state_out(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows, const float* norm = nullptr);
  void add_latent_heads(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, LinearOp input, std::int64_t rows);
  void add_index(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, std::int64_t rows);
  StoreOp index_store(const LayerSpec& spec, const LayerCache& cache, std::int64_t rows) const;
  void add_block_index(const LayerSpec& spec, const WeightSet& weights, const LayerCache& cache, std::int64_t rows);
  void add_values(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows);
  void add_dense(const LayerSpec& spec, const WeightSet& weights, LinearOp input, std::int64_t rows);
  void add_experts(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows);
  LinearOp expert_input(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows);
  void add_expert_sums(const LayerSpec& spec, const WeightSet& weights, AddOp add);
  void add_router(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows);
  float* expert_sum(std::int64_t rows) const { return buffers_.sums.data() + rows * shard_.rows(Extent::kDim).count(); }
  void weigh_inputs(const ExpertChoice& choice, std::int64_t pairs);
  AddOp branch_to_residual(const LayerSpec& spec, std::int64_t rows) const;
  void add_shared_expert(const LayerSpec& spec, const WeightSet& weights, std::int64_t rows);
  struct Product {
    const Matrix* weight;
    const float* bias;
  };
  void add_to_residual(const LayerSpec& spec, LinearOp product, Product with, const NormWeights& post);
  const float* own_part(const float* bias, Extent extent) const { return bias ? bias + shard_.rows(extent).begin : nullptr; }
  LinearOp activated(const LayerSpec& spec, std::int64_t rows, std::int64_t cols, std::span<const std::int64_t> cuts) const;

  const Hyperparameters& h_;
  const Shard& shard_;
  GroupExchange* const exchange_;
  RunBuffers& buffers_;
  std::vector<Op>& ops_;
};

}  // namespace yamata
