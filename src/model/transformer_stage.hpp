#pragma once
// Layers of a transformer of the llama family, computed from mapped weights.
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "cache/kv_store.hpp"
#include "node/memory.hpp"
#include "src/model/rope.hpp"
#include "src/model/stage_buffers.hpp"
#include "src/model/stage_model.hpp"
#include "src/model/weights.hpp"

namespace yamata {

/// Operations that a layer is computed in: a cancelled run is left at the end of one of them.
inline constexpr int kOperationsPerLayer = 6;

class TransformerStage final : public StageModel {
 public:
  /// Layers `range` of the model in `file`, or a member's part of them, computed by `unit`; both outlive this. Throws ModelError, and
  /// UsageError where the layers cannot be cut into so many parts.
  TransformerStage(const gguf::File& file, const Hyperparameters& h, LayerRange range, const ContextOptions& options, ComputeUnit& unit);
  /// Waits for a run under way, which reads and writes memory of this.
  ~TransformerStage() override;

  void load(const std::atomic<bool>* stop) override;
  /// Bytes of the buffers that the largest run so far has needed.
  std::size_t buffer_bytes() const;
  /// Brings the cache's memory in, as if every cell had been written.
  void touch_cache() { store_.touch(); }
  std::size_t load_steps() const override { return load_steps_; }
  void start(const StageBatch& batch, const std::atomic<bool>* stop) override;
  ComputeUnit& unit() override { return unit_; }
  const ComputeUnit& unit() const override { return unit_; }
  std::span<const float> activations() const override;
  std::span<const float> logits() const override;
  std::span<const float> features() const override;
  CellTable& cells() override { return cells_; }
  std::int64_t width() const override { return h_.dim; }
  std::int64_t vocabulary() const override { return h_.vocabulary; }
  Interval logit_tokens() const override { return shard_.rows(Extent::kVocabulary); }
  int members() const override { return shard_.members(); }
  double share() const override { return shard_.share(); }
  double exchange_s() const override { return exchange_ ? exchange_->seconds() : 0; }
  std::uint64_t exchange_bytes() const override { return exchange_ ? exchange_->bytes_sent() : 0; }
  void abandon_group() override {
    if (exchange_) exchange_->abandon();
  }
  int awaited() const override { return exchange_ ? exchange_->awaited() : -1; }
  LayerRange layers() const override { return range_; }
  bool first() const override { return range_.begin == 0; }
  bool last() const override { return range_.end == h_.layers; }

 private:
  void pack();
  void reserve(std::size_t rows, std::size_t logit_rows);
  void place(const StageBatch& batch);
  void build(const StageBatch& batch);
  void build_layer(std::size_t layer, std::int64_t rows);
  void build_attention(std::size_t layer, std::int64_t rows);
  void build_feed_forward(const WeightSet& weights, std::int64_t rows);
  void build_output();
  void begin_features(const StageBatch& batch);
  void build_layer_features(std::size_t layer);
  void build_output_features();
  float* add_features();
  SharedColumns shared(std::span<const std::int64_t> cuts) const { return {shard_.whole() ? nullptr : exchange_, cuts}; }
  LinearOp residual_input(float* x, std::int64_t rows, const float* norm, bool whole) const;
  LinearOp::Part residual_output(const Matrix& weight) const;

  const gguf::File& file_;
  Hyperparameters h_;
  LayerRange range_;
  const Shard shard_;
  GroupExchange* const exchange_;
  StageWeights weights_;
  const StageBuffers buffers_;
  Rope rope_;
  CellTable cells_;
  KvStore store_;
  ComputeUnit& unit_;
  bool packs_;                 // when it is loaded
  bool file_is_read_ = false;  // and most of it needed no more
  PageMemory packed_;

  std::vector<void*> cache_k_, cache_v_;  // [layer][kv head]
  BatchCells batch_cells_;
  std::vector<std::span<const CellId>> visible_;
  FloatBuffer angles_;                                                    // [rows][rotary_dim/2][2]
  FloatBuffer x_, input_, q_, k_, v_, attention_, gate_, up_;             // [rows][...]; of x_ a member keeps up its own columns
  FloatBuffer chosen_, logits_;                                           // [logit_rows][dim], [logit_rows][vocabulary]
  FloatBuffer features_;                                                  // [feature layers here][feature_rows][dim]
  FloatBuffer feature_inputs_;                                            // [feature_rows][dim], before the output norm
  std::vector<std::int32_t> logit_rows_, feature_rows_, feature_layers_;  // of the layers those here
  std::size_t features_built_ = 0;                                        // layers
  std::size_t rows_ = 0, load_steps_ = 0;
  std::vector<std::span<const std::byte>> tensors_;
  std::vector<Op> ops_;
};

}  // namespace yamata
